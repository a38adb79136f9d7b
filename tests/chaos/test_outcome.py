"""The table adds up."""

from __future__ import annotations

from tests.chaos.outcome import Outcome, Row, markdown, table


def outcome() -> Outcome:
    rows = [
        Row(fault="calm", sent=1000, confirmed=900, handled=800),
        Row(
            fault="cut",
            times=2,
            sent=234,
            confirmed=334,
            handled=440,
            duplicates=6,
            reconnections=4,
            moves=3,
            recovery=1.25,
        ),
    ]
    return Outcome(broker="embedded", server="x/1", seed=4, messages=1234, faults=2, seconds=9, rows=rows)


def test_total_when_there_are_rows_then_it_is_their_sum_and_the_slowest_recovery() -> None:
    total = outcome().total

    assert total == Row(
        fault="all",
        times=2,
        sent=1234,
        confirmed=1234,
        handled=1240,
        duplicates=6,
        reconnections=4,
        moves=3,
        recovery=1.25,
    )


def test_table_when_printed_then_it_has_a_line_for_each_fault_and_what_went_wrong() -> None:
    failed = outcome()
    failed.troubles.append("message 5 is missing")

    lines = table([failed]).splitlines()

    assert lines[0].split()[:2] == ["broker", "fault"]
    assert lines[2].split() == ["embedded", "cut", "2", "234", "334", "440", "6", "4", "3", "1.2", "s"]
    assert lines[3].split()[:4] == ["embedded", "all", "2", "1,234"]
    assert lines[-1] == "  TROUBLE: message 5 is missing"


def test_markdown_when_made_then_each_line_has_as_many_cells() -> None:
    lines = markdown([outcome()]).splitlines()

    assert {line.count("|") for line in lines} == {11}
    assert lines[-1].startswith("| **embedded** | **all** | **2** | **1,234** |")
