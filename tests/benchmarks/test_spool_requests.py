"""What the planner asks of a spool: it grows no faster than the number of receivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spool_requests import Counts, counts_of_a_batch, table


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ROWS": 5, "_RELEASED": 64, "_WARM_UP": 1, "_MEASURED": 1, "RECEIVERS": (64, 128)}.items():
        monkeypatch.setattr(f"benchmarks.spool_requests.{name}", value)


def per_receiver(folder: Path, receivers: int, *, marks: bool) -> Counts:
    folder.mkdir()
    return counts_of_a_batch(folder, receivers, marks=marks).over(receivers)


@pytest.mark.parametrize("marks", [True, False])
def test_planner_when_there_are_more_receivers_then_no_more_requests_for_each(tmp_path: Path, marks: bool) -> None:
    few, many = (per_receiver(tmp_path / str(count), count, marks=marks) for count in (16, 64))

    assert many.requests < few.requests + 0.1
    assert many.listed < few.listed + 1
    # Ids are read when they are saved, and before that if all rows may be copies.
    assert many.opened < (1.1 if marks else 2.1)
    assert many.reads == many.opened
    assert many.writes < 0.1


def test_planner_when_a_batch_is_planned_then_the_spool_is_listed_once(tmp_path: Path) -> None:
    assert counts_of_a_batch(tmp_path, 8, marks=False).listings == 1


def test_table_when_printed_then_a_line_for_each_number_of_receivers() -> None:
    head, rule, *lines = table(marks=True).splitlines()

    assert [line.split("|")[1].strip() for line in lines] == ["64", "128"]
    assert len({line.count("|") for line in (head, rule, *lines)}) == 1
