"""The long run: ``make soak``. Prints its table, and writes it with all that belongs to it to docs/reliability.md."""

from __future__ import annotations

import argparse
import platform
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import trio

from benchmarks.page import inserted, machine
from tests.chaos.outcome import Outcome, markdown, table
from tests.chaos.scenario import Order
from tests.chaos.side_by_side import LOGS, PROJECT, run_all
from tests.chaos.victims import VICTIMS, at_hand

__all__ = ["BEGIN", "END", "main", "report"]

PAGE: Final = PROJECT / "docs" / "reliability.md"
BEGIN: Final = "<!-- begin: written by `make soak` -->"
END: Final = "<!-- end: written by `make soak` -->"

_MESSAGES: Final = 1_000_000
_FAULTS: Final = 200
# A day: who starts the large one knows that it takes its time.
_DEADLINE: Final = 24 * 3600.0


def report(outcomes: Sequence[Outcome], command: str, day: str) -> str:
    """What is written between the markers: the command, the machine, the versions, the seeds, the table."""
    servers = ", ".join(outcome.server for outcome in outcomes)
    seeds = ", ".join(sorted({str(outcome.seed) for outcome in outcomes}))
    memory = "; ".join(
        f"{outcome.broker} {outcome.warm_bytes / 2**20:.0f} MiB warm, {outcome.end_bytes / 2**20:.0f} MiB at the end"
        for outcome in outcomes
    )
    troubles = [f"- {outcome.broker}: {trouble}" for outcome in outcomes for trouble in outcome.troubles]
    lines = [
        f"`{command}`, {day}, seed {seeds}.",
        "",
        f"- Machine: {machine()}; all brokers and clients at once on it",
        f"- Software: CPython {platform.python_version()}, trio {trio.__version__}, {platform.system()}; {servers}",
        "- Took: " + ", ".join(f"{outcome.broker} {outcome.seconds / 60:.1f} min" for outcome in outcomes),
        f"- Memory of the process: {memory}",
        "- Sent again: " + ", ".join(f"{outcome.broker} {outcome.resent:,}" for outcome in outcomes),
        "- Went wrong: " + ("nothing" if not troubles else "see below the table"),
        "",
        markdown(outcomes).rstrip(),
    ]
    return "\n".join(lines + (["", *troubles] if troubles else []))


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; returns 0 where all was well."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("brokers", nargs="*", metavar="BROKER", help=f"of {', '.join(VICTIMS)}; default: all")
    parser.add_argument("--messages", type=int, default=_MESSAGES, help="for each broker")
    parser.add_argument("--faults", type=int, default=_FAULTS, help="for each broker")
    parser.add_argument("--seed", type=int, help="of the schedules; default: another one each time")
    parser.add_argument("--deadline", type=float, default=_DEADLINE, help="seconds for all of it")
    parser.add_argument("--no-page", action="store_true", help="leave docs/reliability.md as it is")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1, 100_000) if given.seed is None else int(given.seed)
    brokers: list[str] = given.brokers or at_hand()
    if strange := [name for name in brokers if name not in VICTIMS]:
        parser.error(f"there is no broker {strange[0]!r}; there are {', '.join(VICTIMS)}")
    orders = [
        Order(broker=name, messages=given.messages, faults=given.faults, seed=seed, deadline=given.deadline)
        for name in brokers
    ]
    sys.stdout.write(f"seed {seed}; what happens is told in {LOGS.relative_to(PROJECT)}/\n")
    sys.stdout.flush()
    outcomes = run_all(orders)
    sys.stdout.write(table(outcomes) + "\n")
    if not given.no_page:
        options = f"--messages={given.messages} --faults={given.faults} --seed={seed}"
        command = f'make soak ARGS="{" ".join([*given.brokers, options])}"'
        text = report(outcomes, command, datetime.now(UTC).date().isoformat())
        PAGE.write_text(inserted(PAGE.read_text("utf-8"), text, begin=BEGIN, end=END), encoding="utf-8")
    return 1 if any(outcome.troubles for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
