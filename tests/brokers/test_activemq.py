"""What is known of ActiveMQ Classic."""

from __future__ import annotations

from trio_stomp.brokers import ACTIVEMQ, NackMeaning
from trio_stomp.protocol import ClientProtocol, Headers


def test_activemq_when_asked_for_prefetch_then_in_its_own_header() -> None:
    assert ACTIVEMQ.prefetch(7) == [("activemq.prefetchSize", "7")]


def test_activemq_when_durable_then_by_name() -> None:
    assert ACTIVEMQ.dialect.subscribe_headers({"durable": "mine"}) == [("activemq.subscriptionName", "mine")]
    assert ACTIVEMQ.durable_needs_client_id


def test_activemq_when_nacked_then_only_persistent_messages_survive() -> None:
    assert ACTIVEMQ.nack(Headers({"persistent": "true"}), None) is NackMeaning.DEAD_LETTER
    assert ACTIVEMQ.nack(Headers(), None) is NackMeaning.DISCARD
    assert not ACTIVEMQ.nacks_in_transactions


def test_activemq_when_an_error_names_a_subscription_then_it_is_not_a_cancellation() -> None:
    assert ACTIVEMQ.cancelled_subscription(Headers({"subscription": "s-1"})) is None


def test_activemq_when_1_0_then_what_is_sent_has_its_backslashes_doubled() -> None:
    """It decodes escapes in every version, and in 1.0 it sends none."""
    protocol = ClientProtocol(tolerances_for=lambda _server: ACTIVEMQ.tolerances)
    protocol.connect(host="/")
    protocol.receive_data(b"CONNECTED\nversion:1.0\nserver:ActiveMQ/6.1.8\n\n\0\n")
    assert b"\npath:c:\\\\new\n" in protocol.send("/queue/a", b"", headers=[("path", "c:\\new")])
