"""The page gets the tables, and keeps the rest."""

from __future__ import annotations

import re

import pytest

from benchmarks.contenders import own
from benchmarks.goals import GOALS
from benchmarks.page import BEGIN, END, PAGE, inserted, report
from benchmarks.results import OURS, Results, Row


def test_inserted_when_the_page_has_markers_then_what_is_between_them_is_replaced() -> None:
    page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"

    assert inserted(page, "new") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"


def test_inserted_when_the_page_has_markers_of_its_own_then_they_stay() -> None:
    assert inserted("[old]", "new", begin="[", end="]") == "[\n\nnew\n\n]"


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

    assert about in report(results, [own(OURS, "ours")], "today")


def test_report_when_units_differ_within_a_table_then_each_figure_has_its_own() -> None:
    results = Results()
    results.add(Row("Memory", "a", "MiB"), OURS, 3)
    results.add(Row("Memory", "b", "bodies"), OURS, 2)

    text = report(results, [], "today")

    assert "| a | 3 MiB |" in text
    assert "| b | 2 bodies |" in text


def test_report_when_there_were_several_rounds_then_it_says_how_far_they_are_apart() -> None:
    results = Results()
    for one, other in ((99, 100), (100, 120), (101, 80)):
        results.add(Row("Rates", "send"), OURS, one)
        results.add(Row("Rates", "receive"), OURS, one)
        results.add(Row("Rates", "receive"), "stompit", other)
    results.add(Row("Once", "send"), OURS, 1)

    text = report(results, [], "today")

    assert text.count("Spread of 3 rounds: ±1% in the middle, at most ±20% (*receive*, stompit).") == 1
    assert text.count("Spread") == text.count("Measured once.") == 1


def test_report_when_something_went_wrong_then_it_says_what() -> None:
    text = report(Results(troubles=["stompit fell over"], notes=["it was late"]), [], "today")

    assert text.startswith("today\n")
    assert "- Machine: " in text
    assert "- Note: it was late" in text
    assert "- Went wrong: stompit fell over" in text


def test_report_when_another_client_is_faster_then_it_says_so_in_words_beside_the_table() -> None:
    results = Results()
    for name, rate, delay in ((OURS, 100, 10), ("stompit", 150, 20), ("stompest", 101, 5), ("stompman", 1, 11)):
        results.add(Row("Rates", "send"), name, rate)
        results.add(Row("Rates", "receive"), name, 100 if name == OURS else 1)
        results.add(Row("Delays", "p50", "ms"), name, delay)

    text = report(results, [], "today")

    assert "faster than trio_stomp** in *send*: stompit 1.50 times as fast, stompest 1.01 times as fast." in text
    assert "faster than trio_stomp** in *p50*: stompest 2.00 times as fast." in text


def test_report_when_no_other_client_is_faster_then_it_says_that() -> None:
    results = Results()
    results.add(Row("Rates", "send"), OURS, 2)
    results.add(Row("Rates", "send"), "stompit", 1)
    results.add(Row("Alone", "memory", "KiB"), OURS, 2)

    text = report(results, [], "today")

    assert text.count("Other clients are faster than trio_stomp** in no row of this table.") == 1


def test_report_when_a_row_is_no_speed_then_says_how_much_others_take() -> None:
    results = Results()
    for name, size, pause in ((OURS, 4, 10), ("stompit", 1, 5)):
        results.add(Row("Kept", "memory", "KiB"), name, size)
        results.add(Row("Kept", "a collection", "ms"), name, pause)

    text = report(results, [], "today")

    assert (
        "do better than trio_stomp** in *memory*: stompit 0.25 times as much; in *a collection*: stompit 2.00" in text
    )


def test_page_when_read_then_the_words_beside_its_tables_are_what_the_tables_say() -> None:
    written = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    # The first part is about the run, and the last has the goals.
    _, *sections, _ = written.split("\n### ")
    assert sections
    for section in sections:
        results = Results()
        title, _, unit = section.partition("\n")[0].partition(" [")
        head, _, *lines = [line for line in section.splitlines() if line.startswith("|")]
        names = [cell.strip() for cell in head.split("|")[2:-1]]
        for line in lines:
            row, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
            for name, cell in zip(names, cells, strict=True):
                figure, _, own_unit = cell.partition(" ")
                if re.fullmatch(r"[0-9.,]+", figure):
                    results.add(
                        Row(title, row, own_unit or unit.rstrip("]") or "/s"), name, float(figure.replace(",", ""))
                    )
        said = [line for line in report(results, [], "").splitlines() if line.startswith("**")]

        assert [line for line in section.splitlines() if line.startswith("**")] == said
