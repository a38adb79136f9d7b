"""The consumer of the alerts about late flights."""

from __future__ import annotations

from dataclasses import dataclass, field

from flights.ledger import Arrivals
from flights.records import DelayReport

import trio_stomp
from pipeline.replay import QUEUE_HEADERS

__all__ = ["AlertDesk"]


@dataclass(slots=True)
class AlertDesk:
    """Receives the alerts.

    A sink that is killed after COMMIT, before it has recorded that, sends the batch again with the same ids. Some
    brokers drop such duplicates. With the others, a consumer must drop them, as this one does.

    Attributes:
        url: The broker.
        queue: The queue of the alerts.
        arrivals: The flights, each once, and flights with two different messages, which must not happen.
        copies: The number of dropped duplicates.
    """

    url: str
    queue: str
    arrivals: Arrivals = field(default_factory=Arrivals)
    copies: int = 0
    _known: set[str] = field(default_factory=set[str])

    async def run(self) -> None:
        """Receive alerts until canceled.

        Cancellation: unacknowledged alerts stay in the queue.
        """
        policy = trio_stomp.Reconnect(max_delay=2, deadline=60)
        async with (
            trio_stomp.connect(self.url, reconnect=policy) as client,
            client.subscribe(self.queue, headers={"x-expires": QUEUE_HEADERS["x-expires"]}) as alerts,
        ):
            async for message in alerts:
                async with message:
                    self._take(message)

    def _take(self, message: trio_stomp.Message) -> None:
        message_id = message.stable_id
        if message_id is None or message_id not in self._known:
            self.arrivals.add(DelayReport.of_json(message.json()).id)
        else:
            self.copies += 1
        if message_id is not None:
            self._known.add(message_id)
