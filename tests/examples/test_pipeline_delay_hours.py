from pathlib import Path

import pytest
from flights.records import DataMissing
from pipeline.delay_hours import HourDelays, differences, hours_in_file, late_flights_in_file

TABLE = """\
carrier,origin,time_hour,dep_delay
UA,EWR,2013-01-01T10:00:00Z,2
UA,EWR,2013-01-01T10:00:00Z,NA
UA,EWR,2013-01-01T10:00:00Z,61
AA,JFK,2013-01-01T10:00:00Z,-5
UA,EWR,2013-01-01T11:00:00Z,60
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(TABLE, "utf-8")
    return path


def test_hours_when_added_up_from_a_file_then_by_hour_carrier_and_airport(table: Path) -> None:
    assert hours_in_file(table, None, 60) == {
        ("2013-01-01T10:00:00Z", "UA", "EWR"): HourDelays(flights=3, cancelled=1, delay_minutes=63, late=1),
        ("2013-01-01T10:00:00Z", "AA", "JFK"): HourDelays(flights=1, delay_minutes=-5),
        ("2013-01-01T11:00:00Z", "UA", "EWR"): HourDelays(flights=1, delay_minutes=60),
    }
    assert len(hours_in_file(table, 2, 60)) == 1


def test_late_flights_when_read_from_a_file_then_their_numbers(table: Path) -> None:
    assert late_flights_in_file(table, None, 60) == {3}
    assert late_flights_in_file(table, None, 59) == {3, 5}


def test_file_when_it_has_no_minutes_then_said(table: Path) -> None:
    table.write_text(TABLE.replace("61", "soon"), "utf-8")

    with pytest.raises(DataMissing, match="expected minutes of delay or NA, got 'soon'"):
        hours_in_file(table, None, 60)


def test_differences_when_tables_are_equal_then_none_and_else_each_row(table: Path) -> None:
    expected = hours_in_file(table, None, 60)
    key = ("2013-01-01T11:00:00Z", "UA", "EWR")

    assert differences(expected, expected) == []
    (different,) = differences({**expected, key: HourDelays(flights=2)}, expected)
    assert different.startswith("2013-01-01T11:00:00Z UA EWR: the pipeline has HourDelays(flights=2")
    (missing,) = differences({name: each for name, each in expected.items() if name != key}, expected)
    assert "the pipeline has None" in missing
