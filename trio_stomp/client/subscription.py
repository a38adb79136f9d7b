"""A subscription as its user knows it: an async iterator of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, Self

import trio
from typing_extensions import TypeVar

from trio_stomp.client.work import DeadLetter, Handler, Key, OpenTransaction, Retry, WorkOptions, work
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import AckMode
from trio_stomp.session import Codec, Connection, Message, Registration, Settlement, SubscriptionStatistics

__all__ = ["Subscription"]

# A full checkpoint costs more than decoding a frame; consumers of a full buffer make one in this many calls.
_CALLS_PER_CHECKPOINT: Final = 64

# What `value` of its messages gives.
T_co = TypeVar("T_co", covariant=True, default=object)


class Subscription(Generic[T_co]):
    """Messages of one destination, in the order in which the broker sends them.

    Iterate it: ``async for message in subscription``. Several tasks may; each message goes to one of them. With
    ``connect(reconnect=...)`` it outlives the loss of a link: iteration waits, and goes on with the next connection.
    """

    def __init__(
        self,
        registration: Registration,
        transaction: OpenTransaction,
        codec: Codec[T_co],
        turn: Callable[[], Awaitable[Connection]],
    ) -> None:
        self._options = registration.options
        self._inbox = registration.inbox
        self._registration = registration
        self._transaction = transaction
        self._turn = turn
        self._codec = codec
        self._position = registration.position
        self._settles = registration.options.ack is not AckMode.AUTO
        self._settlement = Settlement.OPEN if self._settles else Settlement.NEEDLESS

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

    @property
    def codec(self) -> Codec[T_co]:
        """How its bodies become values."""
        return self._codec

    def statistics(self) -> SubscriptionStatistics:
        """What this subscription has done so far, and what it holds."""
        return self._registration.statistics()

    def __aiter__(self) -> Self:
        """Iterate: ``async for message in subscription``."""
        return self

    async def __anext__(self) -> Message[T_co]:
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
        inbox = self._inbox
        if inbox.delivered % _CALLS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()
        if not inbox.messages and not await inbox.wait():
            raise StopAsyncIteration
        return self._take()

    def _take(self) -> Message[T_co]:
        inbox, settler = self._inbox, self._registration.settler
        if settler is None:
            raise AssertionError  # a message came, so the subscription has stood on a connection
        frame = inbox.take()
        message = Message(frame, self, settler, self._settlement, inbox.delivered)
        if self._settles:
            settler.add(message)
            if self._position is not None:
                self._position.took(message)
        if settler.observer is not None:
            settler.observer.received(message)
        return message

    async def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message[T_co]]:
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
        while await self._inbox.wait():
            if linger > 0 and len(self._inbox) < max_messages:
                with trio.move_on_after(linger):
                    await self._inbox.wait_count(max_messages)
            batch = [self._take() for _ in range(min(max_messages, len(self._inbox)))]
            # While it lingered, the connection may have been lost, and its messages with it.
            if batch:
                return batch
        return []

    async def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier ones that are open, in either client mode, in one call.

        Args:
            message: The last one to acknowledge.

        Raises:
            StaleMessage: The subscription is gone; the broker delivers them again.
            LocalProtocolError: The message is settled already, or came over another subscription, or the subscription
                is in auto mode.
            ConnectionLost: The link is gone; the broker delivers them again.

        Cancellation: all were acknowledged or none.

        Spec: ACK.
        """
        if message.subscription is not self:
            other = message.subscription
            msg = (
                f"message {message.id!r} came over subscription {other.id!r} to {other.destination!r}, not over "
                f"{self._options.name}; call ack_up_to() of the subscription that delivered it"
            )
            raise LocalProtocolError(msg)
        await message.settler.ack_up_to(message)

    async def delete(self) -> None:
        """End a durable subscription for good: it is left, and the broker forgets it and the messages that it holds.

        Iteration stops. Messages that were taken can no longer be settled; they are gone with it.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            BrokerError: The broker refused: another connection uses it, perhaps.
            ConnectionLost: The link is gone; the broker may or may not have forgotten it.

        Cancellation: either nothing was sent, or it was left and the broker may or may not have forgotten it.

        Spec: UNSUBSCRIBE.
        """
        await self._registration.delete(self._turn)

    async def work(
        self,
        handler: Handler[T_co],
        *,
        workers: int = 10,
        key: Key[T_co] | None = None,
        retry: Retry | None = None,
        dead_letter: DeadLetter[T_co] | None = None,
        drain_timeout: float = 10.0,
        report_blocking_after: float = 0.5,
    ) -> None:
        """Handle messages with a pool of workers, until cancelled.

        A message is acknowledged when its handler returns. When the handler raises an Exception, the message is tried
        again by `retry`, and then put aside. The pool holds no more messages than the prefetch, or than it has workers.

        Args:
            handler: Async function that is given the message. It may settle the message itself.
            workers: How many messages are handled at once.
            key: Messages of one key are handled one after the other, in the order in which they came, retries
                included: the name of a header, or a function of the message. Default: no order.
            retry: How often, and when, a failed message is tried again. Default: `Retry()`, three attempts.
            dead_letter: Destination of messages that failed for good, or a function of the message. They are sent
                there and acknowledged in one transaction, with headers that tell the cause. Default: the broker's own
                dead letters, where a NACK leads there for certain; else the handler's error is raised.
            drain_timeout: Seconds that running handlers have when the pool is cancelled. Their messages are then
                settled as ever; handlers that take longer are cancelled, and their messages come again.
            report_blocking_after: Log a warning when a handler blocks the event loop, and with it the heart-beats, for
                so many seconds. `math.inf`: never; handlers are not timed then.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter.
            LocalProtocolError: An argument cannot be meant, or the subscription is in auto mode.
            Exception: A handler failed for good, and there is nowhere to put its message.

        Cancellation: nothing new is begun, what runs is finished within `drain_timeout`, the rest is given back when
        the subscription is left.
        """
        if self._options.ack is not AckMode.CLIENT_INDIVIDUAL:
            msg = f"work() settles each message by itself; it needs ack='client-individual', not {self._options.ack!r}"
            raise LocalProtocolError(msg)
        options = WorkOptions(
            workers=workers,
            key=key,
            retry=retry if retry is not None else Retry(),
            dead_letter=dead_letter,
            drain_timeout=drain_timeout,
            report_blocking_after=report_blocking_after,
            capacity=max(workers, self._options.prefetch),
        )
        await work(self, self._transaction, handler, options)
