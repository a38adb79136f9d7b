"""Flight records: what is read from a file, and what a message carries."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from flights.records import DataMissing, DelayReport, Flight, airline_names, flights_file, read_columns, read_flights

HEAD = "carrier,flight,origin,dest,time_hour,dep_delay,distance\n"
ROWS = "UA,1545,EWR,IAH,2013-01-01T10:00:00Z,2,1400\nEV,4308,EWR,RDU,2013-01-01T21:00:00Z,NA,416\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(HEAD + ROWS, encoding="utf-8")
    return path


def test_read_flights_when_a_row_has_no_delay_then_it_was_cancelled(table: Path) -> None:
    left, cancelled = read_flights(table, None)

    first, second = "2013-01-01T10:00:00Z", "2013-01-01T21:00:00Z"
    assert left == Flight(id=1, carrier="UA", number=1545, origin="EWR", destination="IAH", hour=first, delay=2)
    assert cancelled == Flight(
        id=2, carrier="EV", number=4308, origin="EWR", destination="RDU", hour=second, delay=None
    )


def test_read_flights_when_rows_are_limited_then_the_first_come(table: Path) -> None:
    assert [flight.carrier for flight in read_flights(table, 1)] == ["UA"]


def test_read_flights_when_the_table_is_zipped_then_it_reads_the_same(table: Path, tmp_path: Path) -> None:
    zipped = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.write(table, "flights.csv")
    assert list(read_flights(zipped, None)) == list(read_flights(table, None))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "carrier, flight, origin, dest, time_hour, dep_delay not there"),
        ("carrier,flight\nUA,1\n", "origin, dest, time_hour, dep_delay not there"),
        (HEAD + "UA,1545,EWR\n", "line 2: expected 7 values, got 3"),
        (HEAD + "UA,1545,EWR,IAH,2013-01-01T10:00:00Z,soon,1400\n", "expected a whole number, got 'soon'"),
    ],
)
def test_read_flights_when_it_is_no_table_of_flights_then_it_says_why(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "flights.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataMissing, match=said):
        list(read_flights(path, None))


@pytest.mark.parametrize("name", ["missing.csv", "missing.csv.zip", "no_archive.csv.zip"])
def test_read_columns_when_the_file_cannot_be_read_then_it_says_which(tmp_path: Path, name: str) -> None:
    (tmp_path / "no_archive.csv.zip").write_bytes(b"this is no archive")
    with pytest.raises(DataMissing, match=f"{name}: the flight records cannot be read"):
        list(read_columns(tmp_path / name, ("carrier", "dep_delay"), None))


def test_message_when_read_back_then_it_says_what_the_flight_did(table: Path) -> None:
    for flight in read_flights(table, None):
        report = DelayReport.of_json(json.loads(flight.to_json()))
        assert report == DelayReport(id=flight.id, carrier=flight.carrier, delay=flight.delay)
        assert flight.headers() == {"flight_id": str(flight.id), "carrier": flight.carrier, "origin": "EWR"}


@pytest.mark.parametrize(
    "record", [None, [], {"id": 1, "carrier": "UA"}, {"id": "1", "carrier": "UA", "delay": 3}, {"id": 1, "delay": 3}]
)
def test_delay_report_when_the_message_is_no_flight_then_it_is_refused(record: object) -> None:
    with pytest.raises(ValueError, match="expected the JSON object of a flight"):
        DelayReport.of_json(record)


@pytest.mark.parametrize(("delay", "late"), [(None, False), (-5, False), (60, False), (61, True)])
def test_is_late_when_at_the_threshold_then_it_is_not(delay: int | None, late: bool) -> None:
    assert DelayReport(id=1, carrier="UA", delay=delay).is_late(60) is late


def test_package_data_when_installed_then_it_begins_with_the_flights_of_january() -> None:
    months = [hour[:7] for (hour, _) in read_columns(flights_file(), ("time_hour", "carrier"), 27_004)]
    assert months[0] == "2013-01"
    # In UTC the last evening of the month is in the next one already.
    assert set(months) == {"2013-01", "2013-02"}
    assert airline_names()["UA"] == "United Air Lines Inc."
