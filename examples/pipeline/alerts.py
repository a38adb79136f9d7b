"""The other end of the alerts: somebody who listens for flights that leave late."""

from __future__ import annotations

from dataclasses import dataclass, field

from flights.ledger import Arrivals
from flights.records import DelayReport

import trio_stomp
from pipeline.replay import QUEUE_HEADERS

__all__ = ["AlertDesk"]


@dataclass(slots=True)
class AlertDesk:
    """Takes the alerts from their queue.

    A sink that was killed between COMMIT and its note of that sends the batch again, with the same ids. A broker that
    drops duplicates lets nothing of it through; with others the desk does what such a consumer must do: it drops them.

    Attributes:
        url: The broker.
        queue: Where the alerts come.
        arrivals: The flights, each once, and those that two different messages were about, which must not be.
        copies: How many messages came again with the id of one that was there before.
    """

    url: str
    queue: str
    arrivals: Arrivals = field(default_factory=Arrivals)
    copies: int = 0
    _known: set[str] = field(default_factory=set[str])

    async def run(self) -> None:
        """Take alerts until cancelled.

        Cancellation: what was not acknowledged stays in the queue.
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
