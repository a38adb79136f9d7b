"""The progress display of the pipeline, which tells where the flights are: bars in a terminal, lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.alerts import AlertDesk
from pipeline.chaos import Chaos
from pipeline.job_runner import JobRunner
from pipeline.replay import Replay
from trio_stomp.spark import SpoolError, status

__all__ = ["Whereabouts", "show_progress"]

_LIVE_SECONDS: Final = 0.5
_PLAIN_SECONDS: Final = 5.0
_HEADING: Final = "   time  job        unsent    queue    spool    table    hours   alerts"
_BAR_COLUMNS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where the flights are. Each is counted in one place, so the sum is the total.

    Attributes:
        unsent: Not confirmed by the broker yet.
        queue: In the queue, or in transit: received and not in the spool yet, or read and not in the table yet.
        spool: In the spool. The query writes every five seconds what it has read, so some may be in the table already.
        table: In the table of departures.
    """

    unsent: int
    queue: int
    spool: int
    table: int

    @classmethod
    def of(cls, *, total: int, confirmed: int, waiting: int, written: int) -> Whereabouts:
        """Compute them from counts of different moments, some of which include copies and the last message.

        Args:
            total: The number of flights.
            confirmed: Flights confirmed by the broker.
            waiting: Rows that wait in the spool.
            written: Rows in the table.
        """
        sent = min(confirmed, total)
        table = min(written, sent)
        spool = min(waiting, sent - table)
        return cls(unsent=total - sent, queue=sent - table - spool, spool=spool, table=table)


@dataclass(frozen=True, slots=True)
class _Run:
    replay: Replay
    runner: JobRunner
    desk: AlertDesk
    chaos: Chaos

    def look(self, before: Whereabouts | None) -> Whereabouts:
        """Where the flights are now. The spool is a local folder of some hundred files, so this takes milliseconds."""
        settings = self.runner.settings
        try:
            waiting = status(str(settings.spool)).rows
        except SpoolError:
            # The query has just deleted what was to be read.
            waiting = 0 if before is None else before.spool
        return Whereabouts.of(
            total=settings.total,
            confirmed=self.replay.confirmed,
            waiting=waiting,
            written=self.runner.report.departures,
        )


async def show_progress(console: Console, replay: Replay, runner: JobRunner, desk: AlertDesk, chaos: Chaos) -> None:
    """Show the progress until canceled.

    Cancellation: the output stays as it is.
    """
    show = _show_bars if console.is_terminal else _show_lines
    await show(console, _Run(replay, runner, desk, chaos))


async def _show_lines(console: Console, run: _Run) -> None:
    started = trio.current_time()
    shown = 0
    console.print(_HEADING, highlight=False)
    where = None
    while True:
        where = run.look(where)
        for what in run.chaos.done[shown:]:
            console.print(f"         {what}", highlight=False)
        shown = len(run.chaos.done)
        report = run.runner.report
        places = (where.unsent, where.queue, where.spool, where.table, report.hours, len(run.desk.arrivals.ids))
        cells = "".join(f"{each:9,}" for each in places)
        console.print(f"{trio.current_time() - started:5.0f} s  {report.stage:8}{cells}", highlight=False)
        await trio.sleep(_PLAIN_SECONDS)


async def _show_bars(console: Console, run: _Run) -> None:
    total = run.runner.settings.total
    # Redrawn by our own task, because a thread of rich would interrupt it.
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(_BAR_COLUMNS),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    )
    places = {name: progress.add_task(name, total=total) for name in ("sent", "in the queue", "in the spool")}
    table = progress.add_task("in the table", total=total)
    hours = progress.add_task("hours, closed", total=None)
    alerts = progress.add_task("alerts received", total=None)
    shown = 0
    where = None
    with progress:
        while True:
            where = run.look(where)
            report = run.runner.report
            progress.update(places["sent"], completed=total - where.unsent)
            progress.update(places["in the queue"], completed=where.queue)
            progress.update(places["in the spool"], completed=where.spool)
            progress.update(table, completed=where.table, description=f"in the table ({report.stage})")
            progress.update(hours, completed=report.hours)
            progress.update(alerts, completed=len(run.desk.arrivals.ids))
            for what in run.chaos.done[shown:]:
                progress.console.print(what)
            shown = len(run.chaos.done)
            progress.refresh()
            await trio.sleep(_LIVE_SECONDS)
