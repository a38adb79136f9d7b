"""What is known of Artemis."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import ARTEMIS, NackMeaning
from trio_stomp.protocol import Headers


@pytest.mark.parametrize(("prefetch", "octets"), [(1, "0"), (2, "2048"), (100, "102400")])
def test_artemis_when_asked_for_prefetch_then_a_window_of_octets(prefetch: int, octets: str) -> None:
    assert ARTEMIS.prefetch(prefetch) == [("consumer-window-size", octets)]
    assert not ARTEMIS.prefetch_is_exact


def test_artemis_when_durable_then_by_name() -> None:
    assert ARTEMIS.durable("mine") == [("durable-subscription-name", "mine")]


def test_artemis_when_nacked_then_dropped() -> None:
    assert ARTEMIS.nack(Headers({"persistent": "true"})) is NackMeaning.DISCARD
    assert ARTEMIS.acks_ignore_transactions
