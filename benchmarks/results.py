"""What was measured, and what it comes to: medians over the rounds, and ratios within them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["OURS", "PEERS", "RAW", "Results", "Row"]

OURS: Final = "trio_stomp"
RAW: Final = "raw trio loop"
PEERS: Final = ("stomp.py", "stompest", "stompman", "stompit")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table.

    Attributes:
        section: The heading of the table.
        name: What was done.
        unit: Of its figures: ``/s`` is better when larger, everything else when smaller.
    """

    section: str
    name: str
    unit: str = "/s"


@dataclass(slots=True)
class Results:
    """The figures of one run, each round's apart, what went wrong, and what a reader has to know besides."""

    values: dict[Row, dict[str, list[float]]] = field(default_factory=dict[Row, dict[str, list[float]]])
    troubles: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def add(self, row: Row, contestant: str, value: float) -> None:
        """Note one figure of one round."""
        self.values.setdefault(row, {}).setdefault(contestant, []).append(value)

    def figures(self, row: Row, contestant: str) -> list[float]:
        """What was measured in each round; nothing where the contestant took no part."""
        return self.values.get(row, {}).get(contestant, [])

    def median(self, row: Row, contestant: str) -> float | None:
        """The median of all rounds, or None."""
        figures = self.figures(row, contestant)
        return statistics.median(figures) if figures else None

    def best(self, row: Row, among: Iterable[str]) -> str | None:
        """The one of those with the best median."""
        medians = {name: median for name in among if (median := self.median(row, name)) is not None}
        if not medians:
            return None
        return (max if row.unit == "/s" else min)(medians, key=lambda name: medians[name])

    def ratio(self, over: tuple[Row, str], under: tuple[Row, str]) -> float | None:
        """The median of the ratios of the rounds: what slows the machine for a while slows both sides of one."""
        above, below = self.figures(*over), self.figures(*under)
        if not above or not below:
            return None
        if len(above) == len(below):
            return statistics.median(a / b for a, b in zip(above, below, strict=True))
        return statistics.median(above) / statistics.median(below)

    def sections(self) -> list[str]:
        """The headings, in the order in which they were measured."""
        return list(dict.fromkeys(row.section for row in self.values))

    def save(self, path: Path) -> None:
        """Write every figure, for whoever wants to look closer."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = {f"{row.section}: {row.name} [{row.unit}]": figures for row, figures in self.values.items()}
        path.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
