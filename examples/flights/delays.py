"""Delay by carrier: what the demo adds up from messages, and what the file itself says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flights.records import DataMissing, read_columns

__all__ = ["CarrierDelays", "delays_in_file"]


@dataclass(slots=True)
class CarrierDelays:
    """One carrier. All numbers are whole, so that two ways of adding up must be equal to the last digit.

    Attributes:
        flights: Flights planned.
        cancelled: Those that never left.
        delay_minutes: The delays of those that did, added up; early ones count against late ones.
        late: How many left later than the threshold.
    """

    flights: int = 0
    cancelled: int = 0
    delay_minutes: int = 0
    late: int = 0

    def add(self, delay: int | None) -> None:
        """Count a flight, but not whether it is late."""
        self.flights += 1
        if delay is None:
            self.cancelled += 1
        else:
            self.delay_minutes += delay

    @property
    def mean_delay(self) -> float | None:
        """Minutes, over the flights that left; None where none did."""
        left = self.flights - self.cancelled
        return self.delay_minutes / left if left else None


def delays_in_file(path: Path, rows: int | None, late_minutes: int) -> dict[str, CarrierDelays]:
    """Add up the first `rows` rows of a file, or all, straight from its text.

    This is the other side of the check, so it shares nothing with the way of the messages: no Flight, no JSON, and its
    own reading of the file.

    Raises:
        DataMissing: The file is not there, or not a table of flights.
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
