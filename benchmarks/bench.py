"""One run of the benchmarks: its plan, its contenders, its peer process, its results."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Self

from benchmarks.contenders import ROOT, Contender, ContenderFailed, own
from benchmarks.order import Order
from benchmarks.results import OURS, Results, Row

__all__ = ["Bench", "Peer"]


class Peer:
    """The process at the other end, for the length of a block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peer"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise AssertionError  # both were asked for
        return pipe

    def _line(self) -> str:
        return self._pipe(self._process.stdout).readline()

    def report(self) -> list[dict[str, float]]:
        """What it saw of each connection that ended since the last report."""
        pipe = self._pipe(self._process.stdin)
        pipe.write("report\n")
        pipe.flush()
        seen: list[dict[str, float]] = json.loads(self._line())
        return seen

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._pipe(self._process.stdout).close()
        self._process.wait(timeout=10)


@dataclass(slots=True)
class Bench:
    """The plan and the tools of a run.

    Attributes:
        contenders: Who takes part.
        peer: The other end.
        rounds: How often each measurement is made.
        seconds: How long one is.
        warm_up: What comes before.
        deadline: After that moment of the monotonic clock no more than one round of anything is begun.
        quick: Whether this is only to see that everything works.
        results: Where the figures go.
    """

    contenders: Sequence[Contender]
    peer: Peer
    rounds: int = 3
    seconds: float = 1.0
    warm_up: float = 0.3
    deadline: float = math.inf
    quick: bool = False
    results: Results = field(default_factory=Results)

    def order(self, scenario: str, destination: str) -> Order:
        """An order at the peer."""
        return Order(
            scenario=scenario,
            port=self.peer.port,
            destination=destination,
            warm_up=self.warm_up,
            seconds=self.seconds,
        )

    def turns(self, contenders: Sequence[Contender], *, most: int = 1000) -> Iterator[Contender]:
        """Everybody once in each round, beginning with another one each time; no more than `most` rounds."""
        for turn in range(min(self.rounds, most)):
            if turn and time.monotonic() > self.deadline:
                self.note(f"there was no time for {self.rounds} rounds of each table")
                return
            start = turn % len(contenders) if contenders else 0
            yield from [*contenders[start:], *contenders[:start]]

    def ours(self, module: str = "ours") -> Contender:
        """trio_stomp, in one of the modules of benchmarks/contestants."""
        return own(OURS, module)

    def run(self, contender: Contender, order: Order) -> Mapping[str, float] | None:
        """Run one measurement; None, and a note, where it failed."""
        begun = time.perf_counter()
        try:
            result = contender.run(order)
        except ContenderFailed as failure:
            self.trouble(str(failure))
            return None
        shown = f"{result['rate']:>12,.0f} /s" if "rate" in result else ""
        took = time.perf_counter() - begun
        print(f"  {order.scenario:12} {contender.name:14} {shown:>16} {took:6.1f} s", file=sys.stderr, flush=True)
        return result

    def rate(self, row: Row, contender: Contender, order: Order) -> Mapping[str, float] | None:
        """Run one measurement of a rate, and note it."""
        result = self.run(contender, order)
        if result is not None:
            self.results.add(row, contender.name, result["rate"])
        return result

    def note(self, what: str) -> None:
        """Something that belongs to the figures; once for all."""
        if what not in self.results.notes:
            print(f"  -- {what}", file=sys.stderr, flush=True)
            self.results.notes.append(what)

    def trouble(self, what: str) -> None:
        """Something did not go as it should; the run goes on."""
        print(f"  !! {what}", file=sys.stderr, flush=True)
        self.results.troubles.append(what)
