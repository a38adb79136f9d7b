"""Replay a year: send every departure to the queue, in planned order, each confirmed."""

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
# Deletes the queue of a killed run on RabbitMQ; other brokers ignore the header.
QUEUE_HEADERS: Final = {"x-expires": "3600000", "persistent": "true"}
# About half a day of flights; as many may be out of order when they are resent after a lost connection.
_IN_FLIGHT: Final = 500
_BATCH: Final = 250


def flights_in_order(path: Path, rows: int | None) -> list[Flight]:
    """The flights by planned hour. The file sorts months as text: October follows January.

    Raises:
        DataMissing: The file is missing, or is not a table of flights.
    """
    return sorted(read_flights(path, rows), key=lambda flight: (flight.hour, flight.id))


@dataclass(slots=True)
class Replay:
    """Sends the flights, and reports its progress.

    Attributes:
        url: The broker.
        queue: The destination.
        confirmed: The number of flights that the broker has confirmed.
        resent: The number of messages resent after a lost connection; the broker may have them twice.
    """

    url: str
    queue: str
    confirmed: int = 0
    resent: int = 0

    async def run(self, flights: Sequence[Flight], *, per_second: float) -> None:
        """Send all flights at a limited rate; returns when the broker has confirmed each.

        Raises:
            UnconfirmedError: The broker refused some, or was down for too long.

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
        """Send the final message, which lets Spark's watermark pass the last flight.

        Cancellation: it was sent, or not.
        """
        policy = trio_stomp.Reconnect(max_delay=2, deadline=60)
        async with trio_stomp.connect(self.url, reconnect=policy) as client:
            body = json.dumps({"id": SENTINEL_ID, "carrier": "", "origin": "", "hour": SENTINEL_HOUR, "delay": None})
            await client.send(self.queue, body.encode(), headers=QUEUE_HEADERS, content_type=_JSON, receipt=True)

    def _message(self, flight: Flight) -> OutgoingMessage:
        return OutgoingMessage(
            self.queue, flight.to_json(), headers=flight.headers() | QUEUE_HEADERS, content_type=_JSON
        )
