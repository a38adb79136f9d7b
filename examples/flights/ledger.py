"""The ledger of one run: flights sent, received, duplicated and lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import trio

from flights.delays import CarrierDelays
from flights.records import DelayReport, Flight

__all__ = ["Arrivals", "Ledger"]


@dataclass(slots=True)
class Arrivals:
    """The ids that arrived at one place.

    Attributes:
        ids: Each id once.
        doubled: The duplicates, one entry for each.
    """

    ids: set[int] = field(default_factory=set[int])
    doubled: list[int] = field(default_factory=list[int])

    def add(self, number: int) -> bool:
        """Record an id; returns whether it is new."""
        if number in self.ids:
            self.doubled.append(number)
            return False
        self.ids.add(number)
        return True


class Ledger:
    """The progress of all flights, updated by all tasks of the pipeline.

    Args:
        window: How many flights may be confirmed and not yet handled before `wait_room` waits.

    Attributes:
        sent: Flights sent in a transaction.
        confirmed: Flights whose transaction the broker has confirmed.
        handled: Flights that workers acknowledged, and routed if late.
        routed: Handled flights that were sent to the late queue.
        late: Flights received from the late queue.
        delays: The table by carrier; its late flights are those from the late queue.
        finished: Set when every flight has been processed completely.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._room = trio.Event()
        self._all_sent = False
        self.sent = 0
        self.confirmed = Arrivals()
        self.handled = Arrivals()
        self.routed = Arrivals()
        self.late = Arrivals()
        self.delays: dict[str, CarrierDelays] = {}
        self.finished = trio.Event()

    # --- the producer's side --------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """The number of flights at the broker or in transit."""
        return len(self.confirmed.ids) - len(self.handled.ids)

    async def wait_room(self) -> None:
        """Wait while the workers are too far behind, so that the queue stays short."""
        while self.backlog >= self._window:
            # Waiting producers share one event, so that all of them are woken.
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()

    def confirm(self, flights: Iterable[Flight]) -> None:
        """Record flights that the broker has confirmed."""
        for flight in flights:
            self.confirmed.add(flight.id)

    def all_sent(self) -> None:
        """Record that all flights are sent and confirmed."""
        self._all_sent = True
        self._look_for_end()

    # --- the consumers' side --------------------------------------------------------------------------------------

    def handle(self, report: DelayReport, *, routed: bool) -> None:
        """Record that a worker has finished a flight, and whether it was routed to the late queue."""
        if self.handled.add(report.id):
            self._of(report).add(report.delay)
        if routed:
            self.routed.add(report.id)
        if self.backlog < self._window:
            self._room.set()
        self._look_for_end()

    def count_late(self, report: DelayReport) -> None:
        """Record a flight from the late queue."""
        if self.late.add(report.id):
            self._of(report).late += 1
        self._look_for_end()

    def _of(self, report: DelayReport) -> CarrierDelays:
        return self.delays.setdefault(report.carrier, CarrierDelays())

    def _look_for_end(self) -> None:
        # A flight counts as handled once its transaction is committed, so `routed` is complete when `handled` is.
        # Compare sets, so that an unknown flight cannot replace a lost one.
        if self._all_sent and self.backlog <= 0 and len(self.late.ids) >= len(self.routed.ids) and not self.lost:
            self.finished.set()

    # --- the end --------------------------------------------------------------------------------------------------

    @property
    def moves(self) -> int:
        """A counter of all progress; it stops when the pipeline is stuck."""
        return self.sent + len(self.confirmed.ids) + len(self.handled.ids) + len(self.late.ids)

    @property
    def lost(self) -> list[int]:
        """Flights confirmed but never handled, or routed but never received from the late queue."""
        return sorted((self.confirmed.ids - self.handled.ids) | (self.routed.ids - self.late.ids))

    @property
    def doubled(self) -> list[int]:
        """Duplicates at one place, one entry for each."""
        places = (self.confirmed, self.handled, self.routed, self.late)
        return sorted(number for place in places for number in place.doubled)

    @property
    def strangers(self) -> list[int]:
        """Flights received but never sent: handled without being confirmed, or late without being routed."""
        return sorted((self.handled.ids - self.confirmed.ids) | (self.late.ids - self.routed.ids))
