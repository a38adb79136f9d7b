"""The output of the demo: progress while it runs, then the table and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from flights.delays import CarrierDelays
from flights.ledger import Ledger
from flights.pipeline import Goodbye
from trio_stomp import DisconnectResult

__all__ = ["Verdict", "print_table", "print_verdict", "show_progress"]

# Each refresh takes about a millisecond from the pipeline.
_LIVE_SECONDS: Final = 0.2
# Few lines, for logs.
_PLAIN_SECONDS: Final = 2.0
# How many lost or duplicated ids to list.
_NAMED: Final = 10


# --- while it runs ------------------------------------------------------------------------------------------------


async def show_progress(console: Console, ledger: Ledger, total: int) -> None:
    """Show the progress until the ledger is finished: bars in a terminal, lines elsewhere.

    Cancellation: the bars stay as they are.
    """
    view: _View = _Bars(console, total) if console.is_terminal else _Lines(console, total)
    view.start()
    try:
        while not ledger.finished.is_set():
            view.show(ledger)
            with trio.move_on_after(view.seconds):
                await ledger.finished.wait()
    finally:
        view.show(ledger)
        view.stop()


class _View(Protocol):
    seconds: float

    def start(self) -> None: ...

    def show(self, ledger: Ledger) -> None: ...

    def stop(self) -> None: ...


class _Lines:
    """Periodic lines, for logs and pipes."""

    seconds = _PLAIN_SECONDS

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._started = self._time = trio.current_time()
        self._handled = 0

    def start(self) -> None:
        pass

    def show(self, ledger: Ledger) -> None:
        now, handled, confirmed = trio.current_time(), len(ledger.handled.ids), len(ledger.confirmed.ids)
        rate = (handled - self._handled) / (now - self._time) if now > self._time else 0
        self._time, self._handled = now, handled
        self._console.print(
            f"{now - self._started:5.1f} s  sent {ledger.sent}  confirmed {confirmed}  "
            f"handled {handled} of {self._total}  "
            f"late {len(ledger.late.ids)} of {len(ledger.routed.ids)}  {rate:.0f}/s",
            highlight=False,
            soft_wrap=True,
        )

    def stop(self) -> None:
        pass


class _Rate(ProgressColumn):
    """Steps per second, over the last seconds."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


class _Bars:
    """Four bars, redrawn in place."""

    seconds = _LIVE_SECONDS

    def __init__(self, console: Console, total: int) -> None:
        # Redrawn by our own task, because a thread of rich would interrupt it.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
        )
        self._sent = self._progress.add_task("sent", total=total)
        self._confirmed = self._progress.add_task("confirmed", total=total)
        self._handled = self._progress.add_task("handled", total=total)
        self._late = self._progress.add_task("late, routed on", total=None)

    def start(self) -> None:
        self._progress.start()

    def show(self, ledger: Ledger) -> None:
        self._progress.update(self._sent, completed=ledger.sent)
        self._progress.update(self._confirmed, completed=len(ledger.confirmed.ids))
        self._progress.update(self._handled, completed=len(ledger.handled.ids))
        self._progress.update(self._late, completed=len(ledger.late.ids), total=len(ledger.routed.ids))
        self._progress.refresh()

    def stop(self) -> None:
        self._progress.stop()


# --- when it is done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run.

    Attributes:
        ledger: The ledger of the run.
        expected: The table by carrier, computed from the file.
        goodbye: How the connections ended.
        seconds: The time from the first CONNECT to the last DISCONNECT.
    """

    ledger: Ledger
    expected: Mapping[str, CarrierDelays]
    goodbye: Goodbye
    seconds: float

    @property
    def total(self) -> int:
        """The number of flights in the file."""
        return sum(delays.flights for delays in self.expected.values())

    @property
    def agrees(self) -> bool:
        """Whether the two tables are equal."""
        return self.ledger.delays == self.expected

    @property
    def left_well(self) -> bool:
        """Whether the broker confirmed each DISCONNECT."""
        return all(result is DisconnectResult.RECEIPT for result in self.goodbye.results)

    @property
    def is_good(self) -> bool:
        """Whether every check passed."""
        ledger = self.ledger
        amiss = ledger.lost or ledger.doubled or ledger.strangers or self.goodbye.left_over
        return self.agrees and self.left_well and self.all_confirmed and not amiss

    @property
    def all_confirmed(self) -> bool:
        """Whether the broker has confirmed every flight of the file."""
        return len(self.ledger.confirmed.ids) == self.total


def print_table(console: Console, delays: Mapping[str, CarrierDelays], names: Mapping[str, str]) -> None:
    """Print delay by carrier, the worst first."""
    table = Table(title="Departures from New York City, 2013: delay by carrier")
    table.add_column("carrier", no_wrap=True)
    for column in ("flights", "cancelled", "mean delay, min", "late"):
        table.add_column(column, justify="right")
    worst_first = sorted(delays.items(), key=lambda item: item[1].mean_delay or 0, reverse=True)
    for carrier, row in worst_first:
        mean = "" if row.mean_delay is None else f"{row.mean_delay:.1f}"
        name = f"{carrier} {names.get(carrier, '')}".strip()
        table.add_row(name, f"{row.flights:,}", f"{row.cancelled:,}", mean, f"{row.late:,}")
    console.print(table)


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print the checks, their results, and the speed."""
    ledger, goodbye = verdict.ledger, verdict.goodbye
    results = ", ".join(result.value for result in goodbye.results)
    confirmed = f"sent and confirmed: {len(ledger.confirmed.ids):,} of {verdict.total:,}"
    _check(console, verdict.all_confirmed, confirmed)
    _check(console, not ledger.lost, f"lost: {_ids(ledger.lost)}")
    _check(console, not ledger.doubled, f"duplicated: {_ids(ledger.doubled)}")
    _check(console, not ledger.strangers, f"received but never sent: {_ids(ledger.strangers)}")
    _check(console, not goodbye.left_over, f"left in the queues: {goodbye.left_over}")
    _check(console, verdict.left_well, f"DISCONNECT on the three connections ended with: {results}")
    equal = "equal to" if verdict.agrees else "DIFFERENT from"
    _check(console, verdict.agrees, f"the table is {equal} the aggregation of the file")
    handled, late = len(ledger.handled.ids), len(ledger.late.ids)
    # Each flight is sent and delivered, and each late one once more.
    messages = 2 * (handled + late)
    console.print(
        f"{handled:,} of {verdict.total:,} flights, {late:,} of them late, over {goodbye.server} in "
        f"{verdict.seconds:.1f} s: {handled / verdict.seconds:,.0f} flights/s, "
        f"{messages / verdict.seconds:,.0f} messages/s sent and received",
        highlight=False,
        soft_wrap=True,
    )


def _check(console: Console, good: bool, text: str) -> None:  # noqa: FBT001  # the one thing it is about
    style = "green" if good else "bold red"
    console.print(f"[{style}]{'ok  ' if good else 'FAIL'}[/] {text}", highlight=False, soft_wrap=True)


def _ids(ids: list[int]) -> str:
    if not ids:
        return "0"
    more = ", ..." if len(ids) > _NAMED else ""
    return f"{len(ids)} (flights {', '.join(map(str, ids[:_NAMED]))}{more})"
