"""What is known of Artemis."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import ARTEMIS, NackMeaning
from trio_stomp.protocol import ClientProtocol, Headers, MessagesReceived


@pytest.mark.parametrize(("prefetch", "window"), [(1, "0"), (2, "2048"), (100, "102400")])
def test_artemis_when_asked_for_prefetch_then_a_window_of_bytes(prefetch: int, window: str) -> None:
    assert ARTEMIS.prefetch(prefetch) == [("consumer-window-size", window)]


def test_artemis_when_durable_then_by_name() -> None:
    assert ARTEMIS.dialect.subscribe_headers({"durable": "mine"}) == [("durable-subscription-name", "mine")]
    assert ARTEMIS.durable_needs_client_id


def test_artemis_when_nacked_then_dropped() -> None:
    assert ARTEMIS.nack(Headers({"persistent": "true"}), None) is NackMeaning.DISCARD
    assert ARTEMIS.acks_ignore_transactions


def test_artemis_when_1_0_and_a_value_has_a_line_feed_then_the_session_goes_on() -> None:
    protocol = ClientProtocol(tolerances_for=lambda _server: ARTEMIS.tolerances)
    protocol.connect(host="/")
    protocol.receive_data(b"CONNECTED\nsession:1\n\n\0\n")
    (event,) = protocol.receive_data(b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nodd:a\nb\n\nx\0\n")
    assert isinstance(event, MessagesReceived)
    assert event.frames[0].body == b"x"
