"""One subscription at the broker: its credit, its unacknowledged messages, and what an ACK settles.

Spec: "SUBSCRIBE ack Header", "ACK", "NACK".
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol

from trio_stomp.protocol import AckMode
from trio_stomp.testing.destinations import Queue, StoredMessage
from trio_stomp.testing.selector import Selector

__all__ = ["Consumer", "Sink"]


class Sink(Protocol):
    """The session of a subscription."""

    @property
    def ready(self) -> bool:
        """Whether it can take more messages now."""
        ...

    @property
    def ack_ids(self) -> bool:
        """Whether its MESSAGE frames have an ``ack`` header, as in 1.2."""
        ...

    @property
    def own_ack_ids(self) -> bool:
        """Whether the ``ack`` header differs from the message-id."""
        ...

    def deliver(self, consumer: Consumer, message: StoredMessage, ack_id: str | None) -> None:
        """Send a MESSAGE."""
        ...

    def wake_later(self, consumer: Consumer) -> None:
        """Call `Consumer.wake` once the session is ready again."""
        ...


class Consumer:
    """A subscription.

    Args:
        number: Its number within the session, part of its ack ids.
        subscription_id: The id; None where a 1.0 client gives none.
        destination: The destination, as the client names it.
        mode: The ack mode.
        prefetch: How many messages may be unacknowledged; None is no limit.
        selector: Which messages of a shared queue it wants; None is all.
        sink: Its session.
        source: The queue that it takes from.
        name_bytes: Its own memory, without the messages.
        holders: For each message-id the subscriptions of this session that hold the message unacknowledged, for an ACK
            that does not name its subscription. None where deliveries have ack ids of their own.

    Attributes:
        unacked: Deliveries that are neither acknowledged nor claimed by an open transaction, by ack id.
        closed: Whether it has ended.
    """

    __slots__ = (
        "_credit",
        "_deliveries",
        "_holders",
        "_in_order",
        "_sink",
        "closed",
        "destination",
        "mode",
        "name_bytes",
        "number",
        "selector",
        "source",
        "subscription_id",
        "unacked",
    )

    def __init__(  # the ten of a subscription belong together
        self,
        *,
        number: int,
        subscription_id: str | None,
        destination: str,
        mode: AckMode,
        prefetch: int | None,
        selector: Selector | None,
        sink: Sink,
        source: Queue,
        name_bytes: int,
        holders: dict[str, dict[Consumer, None]] | None,
    ) -> None:
        self.number = number
        self.subscription_id = subscription_id
        self.destination = destination
        self.mode = mode
        self.selector = selector
        self.source = source
        self.name_bytes = name_bytes
        self._holders = holders
        self._sink = sink
        # Claims of a transaction free none before COMMIT.
        self._credit = sys.maxsize if prefetch is None else prefetch
        self._deliveries = 0
        self.unacked: dict[str, StoredMessage] = {}
        # For cumulative ACKs, a heap: an aborted transaction gives back old deliveries after newer ones have come.
        self._in_order: list[tuple[int, str]] = []
        self.closed = False

    @property
    def ready(self) -> bool:
        """Whether it can take a message now."""
        return self._credit > 0 and self._sink.ready

    def rest(self) -> None:
        """Ask the session to wake it; without credit, the next settled message does."""
        if not self._sink.ready:
            self._sink.wake_later(self)

    def wake(self) -> None:
        """Take messages again."""
        self.source.wake(self)

    def take(self, message: StoredMessage) -> None:
        """Deliver a message, which consumes it in auto mode."""
        message.deliveries += 1
        if self.mode is AckMode.AUTO:
            self._sink.deliver(self, message, None)
            self.source.release(message)
            return
        self._deliveries += 1
        message.order = self._deliveries
        self._credit -= 1
        self.source.in_flight += 1
        tag = self._hold(message)
        self._sink.deliver(self, message, tag if self._sink.ack_ids else None)

    def _hold(self, message: StoredMessage) -> str:
        # Row 12-ACK-1: it differs from the message-id and for each delivery, which exposes clients that mix them up.
        tag = f"{self.number}.{message.order}" if self._sink.own_ack_ids else message.message_id
        self.unacked[tag] = message
        if self.mode is AckMode.CLIENT:
            heapq.heappush(self._in_order, (message.order, tag))
        if self._holders is not None:
            self._holders.setdefault(tag, {})[self] = None
        return tag

    def _forget(self, messages: Iterable[StoredMessage]) -> None:
        if self._holders is None:
            return
        for message in messages:
            holders = self._holders[message.message_id]
            del holders[self]
            if not holders:
                del self._holders[message.message_id]

    def claim(self, tag: str) -> list[StoredMessage]:
        """Remove and return the deliveries that an ACK or NACK settles; none where the id is unknown.

        Spec: SUBSCRIBE ack Header: ``client`` is cumulative, ``client-individual`` is not.
        """
        if self.mode is AckMode.CLIENT_INDIVIDUAL:
            message = self.unacked.pop(tag, None)
            claimed = [] if message is None else [message]
        else:
            claimed = self._claim_up_to(tag)
        self._forget(claimed)
        return claimed

    def _claim_up_to(self, tag: str) -> list[StoredMessage]:
        claimed: list[StoredMessage] = []
        last = self.unacked.get(tag)
        while last is not None and self._in_order and self._in_order[0][0] <= last.order:
            _, earlier = heapq.heappop(self._in_order)
            claimed.append(self.unacked.pop(earlier))
        return claimed

    def settle(self, messages: Sequence[StoredMessage]) -> None:
        """Return the credit of claimed deliveries, which stay charged to the queue."""
        self._credit += len(messages)
        self.source.in_flight -= len(messages)
        self.source.wake(self)

    def restore(self, messages: Sequence[StoredMessage]) -> None:
        """Make claimed deliveries unacknowledged again, in their old order."""
        if self.closed:
            self.settle(messages)
            self.source.give_back(messages)
            return
        for message in messages:
            self._hold(message)

    def close(self) -> None:
        """End the subscription and give back its unacknowledged messages."""
        self.closed = True
        self.source.detach(self)
        messages = list(self.unacked.values())
        self._forget(messages)
        self.unacked.clear()
        self._in_order.clear()
        self.settle(messages)
        self.source.give_back(messages)
