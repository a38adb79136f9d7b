"""The book of one run: what was sent, what came, and what came twice or never."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import trio

from flights.delays import CarrierDelays
from flights.records import DelayReport, Flight

__all__ = ["Arrivals", "Ledger"]


@dataclass(slots=True)
class Arrivals:
    """The ids that came to one place.

    Attributes:
        ids: Each id once.
        doubled: Those that came again, once for each time too many.
    """

    ids: set[int] = field(default_factory=set[int])
    doubled: list[int] = field(default_factory=list[int])

    def add(self, number: int) -> bool:
        """Note an id; returns whether it is the first time."""
        if number in self.ids:
            self.doubled.append(number)
            return False
        self.ids.add(number)
        return True


class Ledger:
    """What has become of the flights so far; all tasks of the pipeline write into it.

    Args:
        window: How many flights may be confirmed and not yet handled, before `wait_room` waits.

    Attributes:
        sent: Flights put into a transaction.
        confirmed: Flights whose transaction the broker has confirmed.
        handled: Flights that workers took, acknowledged, and routed where they were late.
        routed: Those of them that were sent on to the late queue.
        late: What came out of the late queue.
        delays: The table by carrier; its late flights are those that came out of the late queue.
        finished: Set when every flight has arrived at the end of its way.
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
        """How many flights wait at the broker, or on the way."""
        return len(self.confirmed.ids) - len(self.handled.ids)

    async def wait_room(self) -> None:
        """Wait while the workers are too far behind: a queue is no place to keep a year in."""
        while self.backlog >= self._window:
            # Producers that wait together wait for one event: a new one for each would leave the others behind.
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()

    def confirm(self, flights: Iterable[Flight]) -> None:
        """Note that the broker has confirmed some more flights."""
        for flight in flights:
            self.confirmed.add(flight.id)

    def all_sent(self) -> None:
        """Note that all flights are sent and confirmed."""
        self._all_sent = True
        self._look_for_end()

    # --- the consumers' side --------------------------------------------------------------------------------------

    def handle(self, report: DelayReport, *, routed: bool) -> None:
        """Note that a worker is done with a flight, and whether it went on to the late queue."""
        if self.handled.add(report.id):
            self._of(report).add(report.delay)
        if routed:
            self.routed.add(report.id)
        if self.backlog < self._window:
            self._room.set()
        self._look_for_end()

    def count_late(self, report: DelayReport) -> None:
        """Note that a flight has come out of the late queue."""
        if self.late.add(report.id):
            self._of(report).late += 1
        self._look_for_end()

    def _of(self, report: DelayReport) -> CarrierDelays:
        return self.delays.setdefault(report.carrier, CarrierDelays())

    def _look_for_end(self) -> None:
        # A flight counts as handled only once its transaction stands, so `routed` is complete when `handled` is.
        # Of confirmed flights, because that is what was promised; sets, because a stranger makes up for nobody.
        if self._all_sent and self.backlog <= 0 and len(self.late.ids) >= len(self.routed.ids) and not self.lost:
            self.finished.set()

    # --- the end --------------------------------------------------------------------------------------------------

    @property
    def moves(self) -> int:
        """Grows with everything that happens: when it stands still, the pipeline does."""
        return self.sent + len(self.confirmed.ids) + len(self.handled.ids) + len(self.late.ids)

    @property
    def lost(self) -> list[int]:
        """Confirmed by the broker and never handled, or routed and never seen in the late queue."""
        return sorted((self.confirmed.ids - self.handled.ids) | (self.routed.ids - self.late.ids))

    @property
    def doubled(self) -> list[int]:
        """Seen more than once at one place; one entry for each time too many."""
        places = (self.confirmed, self.handled, self.routed, self.late)
        return sorted(number for place in places for number in place.doubled)

    @property
    def strangers(self) -> list[int]:
        """Came out of a queue and had not gone in: not confirmed but handled, or late but not routed."""
        return sorted((self.handled.ids - self.confirmed.ids) | (self.late.ids - self.routed.ids))
