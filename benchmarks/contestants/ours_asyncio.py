"""trio_stomp on asyncio, or on uvloop if an argument says so: the same client, and the same code around it."""

from __future__ import annotations

from typing import NoReturn

from benchmarks.contestants.ours import acknowledge, publisher, receipts, receive, send
from benchmarks.order import Order, run_on_asyncio

SCENARIOS = {each.__name__: each for each in (receive, acknowledge, send, receipts, publisher)}


def main() -> NoReturn:
    """Do what the order says."""
    order = Order.from_argument()
    run_on_asyncio(SCENARIOS[order.scenario](order))
    raise AssertionError


if __name__ == "__main__":
    main()
