"""Every confirmed message is handled, whatever breaks: each broker, publishers and workers, faults without end."""

from __future__ import annotations

import pytest
import trio

from tests.chaos.faults import Kind
from tests.chaos.outcome import Outcome, table
from tests.chaos.scenario import Order, run
from tests.chaos.victims import EMBEDDED, VICTIMS
from tests.interop.broker_facts import excused


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("broker", VICTIMS)
def test_messages_when_everything_breaks_then_each_confirmed_one_is_handled(
    broker: str, outcomes: dict[str, Outcome]
) -> None:
    if broker not in outcomes:
        pytest.skip(f"{excused(broker)}")
    outcome = outcomes[broker]

    assert not outcome.troubles, str(outcome)
    total = outcome.total
    assert (total.sent, total.confirmed, total.handled - total.duplicates) == (outcome.messages,) * 3
    assert total.times == outcome.faults
    assert total.reconnections > 0
    times = {row.fault: row.times for row in outcome.rows}
    assert times[Kind.KILL] >= outcome.faults // 10
    # There and back, by one client at least.
    assert total.moves >= 2 * (times[Kind.MOVE] + times[Kind.MOVE_CUT])


@pytest.mark.slow
def test_messages_when_the_embedded_broker_breaks_for_a_moment_then_each_confirmed_one_is_handled() -> None:
    """The same in small, in this process, for whoever has no time and no broker."""
    outcome = trio.run(run, Order(broker=EMBEDDED, messages=2000, faults=6, seed=3, deadline=90.0))

    assert not outcome.troubles, table([outcome])
    assert outcome.total.handled - outcome.total.duplicates == outcome.messages
