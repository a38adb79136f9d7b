"""RabbitMQ's streams, in headers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trio_stomp.brokers import RABBITMQ, NackMeaning, StreamOffset, reads_stream, stream_offset_of
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Headers


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
    with pytest.raises(LocalProtocolError, match="a time with its zone"):
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


def test_nack_when_the_message_is_of_a_stream_then_there_is_none() -> None:
    assert RABBITMQ.nack(Headers({"x-stream-offset": "7"}), None) is NackMeaning.IMPOSSIBLE
    assert RABBITMQ.nack(Headers({"x-stream-offset": "7"}), True) is NackMeaning.IMPOSSIBLE
