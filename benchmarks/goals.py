"""What has to be reached, as ratios within one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.groups.brokers import BROKER_RATES, PROCESSOR, SECURE, SECURE_PROCESSOR, SECURE_RATES, TITLES
from benchmarks.groups.codec import COPY, DECODE, ENCODE, UNESCAPED, WHOLE
from benchmarks.groups.growth import EXPONENTS
from benchmarks.groups.scale import (
    CONNECTIONS,
    DISPATCH,
    IDLE,
    MEMORY,
    OPEN,
    RECEIVED,
    REOPENED,
    RESTORE,
    SENT,
    SPOOLED,
    STEPS,
    SUBSCRIPTIONS,
)
from benchmarks.groups.spark import (
    ALERT,
    AUTO,
    BEYOND,
    BROKER_SINK,
    BROKER_SINK_PROCESSOR,
    BROKER_SOURCE_PROCESSOR,
    PLAIN,
    SINK,
    SOURCE,
    SPOOL,
)
from benchmarks.groups.traffic import ASYNCIO, LATENCY, RATES, SYNCHRONOUS
from benchmarks.groups.waiting import FLOODED, HELP, IMPORT, KEPT, TRACKED
from benchmarks.processes import RECEIVER
from benchmarks.results import OURS, PEERS, RAW, Results, Row

__all__ = ["GOALS", "Goal", "Verdict"]

_LARGE: Final = 1000
_BEST: Final = "the best of the others"
# An exponent of 1, with room for the caches of a processor, which make the larger of two things cost more than double.
_LINEAR: Final = 1.15


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far it is: the figure, what it was held against, and whether that is reached."""

    figure: float
    against: str
    reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on a ratio of two figures of one run, or on a figure itself.

    Attributes:
        what: What it is about, for the table.
        row: The row in which trio_stomp is looked at.
        bound: The bound.
        column: The column of that figure.
        against: The column of the figure that it is divided by, or `_BEST`; None: the figure itself is bounded.
        under: The row of that figure, where it is another one.
        at_most: Whether it is an upper bound.
        inverted: Divide the other way round: rates become the cost of one thing.
        unit: Of a figure that is itself bounded.
    """

    what: str
    row: Row
    bound: float
    column: str = OURS
    against: str | None = None
    under: Row | None = None
    at_most: bool = False
    inverted: bool = False
    unit: str = ""

    @property
    def text(self) -> str:
        """The bound, for people."""
        limit = "at most" if self.at_most else "at least"
        bound = f"{self.bound:,.0f}" if self.bound >= _LARGE else f"{self.bound:g}"
        return f"{limit} {bound} {'times' if self.against is not None else self.unit}".rstrip()

    def verdict(self, results: Results) -> Verdict | None:
        """Whether it is reached; None where that was not measured."""
        under = self.under or self.row
        against = results.best(under, (*PEERS, UNESCAPED, WHOLE)) if self.against == _BEST else self.against
        if self.against is None:
            figure = results.median(self.row, self.column)
        elif against is None:
            return None
        else:
            ours, theirs = (self.row, self.column), (under, against)
            figure = results.ratio(theirs, ours) if self.inverted else results.ratio(ours, theirs)
        if figure is None:
            return None
        reached = figure <= self.bound if self.at_most else figure >= self.bound
        if self.under is None:
            return Verdict(figure, against or "", reached)
        return Verdict(figure, under.name if against == self.column else f"{against}, {under.name}", reached)


def _times(row: Row, bound: float, against: str, what: str = "") -> Goal:
    return Goal(what=what or row.name, row=row, bound=bound, against=against)


GOALS: Final = (
    _times(DECODE["small"], 20, "stompman", "decode, small"),
    _times(DECODE["small"], 5, WHOLE, "decode, small"),
    _times(DECODE["64 KiB"], 3, "stompest", "decode, 64 KiB"),
    Goal(
        what="decode, 64 KiB: its cost in copies of memory",
        row=DECODE["64 KiB"],
        bound=3,
        against=COPY,
        at_most=True,
        inverted=True,
    ),
    *(_times(DECODE[case], 1, _BEST, f"decode, {case}") for case in ("16 MiB", "small, byte by byte")),
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
        against=OURS,
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
    Goal(what="round trip, p50", row=LATENCY["p50"], bound=1, against=_BEST, at_most=True),
    *(
        Goal(what=f"round trip, {part}, in bare echoes", row=LATENCY[part], bound=2, against=RAW, at_most=True)
        for part in ("p50", "p99.9")
    ),
    *(
        _times(SYNCHRONOUS[scenario], bound, peer, f"blocking: {SYNCHRONOUS[scenario].name}")
        for scenario, bound in (("acknowledge", 2), ("send", 1))
        for peer in ("stomp.py", "stompest")
    ),
    Goal(
        what=f"blocking: {SYNCHRONOUS['receipts'].name}: its cost in bare crossings",
        row=SYNCHRONOUS["receipts"],
        against=RAW,
        bound=1.5,
        at_most=True,
        inverted=True,
    ),
    *(
        _times(ASYNCIO[scenario], bound, "stompman", f"asyncio: {ASYNCIO[scenario].name}")
        for scenario, bound in (("receive", 25), ("acknowledge", 18), ("send", 5), ("receipts", 1.2), ("publisher", 10))
    ),
    *(
        _times(BROKER_RATES[broker, scenario], bound, _BEST, f"{title}: {RATES[scenario].name}")
        for scenario, bound in (("receipts", 1), ("publisher", 1.2), ("send", 1.1))
        for broker, title in TITLES.items()
    ),
    *(
        Goal(what=f"{row.section}, {row.name}", row=row, bound=0.5, against=_BEST, at_most=True)
        for (_, scenario), row in PROCESSOR.items()
        if scenario == "send"
    ),
    *(
        Goal(
            what=f"{SECURE['stomps']}, {row.name}: its processor time in that without",
            row=row,
            under=PROCESSOR["rabbitmq", scenario],
            against=OURS,
            bound=2,
            at_most=True,
        )
        for (scheme, scenario), row in SECURE_PROCESSOR.items()
        if scheme == "stomps"
    ),
    *(
        _times(row, 1, _BEST, f"{SECURE[scheme]}: {RATES[scenario].name}")
        for (scheme, scenario), row in SECURE_RATES.items()
    ),
    Goal(
        what="1 000 connections: received a second",
        row=CONNECTIONS[1000],
        column=RECEIVED,
        against=RECEIVED,
        under=CONNECTIONS[1],
        bound=0.8,
    ),
    *(
        Goal(
            what=f"10 000 subscriptions: {column.removeprefix('µs of ')}",
            row=SUBSCRIPTIONS[10_000],
            column=column,
            against=column,
            under=SUBSCRIPTIONS[1],
            bound=1.3,
            at_most=True,
        )
        for column in DISPATCH.values()
    ),
    *(
        Goal(
            what=f"10 000 subscriptions: {column}", row=REOPENED[10_000], column=column, bound=2, at_most=True, unit="s"
        )
        for column in (OPEN, RESTORE)
    ),
    Goal(what="an idle connection: memory", row=IDLE, column=MEMORY, bound=50, at_most=True, unit="KiB"),
    Goal(
        what="an idle connection: wake-ups but for heart-beats",
        row=IDLE,
        column=STEPS,
        bound=0,
        at_most=True,
        unit="a second",
    ),
    *(
        Goal(what=row.name.removesuffix(": at most"), row=row, bound=0.05, at_most=True, unit="bodies")
        for row in (SPOOLED, SENT)
    ),
    Goal(what=f"start, {IMPORT.name}", row=IMPORT, bound=60, at_most=True, unit="ms"),
    Goal(what=f"start, {HELP.name}", row=HELP, bound=150, at_most=True, unit="ms"),
    Goal(what="a message that is kept: memory", row=KEPT, bound=1, at_most=True, unit="KiB"),
    Goal(what="a message that is kept: objects for the collector", row=TRACKED, bound=4, at_most=True),
    Goal(
        what="round trip, p99, another connection being flooded",
        row=FLOODED["p99"],
        bound=1,
        against=_BEST,
        at_most=True,
    ),
    *(
        Goal(what=f"growth, {series}", row=row, bound=_LINEAR, at_most=True, unit="as exponent")
        for series, row in EXPONENTS.items()
    ),
    Goal(what="Spark, source: one receiver", row=SOURCE[1], bound=60_000, unit="rows a second"),
    Goal(what="Spark, source: two receivers", row=SOURCE[2], against=OURS, under=SOURCE[1], bound=1.6),
    *(Goal(what=row.name, row=row, bound=120_000, unit="rows a second") for row in SINK.values()),
    Goal(what="Spark, spool: read", row=SPOOL, bound=1_000_000, unit="rows a second"),
    Goal(what="Spark: from SEND to foreachBatch, p50", row=ALERT, bound=250, at_most=True, unit="ms"),
    Goal(
        what="Spark: from SEND to the call for the batch, beyond an empty micro-batch",
        row=BEYOND,
        bound=60,
        at_most=True,
        unit="ms",
    ),
    *(
        Goal(what=f"{row.section}, {row.name}", row=row, bound=1.15, at_most=True, against=PLAIN)
        for (_, kind), row in BROKER_SOURCE_PROCESSOR.items()
        if kind == RECEIVER
    ),
    *(
        Goal(what=f"{row.section}, {row.name}", row=row, bound=1.15, at_most=True, against="stomp.py")
        for (_, (mode, _)), row in BROKER_SINK_PROCESSOR.items()
        if mode != AUTO
    ),
    *(
        _times(row, 1, "stomp.py", f"{row.section}, {row.name}")
        for rows in BROKER_SINK.values()
        for (mode, _), row in rows.items()
        if mode != AUTO
    ),
    *(
        Goal(what=f"{row.section}, {row.name}", row=row, against="stomp.py", under=under, bound=1)
        for rows in BROKER_SINK.values()
        for (mode, ids), row in rows.items()
        for (other, same), under in rows.items()
        if mode == AUTO and other != AUTO and ids == same
    ),
)
