"""What a run says when it does not end well: that is when it is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.chaos import scenario
from tests.chaos.faults import PARTIES
from tests.chaos.ledger import Ledger
from tests.chaos.outcome import Outcome
from tests.chaos.scenario import Order, run
from tests.chaos.victims import EMBEDDED, EmbeddedVictim, Victim
from trio_stomp.testing import open_broker
from trio_stomp.types import Command


async def test_run_when_it_does_not_end_in_time_then_it_says_what_is_missing_and_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    # Time passes as usual, but the deadline comes when the test says so: while messages move, on any machine.
    mock_clock.rate = 1
    order = Order(broker=EMBEDDED, messages=100_000, faults=0, seed=42, deadline=10_000)
    outcomes: list[Outcome] = []
    async with open_broker() as broker:

        @asynccontextmanager
        async def victim(_name: str) -> AsyncGenerator[Victim]:
            yield EmbeddedVictim(broker)

        monkeypatch.setattr(scenario, "open_victim", victim)

        async def play() -> None:
            outcomes.append(await run(order))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(play)
            await broker.wait_until(lambda: broker.statistics().received.get(Command.SEND, 0) > 100, timeout=60)
            mock_clock.jump(order.deadline)

    (outcome,) = outcomes
    said = "\n".join(outcome.troubles)
    assert "not over after 10000 s" in said
    assert "seed 42, at before the first: sent " in said
    assert "of 100000" in said
    assert any(f"{party}: " in said for party in PARTIES)


@pytest.mark.slow
async def test_run_when_nothing_goes_wrong_then_there_is_no_trouble_and_no_duplicate() -> None:
    outcome = await run(Order(broker=EMBEDDED, messages=300, faults=0, seed=1, deadline=240))

    assert outcome.troubles == []
    total = outcome.total
    assert (total.sent, total.confirmed, total.handled, total.duplicates) == (300, 300, 300, 0)
    assert total.reconnections == 0


def _after_500_messages(ledger: Ledger, _before: int) -> bool:
    return ledger.distinct > 500 and not ledger.is_complete


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
async def test_run_when_nothing_moves_any_more_then_the_broker_is_restarted_once_and_who_held_messages_is_named(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    # Taken for a broker that holds messages back, at some moment on the way.
    if known:
        monkeypatch.setattr(scenario, "HOLDS_BACK", frozenset({EMBEDDED}))
    monkeypatch.setattr(scenario, "_STILL_SECONDS", 0.01)
    monkeypatch.setattr(scenario, "_stands_still", _after_500_messages)

    outcome = await run(Order(broker=EMBEDDED, messages=3000, faults=0, seed=3, deadline=240))

    assert outcome.freed > 0
    assert outcome.total.handled - outcome.total.duplicates == 3000
    assert outcome.total.reconnections >= 6
    # A broker that is known for it may hold messages back.
    held_back = f"the broker held back {outcome.freed} messages"
    assert any(held_back in trouble for trouble in outcome.troubles) is not known
    # In truth, the messages were on their way to workers.
    said = ("holds messages, and nothing moves", "was given messages on its connection, and lost them", held_back)
    assert all(any(words in trouble for words in said) for trouble in outcome.troubles)
