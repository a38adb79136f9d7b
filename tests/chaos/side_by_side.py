"""Runs scenarios side by side, each in a process of its own: its memory, its tasks and its hanging are its own."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from tests.chaos.outcome import Outcome
from tests.chaos.scenario import Order
from tests.chaos.victims import REAL, real_brokers

__all__ = ["LOGS", "PROJECT", "run_all"]

PROJECT: Final = Path(__file__).parents[2]
# Where each process tells what happened, as it happens.
LOGS: Final = PROJECT / "build" / "chaos"
_LINES: Final = 25


async def _run(order: Order) -> Outcome:
    log, result = LOGS / f"{order.broker}.log", LOGS / f"{order.broker}.outcome"
    result.unlink(missing_ok=True)
    numbers = {
        "messages": order.messages,
        "faults": order.faults,
        "seed": order.seed,
        "deadline": order.deadline,
    }
    given = [f"--{name}={value}" for name, value in numbers.items()]
    scenario = ["-m", "tests.chaos", order.broker, *given, "--held", f"--outcome={result}"]
    command = [sys.executable, "-W", "error", *scenario]
    with log.open("wb") as output:
        done = await trio.run_process(command, cwd=PROJECT, stdout=output, stderr=output, check=False)
    if result.exists():
        outcome: Outcome = pickle.loads(result.read_bytes())  # noqa: S301  # written by the process just above
        return outcome
    end = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-_LINES:])
    outcome = Outcome(broker=order.broker, seed=order.seed, messages=order.messages, faults=order.faults)
    told = f"the process ended with status {done.returncode}, and its log so"
    outcome.troubles.append(f"seed {order.seed}: {told}:\n{end}")
    return outcome


async def _run_each(orders: Sequence[Order]) -> list[Outcome]:
    outcomes: dict[str, Outcome] = {}

    async def one(order: Order) -> None:
        outcomes[order.broker] = await _run(order)

    async with trio.open_nursery() as nursery:
        for order in orders:
            nursery.start_soon(one, order)
    return [outcomes[order.broker] for order in orders]


def run_all(orders: Sequence[Order]) -> list[Outcome]:
    """Run scenarios, all at once; the private brokers are started before and stopped after.

    Raises:
        BrokerScriptFailed: Another run is under way, or a broker does not start.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    with real_brokers([order.broker for order in orders if order.broker in REAL]):
        return trio.run(_run_each, orders)
