"""The replay of a year: every departure to the queue, in the order in which they were planned, each confirmed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio
from flights.records import Flight, read_flights

import trio_stomp
from pipeline.settings import SENTINEL_HOUR, SENTINEL_ID
from trio_stomp import OutgoingMessage

__all__ = ["Replay", "flights_in_order"]

_JSON: Final = "application/json"
# A queue of a run that was killed goes by itself, on the broker that would keep it. Others take it for a plain header.
QUEUE_HEADERS: Final = {"x-expires": "3600000", "persistent": "true"}
# About half a day of flights: so many may come out of order when a link breaks and they are sent again.
_IN_FLIGHT: Final = 500
_BATCH: Final = 250


def flights_in_order(path: Path, rows: int | None) -> list[Flight]:
    """The flights by planned hour. The file has them by month, but as text: October follows January.

    Raises:
        DataMissing: The file is not there, or not a table of flights.
    """
    return sorted(read_flights(path, rows), key=lambda flight: (flight.hour, flight.id))


@dataclass(slots=True)
class Replay:
    """Sends the flights, and says how far it has come.

    Attributes:
        url: The broker.
        queue: Where to.
        confirmed: How many flights the broker has confirmed.
        resent: How many messages were sent again after a lost link: the broker may have them twice.
    """

    url: str
    queue: str
    confirmed: int = 0
    resent: int = 0

    async def run(self, flights: Sequence[Flight], *, per_second: float) -> None:
        """Send all flights, no faster than so many a second; returns when the broker has confirmed each.

        Raises:
            NotConfirmed: The broker refused some, or was gone for too long.

        Cancellation: some flights were sent.
        """
        policy = trio_stomp.Reconnect(max_delay=2, deadline=60)
        started = trio.current_time()
        async with trio_stomp.connect(self.url, reconnect=policy) as client:
            async with client.publisher(max_in_flight=_IN_FLIGHT) as publisher:
                for start in range(0, len(flights), _BATCH):
                    await publisher.send_many([self._message(each) for each in flights[start : start + _BATCH]])
                    self.confirmed, self.resent = publisher.confirmed, client.statistics().resent
                    await trio.sleep_until(started + start / per_second)
            self.confirmed, self.resent = publisher.confirmed, client.statistics().resent

    async def close_windows(self) -> None:
        """Send the message behind all flights that lets Spark's watermark pass the last of them.

        Cancellation: it was sent, or not.
        """
        policy = trio_stomp.Reconnect(max_delay=2, deadline=60)
        async with trio_stomp.connect(self.url, reconnect=policy) as client:
            body = json.dumps({"id": SENTINEL_ID, "carrier": "", "origin": "", "hour": SENTINEL_HOUR, "delay": None})
            await client.send(self.queue, body.encode(), headers=QUEUE_HEADERS, content_type=_JSON, receipt=True)

    def _message(self, flight: Flight) -> OutgoingMessage:
        return OutgoingMessage(self.queue, flight.to_json(), flight.headers() | QUEUE_HEADERS, _JSON)
