"""The progress display of the pipeline: bars in a terminal, lines elsewhere."""

from __future__ import annotations

from typing import Final

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.alerts import AlertDesk
from pipeline.chaos import Chaos
from pipeline.job_runner import JobRunner
from pipeline.replay import Replay

__all__ = ["show_progress"]

_LIVE_SECONDS: Final = 0.25
_PLAIN_SECONDS: Final = 5.0


async def show_progress(console: Console, replay: Replay, runner: JobRunner, desk: AlertDesk, chaos: Chaos) -> None:
    """Show the progress until canceled.

    Cancellation: the output stays as it is.
    """
    if console.is_terminal:
        await _show_bars(console, replay, runner, desk, chaos)
    else:
        await _show_lines(console, replay, runner, desk, chaos)


async def _show_lines(console: Console, replay: Replay, runner: JobRunner, desk: AlertDesk, chaos: Chaos) -> None:
    total = runner.settings.total
    started = trio.current_time()
    while True:
        report = runner.report
        console.print(
            f"{trio.current_time() - started:5.0f} s  confirmed {replay.confirmed}  in the table {report.departures} "
            f"of {total}  hours {report.hours}  alerts {len(desk.arrivals.ids)}  job {report.stage}"
            + "".join(f"  {what}" for what in chaos.done[-1:]),
            highlight=False,
            soft_wrap=True,
        )
        await trio.sleep(_PLAIN_SECONDS)


async def _show_bars(console: Console, replay: Replay, runner: JobRunner, desk: AlertDesk, chaos: Chaos) -> None:
    total = runner.settings.total
    # Redrawn by our own task, because a thread of rich would interrupt it.
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    )
    sent = progress.add_task("sent and confirmed", total=total)
    table = progress.add_task("departures in Parquet", total=total)
    hours = progress.add_task("hours, closed", total=None)
    alerts = progress.add_task("alerts received", total=None)
    shown = 0
    with progress:
        while True:
            report = runner.report
            progress.update(sent, completed=replay.confirmed)
            progress.update(table, completed=min(report.departures, total), description=f"departures ({report.stage})")
            progress.update(hours, completed=report.hours)
            progress.update(alerts, completed=len(desk.arrivals.ids))
            for what in chaos.done[shown:]:
                progress.console.print(what)
            shown = len(chaos.done)
            progress.refresh()
            await trio.sleep(_LIVE_SECONDS)
