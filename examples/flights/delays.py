"""Delay by carrier, computed from messages and from the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flights.records import DataMissing, read_columns

__all__ = ["CarrierDelays", "delays_in_file"]


@dataclass(slots=True)
class CarrierDelays:
    """One carrier. All numbers are integers, so that two computations must be exactly equal.

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

    def add(self, delay: int | None) -> None:
        """Count a flight, without `late`."""
        self.flights += 1
        if delay is None:
            self.cancelled += 1
        else:
            self.delay_minutes += delay

    @property
    def mean_delay(self) -> float | None:
        """The mean delay in minutes of the flights that left; None if none did."""
        left = self.flights - self.cancelled
        return self.delay_minutes / left if left else None


def delays_in_file(path: Path, rows: int | None, late_minutes: int) -> dict[str, CarrierDelays]:
    """Sum the first `rows` rows of a file, or all, directly from its text.

    This is the reference for the check, so it shares no code with the messages: no Flight, no JSON, its own parser.

    Raises:
        DataMissing: The file is missing, or is not a table of flights.
    """
    carriers: dict[str, CarrierDelays] = {}
    for carrier, text in read_columns(path, ("carrier", "dep_delay"), rows):
        try:
            delay = None if text == "NA" else int(text)
        except ValueError:
            msg = f"{path}: expected minutes of delay or NA, got {text!r}"
            raise DataMissing(msg) from None
        delays = carriers.setdefault(carrier, CarrierDelays())
        delays.add(delay)
        delays.late += delay is not None and delay > late_minutes
    return carriers
