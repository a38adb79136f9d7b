"""A subscription: an async iterator of messages, for the length of an ``async with`` block."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Generic, Self

import anyio
import anyio.lowlevel
from typing_extensions import TypeVar

from trio_stomp.client.handlers import require_async
from trio_stomp.client.work import DeadLetter, Handler, Key, OpenTransaction, Retry, WorkOptions, work
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import AckMode
from trio_stomp.session import (
    Codec,
    Connection,
    Inbox,
    Message,
    Registration,
    Session,
    Settlement,
    SubscriptionOptions,
    SubscriptionStatistics,
    tracker_of,
)

__all__ = ["Subscription", "open_subscription"]

# A full checkpoint costs more than decoding a frame, so consumers of a full buffer make one in this many calls.
_CALLS_PER_CHECKPOINT: Final = 64

# Long enough for handlers that take their time; a program that forgets to acknowledge waits forever.
_EXHAUSTED_SECONDS: Final = 30

logger: Final = logging.getLogger("trio_stomp")

# Type of `value` of its messages; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
T = TypeVar("T", default=object)


class Subscription(Generic[T_co]):
    """The messages of one destination, in the order in which the broker sends them.

    Iterate over it: ``async for message in subscription``. Several tasks may do so at once; each message goes to one of
    them. With ``connect(reconnect=...)`` it survives the loss of a connection: iteration waits for the next connection
    and continues. If the broker refuses it there, it is retried by the same policy.
    """

    _options: SubscriptionOptions
    _inbox: Inbox
    _registration: Registration
    _transaction: OpenTransaction
    _turn: Callable[[], Awaitable[Connection]]
    _codec: Codec[T_co]
    _settles: bool
    _has_warned: bool
    _settlement: Settlement

    # The arguments are the library's own, as those of a Message.
    def __init__(
        self,
        registration: object = None,
        transaction: OpenTransaction | None = None,
        codec: Codec[T_co] | None = None,
        turn: Callable[[], Awaitable[Connection]] | None = None,
    ) -> None:
        if not isinstance(registration, Registration) or transaction is None or codec is None or turn is None:
            raise TypeError(
                "a Subscription cannot be constructed: use async with client.subscribe(...) as subscription"
            )
        self._options = registration.options
        self._inbox = registration.inbox
        self._registration = registration
        self._transaction = transaction
        self._turn = turn
        self._codec = codec
        self._settles = registration.options.ack is not AckMode.AUTO
        self._has_warned = False
        self._settlement = Settlement.OPEN if self._settles else Settlement.NEEDLESS

    def __repr__(self) -> str:
        state = "over" if self._registration.is_over else "open"
        return f"<Subscription {self.id!r} to {self.destination!r}: {state}>"

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._options.id

    @property
    def destination(self) -> str:
        """Its destination."""
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
        """Return counters of this subscription, and what it holds now."""
        return self._registration.statistics()

    def __aiter__(self) -> Self:
        """Iterate: ``async for message in subscription``."""
        return self

    async def __anext__(self) -> Message[T_co]:
        """Take the next message; wait until there is one.

        Returns:
            The message. The caller settles it.

        Raises:
            StopAsyncIteration: The subscription was left.
            ConnectionLost: The connection ended. In auto mode, messages that had come are returned first.
            SubscriptionOverflow: The consumers did not keep up.
            BodySpoolError: A body could not be written to its temporary file.
            BrokerError: The broker ended the subscription, or refused to restore it until `Reconnect` gave up.
            PoisonSubscription: The broker has closed the connection without an ERROR each time instead.

        Cancellation: no message was taken.
        """
        inbox = self._inbox
        if inbox.delivered % _CALLS_PER_CHECKPOINT == 0:
            await anyio.lowlevel.checkpoint()
        if not inbox.messages and not await self._wait():
            raise StopAsyncIteration
        return self._take()

    async def _wait(self) -> bool:
        """Wait for a message; return False when the subscription was left. Warn if the prefetch stays exhausted."""
        if not self._has_warned and self._is_exhausted:
            with anyio.move_on_after(_EXHAUSTED_SECONDS):
                return await self._inbox.wait()
            if self._is_exhausted:
                self._has_warned = True
                logger.warning(
                    "subscription to %r waits: %d messages are not settled, so the broker sends no more; "
                    "call ack() or nack(), or use a larger prefetch",
                    self.destination,
                    self._options.prefetch,
                )
        return await self._inbox.wait()

    @property
    def _is_exhausted(self) -> bool:
        acks = self._registration.acks
        return self._settles and acks is not None and len(acks) >= self._options.prefetch

    def _take(self) -> Message[T_co]:
        inbox, acks = self._inbox, self._registration.acks
        if acks is None:
            raise AssertionError  # a message came, so there was a connection
        frame = inbox.take()
        message = Message(frame, self, acks, self._settlement, inbox.delivered)
        if self._settles:
            acks.add(message)
            position = self._registration.position
            if position is not None:
                position.took(message)
        if acks.observer is not None:
            acks.observer.received(message)
        return message

    async def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message[T_co]]:
        """Take several messages in one call.

        Args:
            max_messages: Maximum number of messages.
            linger: Seconds to wait for more after the first one.

        Returns:
            At least one message, or an empty list when the subscription was left.

        Raises:
            ConnectionLost: The connection ended.
            SubscriptionOverflow: The consumers did not keep up.
            BrokerError: The broker ended the subscription.

        Cancellation: no message was taken.
        """
        await anyio.lowlevel.checkpoint()
        while await self._wait():
            if linger > 0 and len(self._inbox) < max_messages:
                try:
                    with anyio.move_on_after(linger):
                        await self._inbox.wait_count(max_messages)
                finally:
                    # Canceled, this task leaves the messages that it was woken for to another consumer.
                    self._inbox.wake()
            batch = [self._take() for _ in range(min(max_messages, len(self._inbox)))]
            # The connection may have been lost while this waited for more, and its messages with it.
            if batch:
                return batch
        return []

    async def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier unsettled ones in one call, in either client mode.

        Args:
            message: The last message to acknowledge.

        Raises:
            StaleMessage: The subscription is gone; the broker redelivers the messages.
            LocalProtocolError: The message is already settled or came over another subscription, or the subscription is
                in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the messages.

        Cancellation: all were acknowledged or none.

        Spec: ACK.
        """
        if message.subscription is not self:
            other = message.subscription
            raise LocalProtocolError(
                f"message {message.id!r} came over subscription {other.id!r} to {other.destination!r}, not over "
                f"{self._options.name}; call ack_up_to() of the subscription that delivered it"
            )
        await tracker_of(message).ack_up_to(message)

    async def delete(self) -> None:
        """Delete a durable subscription at the broker, together with its messages.

        Iteration stops. Messages that were taken can no longer be settled; they are deleted too.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            BrokerError: The broker refused, perhaps because another connection uses it.
            ConnectionLost: The connection is gone; the broker may or may not have deleted it.

        Cancellation: either nothing was sent, or it was left and the broker may or may not have deleted it.

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
        """Handle messages with a pool of workers, until canceled.

        A message is acknowledged when its handler returns. When the handler raises an Exception, the message is retried
        as `retry` says, and then dead-lettered. The pool holds as many messages as the prefetch or as it has workers,
        whichever is more.

        Args:
            handler: Async function that takes the message, or a partial of one, a bound method or an object whose
                ``__call__`` is async; not a lambda. It may settle the message itself.
            workers: Number of messages handled at once.
            key: Messages with the same key are handled one at a time, in the order in which they came, including
                retries. Either the name of a header or a function of the message. Default: no order.
            retry: When and how often to retry a failed message. Default: `Retry()`, three attempts.
            dead_letter: Destination of messages that failed for good, or a function of the message. A message is sent
                there and acknowledged in one transaction, with headers that describe the failure. Default: the
                broker's own dead-letter queue if a NACK certainly leads there; otherwise the handler's error is raised.
            drain_timeout: Seconds that running handlers have to finish when the pool is canceled. Handlers that take
                longer are canceled too, and the broker redelivers their messages.
            report_blocking_after: Log a warning when a handler blocks the event loop, and with it the heart-beats, for
                this many seconds. `math.inf` disables the check.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter; a note names its message.
            PoisonMessage: The broker has closed the connection without an ERROR each time that it got a dead letter.
            LocalProtocolError: An argument is invalid, or the ack mode is not ``client-individual``.
            TypeError: The handler is not async.
            Exception: A handler failed for good, and there is no dead-letter destination.

        Cancellation: no further message is started, running handlers finish within `drain_timeout`, and the remaining
        messages go back to the broker when the subscription is left.
        """
        if self._options.ack is not AckMode.CLIENT_INDIVIDUAL:
            raise LocalProtocolError(
                f"work() settles each message by itself; it needs ack='client-individual', not {self._options.ack!r}"
            )
        require_async(handler)
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


def open_subscription(
    session: Session, options: SubscriptionOptions, transaction: OpenTransaction, codec: Codec[T]
) -> AbstractAsyncContextManager[Subscription[T]]:
    """Open a subscription for the length of an ``async with`` block."""
    return _Subscribing(session, options, transaction, codec)


class _Subscribing(Generic[T]):
    # A class, because mypyc compiles this module and does not support async generators.

    def __init__(
        self, session: Session, options: SubscriptionOptions, transaction: OpenTransaction, codec: Codec[T]
    ) -> None:
        self._session = session
        self._options = options
        self._transaction = transaction
        self._codec = codec

    async def __aenter__(self) -> Subscription[T]:
        """Subscribe.

        Cancellation: UNSUBSCRIBE was sent, if SUBSCRIBE was.
        """
        subscribed = False
        # Not before, as its queues belong to the loop that runs: the blocking client makes this in another thread.
        self._registration = Registration(self._options)
        try:
            await self._session.subscribe(self._registration)
            subscribed = True
        finally:
            if not subscribed:
                self._session.unsubscribe(self._registration)
        return Subscription(self._registration, self._transaction, self._codec, self._session.turn)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe; raise what ended the subscription if no consumer has seen it.

        Cancellation: no cancellation point.
        """
        self._session.unsubscribe(self._registration)
        if error is None and self._session.failure is None:
            self._registration.raise_unnoticed()
