"""What is known of ActiveMQ Classic."""

from __future__ import annotations

from trio_stomp.brokers import ACTIVEMQ, NackMeaning
from trio_stomp.protocol import Headers


def test_activemq_when_asked_for_prefetch_then_in_its_own_header() -> None:
    assert ACTIVEMQ.prefetch(7) == [("activemq.prefetchSize", "7")]


def test_activemq_when_durable_then_by_name() -> None:
    assert ACTIVEMQ.durable("mine") == [("activemq.subscriptionName", "mine")]


def test_activemq_when_nacked_then_only_persistent_messages_survive() -> None:
    assert ACTIVEMQ.nack(Headers({"persistent": "true"})) is NackMeaning.DEAD_LETTER
    assert ACTIVEMQ.nack(Headers()) is NackMeaning.DISCARD
    assert not ACTIVEMQ.nacks_in_transactions


def test_activemq_when_an_error_names_a_subscription_then_it_is_not_a_cancellation() -> None:
    assert ACTIVEMQ.cancelled_subscription(Headers({"subscription": "s-1"})) is None
