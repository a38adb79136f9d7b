"""What only RabbitMQ has: streams, delivery numbers and queues that outlive their subscribers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trio_stomp.brokers import (
    RABBITMQ,
    delivery_id,
    delivery_number,
    outlives_subscribers,
    reads_stream,
    stream_offset_of,
    swallowed_for,
)
from trio_stomp.errors import LocalProtocolError
from trio_stomp.types import Headers, StreamOffset


@pytest.mark.parametrize(
    ("offset", "spelled"),
    [
        ("first", "first"),
        ("last", "last"),
        ("next", "next"),
        (0, "offset=0"),
        (12, "offset=12"),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "timestamp=1700000000"),
    ],
)
def test_stream_offset_when_given_in_any_form_then_as_rabbitmq_has_it(offset: StreamOffset, spelled: str) -> None:
    assert RABBITMQ.dialect.subscribe_headers({"stream_offset": offset}) == [("x-stream-offset", spelled)]


def test_stream_offset_when_a_time_has_no_zone_then_error() -> None:
    with pytest.raises(LocalProtocolError, match="a time with a time zone"):
        RABBITMQ.dialect.subscribe_headers({"stream_offset": datetime(2023, 11, 14)})  # noqa: DTZ001  # the point


@pytest.mark.parametrize(
    ("headers", "offset"),
    [
        ({"x-stream-offset": "7"}, 7),
        ({"x-stream-offset": "first"}, None),
        ({"x-stream-offset": "9" * 5000}, None),
        ({"x-stream-offset": "-1"}, None),
        ({}, None),
    ],
)
def test_stream_offset_of_when_a_message_has_one_then_a_number(headers: dict[str, str], offset: int | None) -> None:
    assert stream_offset_of(Headers(headers)) == offset


def test_reads_stream_when_the_subscription_says_so_then_known() -> None:
    assert reads_stream([("prefetch-count", "1"), ("x-stream-offset", "next")])
    assert reads_stream([("x-queue-type", "stream")])
    assert not reads_stream([("x-queue-type", "quorum"), ("durable", "true")])


def test_swallowed_when_the_broker_names_a_tag_then_the_subscription_is_known() -> None:
    assert swallowed_for(b"There is no current subscription with tag 'T_s-1'.") == "s-1"
    assert swallowed_for(b"There is no current subscription with tag 'T_it's'.\n") == "it's"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        # What it says of an ACK for a subscription that is not open.
        b'Message with id "T_s-1@@session-x@@1" has no subscription\n',
        b"There is no current subscription with tag 'Q_/queue/a'.",
    ],
)
def test_swallowed_when_the_error_is_about_something_else_then_none(body: bytes) -> None:
    assert swallowed_for(body) is None


def test_delivery_when_numbered_then_read_and_written_alike() -> None:
    assert delivery_number(delivery_id("s-1", "session-x", 17)) == 17


@pytest.mark.parametrize("message_id", ["", "17", "T_s@@session@@", "T_s@@session@@-1", "T_s@@session@@\u0661"])
def test_delivery_when_the_id_has_another_form_then_no_number(message_id: str) -> None:
    assert delivery_number(message_id) is None


@pytest.mark.parametrize(
    ("destination", "outlives"),
    [("/queue/a", True), ("/amq/queue/a", True), ("/topic/a", False), ("/exchange/amq.direct/a", False)],
)
def test_destination_when_its_last_subscriber_has_left_then_only_queues_stay(destination: str, outlives: bool) -> None:
    assert outlives_subscribers(destination) is outlives
