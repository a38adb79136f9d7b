"""One subscription at the broker: what it may take, what it has not acknowledged, and what an ACK of it settles.

Spec: "SUBSCRIBE ack Header", "ACK", "NACK".
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from trio_stomp.protocol import AckMode
from trio_stomp.testing.destinations import Queue, StoredMessage
from trio_stomp.testing.selector import Selector

__all__ = ["Consumer", "Sink"]


class Sink(Protocol):
    """Where deliveries go: a session."""

    @property
    def ready(self) -> bool:
        """Whether it can take more just now."""
        ...

    @property
    def ack_ids(self) -> bool:
        """Whether its MESSAGE frames carry an ``ack`` header, as 1.2 has it."""
        ...

    @property
    def own_ack_ids(self) -> bool:
        """Whether deliveries have ids of their own; otherwise the message-id is the ack id."""
        ...

    def deliver(self, consumer: Consumer, message: StoredMessage, ack_id: str | None) -> None:
        """Send a MESSAGE."""
        ...

    def wake_later(self, consumer: Consumer) -> None:
        """Call `Consumer.wake` as soon as the session is ready again."""
        ...


class Consumer:
    """A subscription of one session.

    Args:
        number: Its number within the session, part of its ack ids.
        subscription_id: Its id; None where a 1.0 client gave none.
        destination: Its destination as the client names it.
        mode: How it acknowledges.
        prefetch: How many messages may be unacknowledged; None is no bound.
        selector: Which messages it wants, where the queue is shared; None is all.
        sink: Its session.
        source: The queue that it takes from.
        name_bytes: What it takes in memory itself.
        holders: Where it writes down which message-ids it holds unacknowledged, with the others of its session: for an
            ACK that does not name its subscription. None where deliveries have ids of their own.

    Attributes:
        unacked: The deliveries that are neither acknowledged nor claimed by an open transaction, in order.
        closed: Whether it has ended; what it still holds then goes back to the queue.
    """

    __slots__ = (
        "_credit",
        "_deliveries",
        "_holders",
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
        name_bytes: int = 0,
        holders: dict[str, dict[Consumer, None]] | None = None,
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
        # Held until COMMIT by what a transaction claims: before that nothing is acknowledged.
        self._credit = sys.maxsize if prefetch is None else prefetch
        self._deliveries = 0
        # Ordered, so that a cumulative ACK pops its messages off the front at a constant cost each; a plain dict is
        # searched past all removed entries each time.
        self.unacked: OrderedDict[str, StoredMessage] = OrderedDict()
        self.closed = False

    @property
    def ready(self) -> bool:
        """Whether it can take a message now."""
        return self._credit > 0 and self._sink.ready

    def rest(self) -> None:
        """It was not ready. Without credit, the next message that is settled wakes it."""
        if not self._sink.ready:
            self._sink.wake_later(self)

    def wake(self) -> None:
        """It may be ready again."""
        self.source.wake(self)

    def take(self, message: StoredMessage) -> None:
        """Deliver a message; in auto mode it is consumed thereby."""
        message.deliveries += 1
        if self.mode is AckMode.AUTO:
            self._sink.deliver(self, message, None)
            self.source.release(message)
            return
        self._deliveries += 1
        message.order = self._deliveries
        self._credit -= 1
        self.source.in_flight += 1
        tag = self._tag(message)
        self.unacked[tag] = message
        if self._holders is not None:
            self._holders.setdefault(tag, {})[self] = None
        self._sink.deliver(self, message, tag if self._sink.ack_ids else None)

    @staticmethod
    def _forget(
        holders: dict[str, dict[Consumer, None]], consumer: Consumer, messages: Iterable[StoredMessage]
    ) -> None:
        for message in messages:
            of_message = holders[message.message_id]
            del of_message[consumer]
            if not of_message:
                del holders[message.message_id]

    def _tag(self, message: StoredMessage) -> str:
        # Row 12-ACK-1: the ack id differs from the message id, and from delivery to delivery, so that a client which
        # mixes them up is found out.
        return f"{self.number}.{message.order}" if self._sink.own_ack_ids else message.message_id

    def claim(self, tag: str) -> list[StoredMessage]:
        """Take out the deliveries that an ACK or NACK of `tag` settles; none where it names nothing that is due.

        Spec: SUBSCRIBE ack Header: ``client`` is cumulative, ``client-individual`` is not.
        """
        if self.mode is AckMode.CLIENT_INDIVIDUAL:
            message = self.unacked.pop(tag, None)
            claimed = [] if message is None else [message]
        else:
            claimed = self._claim_up_to(tag)
        if self._holders is not None:
            self._forget(self._holders, self, claimed)
        return claimed

    def _claim_up_to(self, tag: str) -> list[StoredMessage]:
        claimed: list[StoredMessage] = []
        found = "" if tag in self.unacked else tag
        while found != tag:
            found, message = self.unacked.popitem(last=False)
            claimed.append(message)
        return claimed

    def settle(self, messages: Sequence[StoredMessage]) -> None:
        """Take claimed deliveries off the subscription, and make room for as many; they stay with the queue."""
        self._credit += len(messages)
        self.source.in_flight -= len(messages)
        self.source.wake(self)

    def restore(self, messages: Iterable[StoredMessage]) -> None:
        """Undo a claim: the deliveries are unacknowledged again, in their order."""
        messages = list(messages)
        if self.closed:
            self.settle(messages)
            self.source.give_back(messages)
            return
        for message in messages:
            tag = self._tag(message)
            self.unacked[tag] = message
            if self._holders is not None:
                self._holders.setdefault(tag, {})[self] = None
        self.unacked = OrderedDict(sorted(self.unacked.items(), key=lambda item: item[1].order))

    def close(self) -> None:
        """End it: unacknowledged messages go back to their places."""
        self.closed = True
        self.source.detach(self)
        messages = list(self.unacked.values())
        if self._holders is not None:
            self._forget(self._holders, self, messages)
        self.unacked.clear()
        self.settle(messages)
        self.source.give_back(messages)
