"""The result of a run: the checks, the table, and the speed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from pipeline.alerts import AlertDesk
from pipeline.delay_hours import HourDelays, HourKey, Hours, differences

__all__ = ["Outcome", "print_outcome", "read_summary"]

# How many differing rows to list.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        made: The table from the pipeline.
        expected: The table computed from the file.
        desk: The consumer of the alerts.
        late: The flights that need an alert.
        left_over: Messages that are still in the queue.
        starts: The number of starts of the job.
        chaos: The faults.
        resent: The number of flights that the replay resent after a lost connection.
        seconds: The time from the first message to the end of the job.
    """

    made: Hours
    expected: Hours
    desk: AlertDesk
    late: set[int]
    left_over: int
    starts: int
    chaos: list[str]
    resent: int
    seconds: float

    def checks(self) -> list[tuple[bool, str]]:
        """Each check: whether it passed, and its result."""
        different = differences(self.made, self.expected)
        equal = f"the {len(self.expected):,} rows are equal to the aggregation of the file"
        rows = equal if not different else f"{len(different):,} rows differ: {'; '.join(different[:_NAMED])}"
        arrivals = self.desk.arrivals
        return [
            (not different, rows),
            (not self.late - arrivals.ids, f"late flights without an alert: {len(self.late - arrivals.ids)}"),
            (not arrivals.ids - self.late, f"alerts for flights that were not late: {len(arrivals.ids - self.late)}"),
            (not arrivals.doubled, f"flights with two alerts: {len(arrivals.doubled)}"),
            (not self.left_over, f"left in the queue: {self.left_over}"),
        ]

    @property
    def is_good(self) -> bool:
        """Whether every check passed."""
        return all(good for good, _ in self.checks())


def read_summary(folder: Path) -> dict[HourKey, HourDelays]:
    """Read the table that the job has written, one JSON object per line.

    Raises:
        ValueError: The file is not such a table.
    """
    hours: dict[HourKey, HourDelays] = {}
    for line in (line for part in sorted(folder.glob("part-*.json")) for line in part.read_text("utf-8").splitlines()):
        match json.loads(line):
            case {
                "hour": str(hour),
                "carrier": str(carrier),
                "origin": str(origin),
                "flights": int(flights),
                "cancelled": int(cancelled),
                "delay_minutes": int(delay_minutes),
                "late": int(late),
            }:
                hours[hour, carrier, origin] = HourDelays(
                    flights=flights, cancelled=cancelled, delay_minutes=delay_minutes, late=late
                )
            case _:
                msg = f"{folder}: expected an hour of a carrier at an airport, got {line!r}"
                raise ValueError(msg)
    return hours


def print_outcome(console: Console, outcome: Outcome, names: Mapping[str, str], plot: Path) -> None:
    """Print the table, the checks and the speed."""
    _print_table(console, outcome.made, names)
    for good, text in outcome.checks():
        style = "green" if good else "bold red"
        console.print(f"[{style}]{'ok  ' if good else 'FAIL'}[/] {text}", highlight=False, soft_wrap=True)
    flights = sum(delays.flights for delays in outcome.made.values())
    if outcome.chaos:
        console.print(f"faults: {'; '.join(outcome.chaos)}", highlight=False)
    console.print(
        f"{flights:,} flights, {len(outcome.desk.arrivals.ids):,} alerts ({outcome.desk.copies} copies dropped by "
        f"their id), {outcome.resent} flights sent twice by the replay and counted once; the job was started "
        f"{outcome.starts} times; {outcome.seconds:.0f} s, {flights / outcome.seconds:,.0f} flights/s",
        highlight=False,
    )
    console.print(f"plot: {plot}", highlight=False, soft_wrap=True)


def _print_table(console: Console, hours: Hours, names: Mapping[str, str]) -> None:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (_, carrier, origin), delays in hours.items():
        values = (delays.flights, delays.cancelled, delays.delay_minutes, delays.late)
        sums[carrier, origin] = [total + value for total, value in zip(sums[carrier, origin], values, strict=True)]
    table = Table(title="Departures from New York City, 2013: delay by carrier and airport")
    table.add_column("carrier", no_wrap=True)
    table.add_column("airport")
    for column in ("flights", "cancelled", "mean delay, min", "late"):
        table.add_column(column, justify="right")
    for (carrier, origin), (flights, cancelled, minutes, late) in sorted(sums.items()):
        left = flights - cancelled
        mean = f"{minutes / left:.1f}" if left else ""
        name = f"{carrier} {names.get(carrier, '')}".strip()
        table.add_row(name, origin, f"{flights:,}", f"{cancelled:,}", mean, f"{late:,}")
    console.print(table)
