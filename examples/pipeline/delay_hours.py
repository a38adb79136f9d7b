"""Delay by hour, carrier and airport: the reference from the file, and the result of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flights.records import DataMissing, read_columns

__all__ = ["HourDelays", "HourKey", "Hours", "differences", "hours_in_file", "late_flights_in_file"]

# Hour in UTC as ISO 8601, carrier, airport of departure.
HourKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourDelays:
    """One hour of one carrier at one airport. All numbers are integers, so that two sums must be exactly equal.

    Attributes:
        flights: Flights planned.
        cancelled: Canceled flights.
        delay_minutes: The sum of the delays of the others; early departures are negative.
        late: Flights delayed by more than the threshold.
    """

    flights: int = 0
    cancelled: int = 0
    delay_minutes: int = 0
    late: int = 0

    def with_flight(self, delay: int | None, late_minutes: int) -> HourDelays:
        """The same with another flight."""
        return HourDelays(
            flights=self.flights + 1,
            cancelled=self.cancelled + (delay is None),
            delay_minutes=self.delay_minutes + (delay or 0),
            late=self.late + (delay is not None and delay > late_minutes),
        )


Hours = Mapping[HourKey, HourDelays]


def _delay(text: str, path: Path) -> int | None:
    if text == "NA":
        return None
    try:
        return int(text)
    except ValueError:
        msg = f"{path}: expected minutes of delay or NA, got {text!r}"
        raise DataMissing(msg) from None


def hours_in_file(path: Path, rows: int | None, late_minutes: int) -> dict[HourKey, HourDelays]:
    """Sum the first `rows` rows of a file, or all, directly from its text.

    This is the reference for the check, so it shares no code with the messages: no Spark, no JSON.

    Raises:
        DataMissing: The file is missing, or is not a table of flights.
    """
    hours: dict[HourKey, HourDelays] = {}
    nothing = HourDelays()
    for hour, carrier, origin, text in read_columns(path, ("time_hour", "carrier", "origin", "dep_delay"), rows):
        key = (hour, carrier, origin)
        hours[key] = hours.get(key, nothing).with_flight(_delay(text, path), late_minutes)
    return hours


def late_flights_in_file(path: Path, rows: int | None, late_minutes: int) -> set[int]:
    """The numbers, from 1, of the late flights.

    Raises:
        DataMissing: As `hours_in_file`.
    """
    delays = (_delay(text, path) for text, _ in read_columns(path, ("dep_delay", "carrier"), rows))
    return {number for number, delay in enumerate(delays, 1) if delay is not None and delay > late_minutes}


def differences(made: Hours, expected: Hours) -> list[str]:
    """Describe the differences, row by row; empty if there are none."""
    found: list[str] = []
    for key in sorted(made.keys() | expected.keys()):
        here, there = made.get(key), expected.get(key)
        if here != there:
            found.append(f"{' '.join(key)}: the pipeline has {here}, the file has {there}")
    return found
