"""The page gets the tables, and keeps the rest."""

from __future__ import annotations

import pytest

from benchmarks.contenders import own
from benchmarks.goals import GOALS
from benchmarks.page import BEGIN, END, PAGE, inserted, report
from benchmarks.results import COMPILED, OURS, Results, Row


def test_inserted_when_the_page_has_markers_then_what_is_between_them_is_replaced() -> None:
    page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"

    assert inserted(page, "new") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"


def test_inserted_when_the_markers_are_missing_then_it_says_so() -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        inserted("nothing", "new")


def test_page_when_read_then_it_has_the_markers() -> None:
    assert inserted(PAGE.read_text("utf-8"), "new")


def test_report_when_a_goal_is_missed_then_its_row_says_so() -> None:
    goal = GOALS[0]
    results = Results()
    results.add(goal.row, OURS, 10)
    results.add(goal.row, goal.against or "", 1)
    about = f"| {goal.what} | {goal.against} | {goal.text} | 10 | **not reached** |"

    assert f"{about}  |  |" in report(results, [own(OURS, "ours")], "today")

    results.add(goal.row, COMPILED, 25)
    assert f"{about} 25 | yes |" in report(results, [own(OURS, "ours")], "today")


def test_report_when_units_differ_within_a_table_then_each_figure_has_its_own() -> None:
    results = Results()
    results.add(Row("Memory", "a", "MiB"), OURS, 3)
    results.add(Row("Memory", "b", "bodies"), OURS, 2)

    text = report(results, [], "today")

    assert "| a | 3 MiB |" in text
    assert "| b | 2 bodies |" in text


def test_report_when_something_went_wrong_then_it_says_what() -> None:
    text = report(Results(troubles=["stompit fell over"], notes=["it was late"]), [], "today")

    assert text.startswith("today\n")
    assert "- Machine: " in text
    assert "- Note: it was late" in text
    assert "- Went wrong: stompit fell over" in text
