"""What a run says when it does not end well: that is when it is read."""

from __future__ import annotations

import pytest

from tests.chaos.scenario import Order, run
from tests.chaos.victims import EMBEDDED


async def test_run_when_it_does_not_end_in_time_then_it_says_what_is_missing_and_how_to_repeat_it() -> None:
    order = Order(broker=EMBEDDED, messages=100_000, faults=3, seed=42, deadline=0.5)

    outcome = await run(order)

    said = "\n".join(outcome.troubles)
    assert "not over after 0.5 s" in said
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
