"""Medians over rounds, ratios within them."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_median_when_nothing_was_measured_then_none() -> None:
    assert results(ours=[1]).median(ROW, "other") is None


def test_ratio_when_the_machine_slows_for_a_round_then_it_stays_the_same() -> None:
    made = results(ours=[100, 10, 100], other=[50, 5, 50])

    assert made.ratio((ROW, "ours"), (ROW, "other")) == 2


def test_ratio_when_a_round_is_missing_then_medians_are_divided() -> None:
    made = results(ours=[100, 102, 104], other=[50, 52])

    assert made.ratio((ROW, "ours"), (ROW, "other")) == 2


def test_ratio_when_one_side_is_missing_then_none() -> None:
    assert results(ours=[1]).ratio((ROW, "ours"), (ROW, "other")) is None


def test_best_when_rates_then_the_largest() -> None:
    assert results(a=[1], b=[3], c=[2]).best(ROW, ["a", "b", "c"]) == "b"


def test_best_when_times_then_the_smallest() -> None:
    assert results(SLOWER_IS_WORSE, a=[1], b=[3]).best(SLOWER_IS_WORSE, ["a", "b"]) == "a"


def test_best_when_nobody_was_measured_then_none() -> None:
    assert results().best(ROW, ["a"]) is None


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
