"""What a run says when it does not end well: that is when it is read."""

from __future__ import annotations

import pytest

from tests.chaos import scenario
from tests.chaos.ledger import Ledger
from tests.chaos.scenario import Order, run
from tests.chaos.victims import EMBEDDED


async def test_run_when_it_does_not_end_in_time_then_it_says_what_is_missing_and_how_to_repeat_it() -> None:
    order = Order(broker=EMBEDDED, messages=100_000, faults=3, seed=42, deadline=1.5)

    outcome = await run(order)

    said = "\n".join(outcome.troubles)
    assert "not over after 1.5 s" in said
    assert "seed 42, at before the first: sent " in said
    assert "of 100000" in said
    assert "publisher with a window: " in said


@pytest.mark.slow
async def test_run_when_nothing_goes_wrong_then_there_is_no_trouble_and_no_duplicate() -> None:
    outcome = await run(Order(broker=EMBEDDED, messages=300, faults=0, seed=1, deadline=60))

    assert outcome.troubles == []
    total = outcome.total
    assert (total.sent, total.confirmed, total.handled, total.duplicates) == (300, 300, 300, 0)
    assert total.reconnections == 0


@pytest.mark.slow
async def test_run_when_nothing_moves_any_more_then_the_broker_is_restarted_once_and_who_held_messages_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stands_still(ledger: Ledger, _before: int) -> bool:
        return ledger.distinct > 500 and not ledger.is_complete

    # Taken for a broker that holds messages back, at some moment on the way.
    monkeypatch.setattr(scenario, "HOLDS_BACK", frozenset({EMBEDDED}))
    monkeypatch.setattr(scenario, "_STILL_SECONDS", 0.01)
    monkeypatch.setattr(scenario, "_stands_still", stands_still)

    outcome = await run(Order(broker=EMBEDDED, messages=3000, faults=0, seed=3, deadline=60))

    assert outcome.freed > 0
    assert outcome.total.handled - outcome.total.duplicates == 3000
    assert outcome.total.reconnections >= 6
    assert all("holds messages, and nothing moves" in trouble for trouble in outcome.troubles)
