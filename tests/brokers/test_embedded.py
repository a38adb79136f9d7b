"""What is known of the broker of trio_stomp.testing."""

from __future__ import annotations

from trio_stomp.brokers import EMBEDDED, NackMeaning
from trio_stomp.protocol import Headers, Tolerances


def test_embedded_when_used_then_prefetch_durable_and_nack_as_it_has_them() -> None:
    assert EMBEDDED.prefetch(7) == [("prefetch-count", "7")]
    assert EMBEDDED.dialect.subscribe_headers({"durable": "mine"}) == [
        ("durable", "true"),
        ("durable-subscription-name", "mine"),
    ]
    assert EMBEDDED.nack(Headers(), None) is NackMeaning.REQUEUE


def test_embedded_when_read_then_nothing_is_tolerated() -> None:
    assert EMBEDDED.tolerances == Tolerances()
