"""What came out of a run, as data, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Outcome", "Row", "markdown", "table"]

# What a row counts.
_COUNTED: Final = ("times", "sent", "confirmed", "handled", "duplicates", "reconnections", "moves")
_TITLES: Final = ("broker", "fault", *_COUNTED, "slowest recovery")


@dataclass(slots=True, kw_only=True)
class Row:
    """What happened in the time of one kind of fault: from each one's share of messages to that of the next fault.

    Attributes:
        fault: The kind, or what else the time was.
        times: How many times it struck.
        sent: Messages handed to `send`.
        confirmed: Messages that the broker confirmed.
        handled: Messages handled, each time that they were.
        duplicates: Of these, those that had been handled before.
        reconnections: Connections that followed another one, all clients together.
        moves: Of these, those to another host than the one before.
        recovery: Seconds from when it was over (a cut: at once; a stopped broker: when it answers again) until every
            client concerned was connected and had a message confirmed or handled; of all times, the longest.
    """

    fault: str
    times: int = 0
    sent: int = 0
    confirmed: int = 0
    handled: int = 0
    duplicates: int = 0
    reconnections: int = 0
    moves: int = 0
    recovery: float = 0.0

    def counts(self) -> list[int]:
        """What it counts, in the order of the table."""
        return [getattr(self, name) for name in _COUNTED]

    def add(self, other: Row, *, since: Row | None = None) -> None:
        """Count another row in, or what it has more than an earlier one."""
        before = (since or Row(fault="")).counts()
        for name, mine, count, earlier in zip(_COUNTED, self.counts(), other.counts(), before, strict=True):
            setattr(self, name, mine + count - earlier)
        self.recovery = max(self.recovery, other.recovery)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One run against one broker.

    Attributes:
        broker: Its short name.
        server: What it calls itself.
        seed: Of the schedule.
        messages: How many were to be moved.
        faults: How many were to strike.
        seconds: How long it took.
        rows: By kind of fault.
        resent: Messages that the clients sent again.
        stale: Messages whose connection was lost between their handling and their ACK.
        freed: Confirmed messages that the broker gave to nobody until it was restarted.
        warm_bytes: Resident memory of the process when it had warmed up.
        end_bytes: And at the end.
        troubles: What must not be, in words; none when all is well.
    """

    broker: str
    server: str = ""
    seed: int = 0
    messages: int = 0
    faults: int = 0
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list[Row])
    resent: int = 0
    stale: int = 0
    freed: int = 0
    warm_bytes: int = 0
    end_bytes: int = 0
    troubles: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> Row:
        """All rows in one."""
        total = Row(fault="all")
        for row in self.rows:
            total.add(row)
        return total

    def __str__(self) -> str:
        grown = (self.end_bytes - self.warm_bytes) / 2**20
        return (
            f"{self.broker} ({self.server}), seed {self.seed}: {self.messages} messages and {self.faults} faults in "
            f"{self.seconds:.0f} s; sent again {self.resent}, stale {self.stale}; memory {self.end_bytes / 2**20:.0f} "
            f"MiB, {grown:+.1f} MiB since it was warm"
            + (f"; held back by the broker until a restart: {self.freed}" if self.freed else "")
            + "".join(f"\n  TROUBLE: {each}" for each in self.troubles)
        )


def _cells(outcomes: Iterable[Outcome], *, emphasis: str = "") -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for outcome in outcomes:
        for row in (*outcome.rows, outcome.total):
            mark = emphasis if row.fault == "all" else ""
            recovery = f"{row.recovery:.1f} s" if row.times else ""
            written = [f"{number:,}" for number in row.counts()]
            cells.append(tuple(f"{mark}{cell}{mark}" for cell in (outcome.broker, row.fault, *written, recovery)))
    return cells


def table(outcomes: Sequence[Outcome]) -> str:
    """The table by broker and fault, for a terminal."""
    cells = [_TITLES, *_cells(outcomes)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)  # two columns of words
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([*lines, "", *map(str, outcomes)])


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The same as a table of Markdown."""
    lines = [_TITLES, ("---",) * 2 + ("--:",) * (len(_TITLES) - 2), *_cells(outcomes, emphasis="**")]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
