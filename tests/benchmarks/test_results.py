"""Medians over rounds, ratios within them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.results import Results, Row

ROW = Row("a section", "a row")
SLOWER_IS_WORSE = Row("a section", "another row", "µs")


def results(row: Row = ROW, **figures: list[float]) -> Results:
    made = Results()
    for name, values in figures.items():
        for value in values:
            made.add(row, name, value)
    return made


def test_median_when_one_round_was_disturbed_then_it_does_not_count() -> None:
    assert results(ours=[10, 11, 2]).median(ROW, "ours") == 10
    assert results(ours=[10]).median(ROW, "other") is None


@pytest.mark.parametrize(
    ("ours", "other", "ratio"),
    [
        # The machine was slow in one round.
        ([100, 10, 100], [50, 5, 50], 2),
        # A round is missing: medians are divided.
        ([100, 102, 104], [50, 52], 2),
        ([1], [], None),
    ],
)
def test_ratio_when_there_are_rounds_of_both_then_is_that_within_rounds(
    ours: list[float], other: list[float], ratio: float | None
) -> None:
    assert results(ours=ours, other=other).ratio((ROW, "ours"), (ROW, "other")) == ratio


@pytest.mark.parametrize(
    ("row", "figures", "best"),
    [(ROW, {"a": 1, "b": 3, "c": 2}, "b"), (SLOWER_IS_WORSE, {"a": 1, "b": 3}, "a"), (ROW, {}, None)],
)
def test_best_when_rates_or_times_are_compared_then_the_fastest(
    row: Row, figures: dict[str, float], best: str | None
) -> None:
    made = results(row, **{name: [value] for name, value in figures.items()})

    assert made.best(row, ["a", "b", "c"]) == best


def test_sections_when_asked_then_each_once_in_order() -> None:
    made = results(SLOWER_IS_WORSE, a=[1])
    made.add(ROW, "a", 1)
    made.add(Row("later", "row"), "a", 1)

    assert made.sections() == ["a section", "later"]


def test_save_when_called_then_every_figure_is_there(tmp_path: Path) -> None:
    results(ours=[1.5, 2.5]).save(tmp_path / "made" / "figures.json")

    assert json.loads((tmp_path / "made" / "figures.json").read_text("utf-8")) == {
        "a section: a row [/s]": {"ours": [1.5, 2.5]}
    }
