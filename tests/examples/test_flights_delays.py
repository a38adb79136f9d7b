"""Delay by carrier, straight from a file, against sums made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from flights.delays import CarrierDelays, delays_in_file
from flights.records import DataMissing

TABLE = """\
carrier,dep_delay
UA,2
UA,-4
UA,61
DL,NA
DL,60
UA,NA
HA,NA
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_delays_in_file_when_added_up_by_hand_then_they_are_equal(table: Path) -> None:
    delays = delays_in_file(table, None, 60)
    assert delays == {
        "UA": CarrierDelays(flights=4, cancelled=1, delay_minutes=59, late=1),
        "DL": CarrierDelays(flights=2, cancelled=1, delay_minutes=60, late=0),
        "HA": CarrierDelays(flights=1, cancelled=1, delay_minutes=0, late=0),
    }
    assert delays["UA"].mean_delay == pytest.approx(59 / 3)
    assert delays["HA"].mean_delay is None


def test_delays_in_file_when_rows_are_limited_then_only_the_first_count(table: Path) -> None:
    assert delays_in_file(table, 2, 60) == {"UA": CarrierDelays(flights=2, delay_minutes=-2)}


def test_delays_in_file_when_a_delay_is_no_number_then_it_says_which(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    path.write_text("carrier,dep_delay\nUA,soon\n", encoding="utf-8")
    with pytest.raises(DataMissing, match="expected minutes of delay or NA, got 'soon'"):
        delays_in_file(path, None, 60)
