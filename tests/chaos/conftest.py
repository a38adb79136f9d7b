"""One run of all brokers side by side for the session, and its table at the end of the report."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.chaos.outcome import Outcome, table
from tests.chaos.scenario import Order
from tests.chaos.side_by_side import run_all
from tests.chaos.victims import at_hand

# Small enough for a few minutes with all brokers at once on two busy cores; `make soak` is the large one.
_MESSAGES: Final = 20_000
# Enough for each kind, of which the embedded broker has the most, and for one kill and one move in ten.
_FAULTS: Final = 28
_DEADLINE: Final = 600.0
_SEED: Final = 1

_outcomes = pytest.StashKey[dict[str, Outcome]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos: breaks private brokers of its own; run by `make chaos`")


@pytest.fixture(scope="session")
def outcomes(pytestconfig: pytest.Config) -> dict[str, Outcome]:
    """What came out of the run, by broker; it is made when the first test asks for it."""
    if not os.environ.get("TRIO_STOMP_CHAOS"):
        pytest.skip("takes minutes, and starts brokers of its own; run it with: make chaos")
    found = pytestconfig.stash.get(_outcomes, None)
    if found is None:
        seed = int(os.environ.get("TRIO_STOMP_CHAOS_SEED", _SEED))
        orders = [
            Order(broker=broker, messages=_MESSAGES, faults=_FAULTS, seed=seed, deadline=_DEADLINE)
            for broker in at_hand()
        ]
        found = {outcome.broker: outcome for outcome in run_all(orders)}
        pytestconfig.stash[_outcomes] = found
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(_outcomes, None)
    if found is not None:
        terminalreporter.section("chaos: what became of all messages")
        terminalreporter.write_line(table(list(found.values())))
