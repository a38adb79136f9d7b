"""The cost of a frame against its size, its headers and its chunks."""

from __future__ import annotations

from typing import Final

from benchmarks.bench import Bench
from benchmarks.contestants.ours_growth import SERIES
from benchmarks.order import Order
from benchmarks.results import OURS, Row

__all__ = ["EXPONENTS", "measure"]

EXPONENTS: Final = {
    series: Row("Growth of the cost of a frame: exponent, 1 is linear", series, "") for series in SERIES
}
# The best of so many: a noisy moment must not look like growth.
_REPEATS: Final = 5
# There are 66 points.
_PART_OF_SECONDS: Final = 0.02


def measure(bench: Bench) -> None:
    """The exponents of all series; three rounds at most, since each is the best of several measurements already."""
    repeats = 1 if bench.quick else _REPEATS
    order = Order(scenario="growth", seconds=bench.seconds * _PART_OF_SECONDS, count=repeats)
    for _ in range(min(bench.rounds, 3)):
        result = bench.run(bench.ours("ours_growth"), order)
        for series, row in EXPONENTS.items():
            if result is not None:
                bench.results.add(row, OURS, result[series])
