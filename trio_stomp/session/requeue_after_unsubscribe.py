"""Leaving a subscription so that the broker requeues what was delivered and not settled.

On most brokers UNSUBSCRIBE is enough: `Unsubscribing`. RabbitMQ keeps such messages locked until the connection
ends, and needs `RequeueAfterUnsubscribe`. The profile chooses; a connection calls its strategy at four points:

================================  ====================================================================================
a subscription is left            `unsubscribe` sends UNSUBSCRIBE, with what the broker needs around it
a subscription was opened         `subscribed`
a MESSAGE has no open             `late_message`
subscription
an ERROR comes                    `is_late_delivery` tells whether it replaces a message that came too late
================================  ====================================================================================

Theory of operation, for RabbitMQ (3.10.8 and 4.3.6 do the same). Two kinds of messages stay locked:

Messages that are here when the subscription is left. They are refused (NACK) in a transaction around UNSUBSCRIBE. A
plain NACK would be answered at once with the same messages for the same subscription, and after UNSUBSCRIBE RabbitMQ
accepts no NACK for it. In a transaction, NACKs are accepted before UNSUBSCRIBE and carried out after it.

Messages that cross UNSUBSCRIBE on the wire. They arrive as MESSAGE frames for no open subscription, or as ERROR frames
in their place. A NACK through any other open subscription can refuse them, by their delivery number. A MESSAGE has its
number in its headers. An ERROR has none, and refusing a wrong number could settle a message that a consumer is
handling. But the broker numbers deliveries from 1, without gaps, in the order in which it sends them, and each arrives
here as a MESSAGE or as such an ERROR. So the number of a delivery behind an ERROR is a count: of all MESSAGEs and all
such ERRORs so far. The count is checked against the number of the newest MESSAGE. If they ever disagree, this broker
numbers in another way, and deliveries behind ERRORs stay locked until the connection ends. While they agree, a number
found by counting is higher than that of every MESSAGE before it and lower than that of every MESSAGE after it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Final

import anyio

from trio_stomp.brokers import (
    NackMeaning,
    Profile,
    delivery_id,
    delivery_number,
    outlives_subscribers,
    reads_stream,
    swallowed_for,
)
from trio_stomp.errors import StompError
from trio_stomp.protocol import AckMode, Command, Headers, Version
from trio_stomp.runtime import new_wait_queue
from trio_stomp.session.buffer import Overflow
from trio_stomp.session.connection import Connection, Left, Unsubscribing
from trio_stomp.session.subscription_state import Registration, SubscriptionOptions

__all__ = ["RequeueAfterUnsubscribe", "unsubscribing_at"]

logger: Final = logging.getLogger("trio_stomp")

# Late deliveries come within a round trip, and no program leaves this many subscriptions in one.
_REMEMBERED: Final = 1024

# A broker that respects the prefetch cannot send more: AMQP counts it in 16 bits. Whatever another one sends late stays
# locked; the alternative is unbounded memory with a broker that sends but does not read.
_MOST_NUMBERS: Final = 65_536

# How long a helper subscription waits for the one message that its prefetch allows. Once it holds that message, no more
# messages are in transit to it, and leaving it cannot cause another late delivery.
_PATIENCE: Final = 0.2


class RequeueAfterUnsubscribe(Unsubscribing):
    """The strategy for RabbitMQ; see the theory of operation of this module.

    Attributes:
        numbers: The late deliveries that are still to be refused.
        last: The subscription that the newest of them was sent to.
    """

    def __init__(self) -> None:
        self._left: OrderedDict[str, Left] = OrderedDict()
        # Deliveries behind an ERROR, and how many MESSAGEs had come at the last one.
        self._swallowed = 0
        self._messages = 0
        self._counts_agree = True
        self.numbers: deque[int] = deque()
        self.last: Left | None = None
        self._waiting = new_wait_queue()
        self._helpers = 0

    def unsubscribe(self, connection: Connection, subscription_id: str, left: Left, held: Sequence[Headers]) -> None:
        """Send UNSUBSCRIBE and refuse what the subscription holds so that it is requeued."""
        protocol = connection.protocol
        # Reading a message from a stream does not remove it.
        left = left._replace(acknowledges=left.acknowledges and not reads_stream(left.headers))
        self.remember(subscription_id, left)
        refusable = [each for each in held if connection.profile.nack(each, None) is not NackMeaning.IMPOSSIBLE]
        if not (refusable and left.acknowledges and connection.takes_frames) or protocol.version is Version.V1_0:
            super().unsubscribe(connection, subscription_id, left, held)
            return
        transaction = f"give-back-{subscription_id}"
        connection.post(protocol.begin(transaction))
        for each in refusable:
            connection.post(protocol.acknowledge(Command.NACK, each, subscription_id, transaction=transaction))
        connection.post(protocol.unsubscribe(subscription_id))
        connection.post(protocol.end(Command.COMMIT, transaction))

    def deleted(self, subscription_id: str, left: Left) -> None:
        """Remember that late deliveries of the subscription need no requeuing: their queue is gone."""
        self.remember(subscription_id, left._replace(acknowledges=False))

    def remember(self, subscription_id: str, left: Left) -> None:
        """Remember a subscription whose late deliveries may still come."""
        self._left[subscription_id] = left
        self._left.move_to_end(subscription_id)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)

    # --- which deliveries came too late ---------------------------------------------------------------------------

    def late_message(self, message: Headers, subscription_id: str | None) -> None:
        """Note the number of a MESSAGE for a subscription that was left."""
        number = _number_of(message)
        left = self._left.get(subscription_id or "")
        if left is not None and number is not None:
            self._add(number, left)

    def is_late_delivery(self, error: Headers, body: bytes, *, newest: Headers | None, messages: int) -> bool:
        """Return whether an ERROR replaces a late delivery; note its number."""
        if error.get("message") != "Subscription not found":
            return False
        left = self._left.get(swallowed_for(body) or "")
        if left is None:
            return False
        if messages != self._messages:
            self._messages = messages
            self._check_count(newest)
        self._swallowed += 1
        if self._counts_agree:
            self._add(messages + self._swallowed, left)
        return True

    def _check_count(self, newest: Headers | None) -> None:
        expected, number = self._messages + self._swallowed, None if newest is None else _number_of(newest)
        if self._counts_agree and number != expected:
            self._counts_agree = False
            logger.warning(
                "this broker does not number its deliveries one by one (number %s after %d deliveries): messages that "
                "cross an UNSUBSCRIBE stay locked until the connection ends",
                number,
                expected,
            )

    def _add(self, number: int, left: Left) -> None:
        if left.acknowledges and len(self.numbers) < _MOST_NUMBERS:
            self.numbers.append(number)
            self.last = left
            self._waiting.unpark_all()

    # --- refusing them --------------------------------------------------------------------------------------------

    def subscribed(self) -> None:
        """Continue: late deliveries can be refused through the new subscription."""
        self._waiting.unpark_all()

    async def run(self, connection: Connection) -> None:
        """Refuse late deliveries through any open subscription, or through a short-lived one of its own."""
        outbox = connection.outbox
        while connection.is_open:
            if not self.numbers:
                await self._waiting.park()
            elif connection.protocol.version is Version.V1_0:
                logger.warning(
                    "%d late messages stay locked until this connection ends: STOMP 1.0 has no NACK", len(self.numbers)
                )
                self.numbers.clear()
            elif outbox.is_full:
                await outbox.wait_for_room()
            elif (through := next(_settling(connection), None)) is not None:
                self._refuse(connection, through)
            elif self.last is not None and outlives_subscribers(self.last.destination):
                await self._refuse_by_helper(connection, self.last)
            else:
                await self._waiting.park()

    def _refuse(self, connection: Connection, through: str) -> None:
        """Refuse late deliveries until none is left or the outbox is full."""
        session = connection.link.connected.session or ""
        while self.numbers and not connection.outbox.is_full:
            name = delivery_id(through, session, self.numbers.popleft())
            message = Headers({"message-id": name, "ack": name})
            connection.post(connection.protocol.acknowledge(Command.NACK, message, through))

    async def _refuse_by_helper(self, connection: Connection, left: Left) -> None:
        self._helpers += 1
        options = SubscriptionOptions(
            id=f"give-back-{self._helpers}",
            # The program was allowed to subscribe to this one a moment ago; another might be refused.
            destination=left.destination,
            ack=AckMode.CLIENT_INDIVIDUAL,
            prefetch=1,
            overflow=Overflow.WAIT,
            headers=left.headers,
        )
        helper = Registration(options)
        try:
            await helper.open_on(connection)
            self._refuse(connection, options.id)
            with anyio.move_on_after(_PATIENCE):
                await helper.inbox.wait_count(1)
        except StompError as error:
            # RabbitMQ ends the connection when it refuses a SUBSCRIBE, and that unlocks them too.
            logger.debug("%d late messages were not requeued: %s", len(self.numbers), error)
            self.numbers.clear()
        finally:
            helper.close()


def unsubscribing_at(profile: Profile) -> Unsubscribing:
    """Return the strategy for a broker, for one connection."""
    return RequeueAfterUnsubscribe() if profile.keeps_unsettled_after_unsubscribe else Unsubscribing()


def _settling(connection: Connection) -> Iterator[str]:
    """The ids of the open subscriptions whose messages are acknowledged."""
    return (id_ for id_, each in connection.registered.items() if not each.inbox.keeps_after_loss)


def _number_of(message: Headers) -> int | None:
    return delivery_number(message.get("message-id") or "")
