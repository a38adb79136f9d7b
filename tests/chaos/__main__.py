"""Run one scenario: ``python -m tests.chaos BROKER --messages N --faults N --seed N``; prints its table."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import pickle
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import trio

from tests.chaos.faults import Kind
from tests.chaos.outcome import table
from tests.chaos.scenario import Order, run
from tests.chaos.victims import REAL, VICTIMS, real_brokers

# After the deadline, for what leaves in order; then the interpreter says where it hangs, and ends.
_GRACE_SECONDS: Final = 30.0


def main() -> int:
    """Run what the command line asks for; returns 0 where all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("broker", choices=VICTIMS)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=[kind.name.lower() for kind in Kind], default=[], metavar="KIND")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=600.0, help="seconds for all of it")
    parser.add_argument("--outcome", type=Path, help="write the outcome there, pickled")
    parser.add_argument("--held", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)9.0f %(name)s %(levelname)s %(message)s")
    order = Order(
        broker=given.broker,
        messages=given.messages,
        faults=given.faults,
        seed=given.seed,
        deadline=given.deadline,
        only=tuple(Kind[name.upper()] for name in given.only),
    )
    sys.stdout.write("\n".join(map(str, order.schedule)) + "\n")
    # Who runs several side by side has started the brokers, and holds them.
    with nullcontext() if given.held else real_brokers([order.broker] if order.broker in REAL else []):
        faulthandler.dump_traceback_later(order.deadline + _GRACE_SECONDS, exit=True)
        outcome = trio.run(run, order)
        faulthandler.cancel_dump_traceback_later()
    if given.outcome is not None:
        given.outcome.write_bytes(pickle.dumps(outcome))
    sys.stdout.write(table([outcome]) + "\n")
    return 1 if outcome.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
