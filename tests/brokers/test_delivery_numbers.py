"""RabbitMQ's numbers of deliveries."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import delivery_id, delivery_number, outlives_subscribers, swallowed_for


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
