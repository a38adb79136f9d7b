"""What has to be reached, as ratios within one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.groups.codec import COPY, DECODE, ENCODE, UNESCAPED
from benchmarks.groups.traffic import LATENCY, RATES
from benchmarks.results import OURS, PEERS, RAW, Results, Row

__all__ = ["GOALS", "Goal", "Verdict"]

_BEST: Final = "the best of the others"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far it is: the figure, what it was held against, and whether that is reached."""

    figure: float
    against: str
    reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on a ratio of two medians, or on a figure itself.

    Attributes:
        what: What it is about, for the table.
        row: The row in which trio_stomp is looked at.
        against: A contender of `under`, or `_BEST`.
        under: The row that it is compared with, where that is another one.
        bound: The bound.
        at_most: Whether it is an upper one.
        inverted: Look at how many times `under` is of `row`: the cost for a message, where the rows are rates.
        unit: ``x`` for a ratio.
    """

    what: str
    row: Row
    bound: float
    against: str = OURS
    under: Row | None = None
    at_most: bool = False
    inverted: bool = False
    unit: str = "x"

    @property
    def text(self) -> str:
        """The bound, for people."""
        number = f"{self.bound:g}"
        limit = "at most" if self.at_most else "at least"
        return f"{limit} {number} {self.unit}" if self.unit != "x" else f"{limit} {number} times"

    def verdict(self, results: Results) -> Verdict | None:
        """Whether it is reached; None where that was not measured."""
        if self.unit != "x":
            figure = results.median(self.row, OURS)
            return None if figure is None else Verdict(figure, "", figure <= self.bound)
        under = self.under or self.row
        against = results.best(under, (*PEERS, UNESCAPED)) if self.against == _BEST else self.against
        if against is None:
            return None
        ours, theirs = (self.row, OURS), (under, against)
        figure = results.ratio(theirs, ours) if self.inverted else results.ratio(ours, theirs)
        if figure is None:
            return None
        return Verdict(figure, against, figure <= self.bound if self.at_most else figure >= self.bound)


def _times(row: Row, bound: float, against: str, what: str = "") -> Goal:
    return Goal(what=what or row.name, row=row, bound=bound, against=against)


GOALS: Final = (
    _times(DECODE["small"], 20, "stompman", "decode, small"),
    _times(DECODE["small"], 5, "stomp.py", "decode, small"),
    _times(DECODE["64 KiB"], 3, "stompest", "decode, 64 KiB"),
    Goal(
        what="decode, 64 KiB: its cost in copies of memory",
        row=DECODE["64 KiB"],
        bound=3,
        against=COPY,
        at_most=True,
        inverted=True,
    ),
    # Not of large bodies: every encoder comes close to the one copy that it takes, and none can be twice as fast.
    *(_times(ENCODE[case], 2, _BEST, f"encode, {case}") for case in ("small", "20 headers", "escapes")),
    _times(RATES["receive"], 5, "stomp.py"),
    _times(RATES["receive"], 20, "stompman"),
    _times(RATES["acknowledge"], 5, "stomp.py"),
    _times(RATES["acknowledge"], 20, "stompman"),
    _times(RATES["send"], 3, "stomp.py"),
    Goal(
        what="confirmed with a window: its cost in sends",
        row=RATES["publisher"],
        under=RATES["send"],
        bound=1.5,
        at_most=True,
        inverted=True,
    ),
    Goal(
        what="receive, auto: its cost in bare loops",
        row=RATES["receive"],
        bound=10,
        against=RAW,
        at_most=True,
        inverted=True,
    ),
    Goal(what="round trip, p50, in bare echoes", row=LATENCY["p50"], bound=2, against=RAW, at_most=True),
)
