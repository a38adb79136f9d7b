"""The page gets the table, and keeps the rest."""

from __future__ import annotations

from benchmarks.page import inserted
from tests.chaos.outcome import Outcome, Row
from tests.chaos.soak import BEGIN, END, PAGE, report


def test_report_when_all_is_well_then_it_has_all_that_it_takes_to_repeat_it() -> None:
    outcome = Outcome(broker="embedded", server="x/1", seed=77, rows=[Row(fault="cut", times=1, recovery=1)])

    text = report([outcome], "make soak", "2030-01-02")

    assert text.startswith("`make soak`, 2030-01-02, seed 77.\n")
    assert "- Machine: " in text
    assert "x/1" in text
    assert "- Went wrong: nothing\n" in text
    assert "| embedded | cut | 1 |" in text


def test_report_when_something_went_wrong_then_it_says_what() -> None:
    outcome = Outcome(broker="embedded", troubles=["message 5 is missing"])

    assert "- embedded: message 5 is missing" in report([outcome], "make soak", "2030-01-02")


def test_page_when_read_then_it_has_the_markers() -> None:
    assert inserted(PAGE.read_text("utf-8"), "new", begin=BEGIN, end=END).count("new") >= 1
