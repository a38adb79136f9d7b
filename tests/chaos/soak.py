"""The long run: ``make soak``. Prints its table, and writes it with all that belongs to it to docs/reliability.md."""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from tests.chaos.outcome import Outcome, markdown, table
from tests.chaos.scenario import Order
from tests.chaos.side_by_side import LOGS, PROJECT, run_all
from tests.chaos.victims import VICTIMS

__all__ = ["BEGIN", "END", "inserted", "main", "report"]

PAGE: Final = PROJECT / "docs" / "reliability.md"
BEGIN: Final = "<!-- begin: written by `make soak` -->"
END: Final = "<!-- end: written by `make soak` -->"

_MESSAGES: Final = 1_000_000
_FAULTS: Final = 200
# A day: who starts the large one knows that it takes its time.
_DEADLINE: Final = 24 * 3600.0


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    return platform.machine() if found is None else found[1]


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def report(outcomes: Sequence[Outcome], command: str, day: str) -> str:
    """What is written between the markers: the command, the machine, the versions, the seeds, the table."""
    servers = ", ".join(outcome.server for outcome in outcomes)
    seeds = ", ".join(sorted({str(outcome.seed) for outcome in outcomes}))
    memory = "; ".join(
        f"{outcome.broker} {outcome.warm_octets / 2**20:.0f} MiB warm, {outcome.end_octets / 2**20:.0f} MiB at the end"
        for outcome in outcomes
    )
    troubles = [f"- {outcome.broker}: {trouble}" for outcome in outcomes for trouble in outcome.troubles]
    lines = [
        f"`{command}`, {day}, seed {seeds}.",
        "",
        f"- Machine: {_cpu()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB; all brokers and clients at once on it",
        f"- Software: CPython {platform.python_version()}, trio {trio.__version__}, {platform.system()}; {servers}",
        "- Took: " + ", ".join(f"{outcome.broker} {outcome.seconds / 60:.1f} min" for outcome in outcomes),
        f"- Memory of the process: {memory}",
        "- Sent again: " + ", ".join(f"{outcome.broker} {outcome.resent:,}" for outcome in outcomes),
        "- Went wrong: " + ("nothing" if not troubles else "see below the table"),
        "",
        markdown(outcomes).rstrip(),
    ]
    return "\n".join(lines + (["", *troubles] if troubles else []))


def inserted(page: str, text: str) -> str:
    """A page with `text` between its markers.

    Raises:
        ValueError: The markers are not there.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} must have the lines {BEGIN!r} and {END!r}, with the table between them")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


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
    brokers: list[str] = given.brokers or list(VICTIMS)
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
        PAGE.write_text(inserted(PAGE.read_text("utf-8"), text), encoding="utf-8")
    return 1 if any(outcome.troubles for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
