"""A subscription as its user knows it: an async iterator of messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Self

import trio

from trio_stomp.client.line import Line
from trio_stomp.client.message import Message, Settlement
from trio_stomp.client.registration import Registration, SubscriptionOptions
from trio_stomp.client.statistics import SubscriptionStatistics
from trio_stomp.protocol import AckMode

__all__ = ["Subscription", "open_subscription"]

# A full checkpoint costs more than decoding a frame; consumers of a full buffer make one in this many calls.
_CALLS_PER_CHECKPOINT: Final = 32


class Subscription:
    """Messages of one destination, in the order in which the broker sends them.

    Iterate it: ``async for message in subscription``. Several tasks may; each message goes to one of them. With
    ``connect(reconnect=...)`` it outlives the loss of a link: iteration waits, and goes on with the next connection.
    """

    def __init__(self, registration: Registration) -> None:
        self._options = registration.options
        self._inbox = registration.inbox
        self._registration = registration
        self._taken = 0

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._options.id

    @property
    def destination(self) -> str:
        """What it subscribes to."""
        return self._options.destination

    @property
    def ack_mode(self) -> AckMode:
        """Its ack mode."""
        return self._options.ack

    def statistics(self) -> SubscriptionStatistics:
        """What this subscription has done so far, and what it holds."""
        return self._registration.statistics()

    def __aiter__(self) -> Self:
        """Iterate: ``async for message in subscription``."""
        return self

    async def __anext__(self) -> Message:
        """Take the next message; waits until there is one.

        Returns:
            The message, to be settled by whoever took it.

        Raises:
            StopAsyncIteration: The subscription was left.
            ConnectionLost: The connection ended. In auto mode what had come is handed out first.
            SubscriptionOverflow: Its consumers did not keep up.
            BrokerError: The broker ended the subscription.

        Cancellation: no message was taken.
        """
        if self._taken % _CALLS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()
        if not await self._inbox.wait():
            raise StopAsyncIteration
        return self._take()

    def _take(self) -> Message:
        frame = self._inbox.take().frame
        self._taken += 1
        settler = self._registration.settler
        if settler is None:
            raise AssertionError  # a message came, so the subscription has stood on a connection
        if self._options.ack is AckMode.AUTO:
            return Message(frame, self, settler, Settlement.NEEDLESS, self._taken)
        message = Message(frame, self, settler, Settlement.OPEN, self._taken)
        settler.add(message)
        return message

    async def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message]:
        """Take several messages in one call.

        Args:
            max_messages: No more than this many.
            linger: Seconds to wait for more once there is one.

        Returns:
            At least one message, or none when the subscription was left.

        Raises:
            ConnectionLost: The connection ended.
            SubscriptionOverflow: Its consumers did not keep up.
            BrokerError: The broker ended the subscription.

        Cancellation: no message was taken.
        """
        await trio.lowlevel.checkpoint()
        if not await self._inbox.wait():
            return []
        if linger > 0 and len(self._inbox) < max_messages:
            with trio.move_on_after(linger):
                await self._inbox.wait_count(max_messages)
        return [self._take() for _ in range(min(max_messages, len(self._inbox)))]

    async def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier ones that are open, in either client mode, in one call.

        Args:
            message: The last one to acknowledge.

        Raises:
            StaleMessage: The subscription is gone; the broker delivers them again.
            LocalProtocolError: The message is settled already, or the subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers them again.

        Cancellation: all were acknowledged or none.

        Spec: ACK.
        """
        await message.settler.ack_up_to(message)


@asynccontextmanager
async def open_subscription(line: Line, options: SubscriptionOptions) -> AsyncGenerator[Subscription]:
    """Keep a subscription for the length of a block."""
    registration = Registration(options, line.was_raised)
    try:
        await line.subscribe(registration)
        yield Subscription(registration)
    finally:
        line.unsubscribe(registration)
    if line.failure is None:
        registration.raise_unnoticed()
