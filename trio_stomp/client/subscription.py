"""A subscription: an async iterator of messages, for the length of an ``async with`` block."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from math import inf
from types import TracebackType
from typing import Final, Generic, Self

import anyio
import anyio.lowlevel
from typing_extensions import TypeVar

from trio_stomp.brokers import require_seconds, require_whole
from trio_stomp.client.handlers import require_async
from trio_stomp.client.work import (
    Around,
    DeadLetter,
    Handler,
    Key,
    OpenTransaction,
    Retry,
    WorkOptions,
    check_work,
    work,
)
from trio_stomp.errors import LocalProtocolError, OperationTimeout, SubscriptionEnded
from trio_stomp.protocol import AckMode
from trio_stomp.runtime import current_time, move_on_at
from trio_stomp.session import (
    Codec,
    Inbox,
    Limit,
    Message,
    Parts,
    Registration,
    Session,
    Settlement,
    SubscriptionOptions,
    SubscriptionStatistics,
    limit_of,
    send_reply,
    tracker_of,
)

__all__ = ["Subscribing", "Subscription"]

# A full checkpoint costs more than decoding a frame, so consumers of a full buffer make one in this many calls.
_CALLS_PER_CHECKPOINT: Final = 64

# Long enough for handlers that take their time; a program that forgets to acknowledge waits forever.
_EXHAUSTED_SECONDS: Final = 30

_NONE_TAKEN: Final = "no message was taken"

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

    # The arguments are the library's own, as those of a Message.
    def __init__(
        self,
        registration: object = None,
        transaction: OpenTransaction | None = None,
        codec: Codec[T_co] | None = None,
        session: Session | None = None,
    ) -> None:
        if not isinstance(registration, Registration) or transaction is None or codec is None or session is None:
            raise TypeError(
                "a Subscription cannot be constructed: use async with client.subscribe(...) as subscription"
            )
        self._options = registration.options
        self._inbox = registration.inbox
        self._registration = registration
        self._transaction = transaction
        self._session = session
        self._codec = codec
        self._settles = registration.options.ack is not AckMode.AUTO
        self._has_warned = False
        # After how many messages the prefetch was exhausted, and since when.
        self._exhausted = (-1, 0.0)
        self._settlement = Settlement.UNSETTLED if self._settles else Settlement.AUTO

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
            StopAsyncIteration: The subscription was left, or all messages of a queue were browsed.
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
            # Not from the beginning of this call: a program may ask again and again with a short time limit.
            if self._exhausted[0] != self._inbox.delivered:
                self._exhausted = (self._inbox.delivered, current_time())
            with move_on_at(self._exhausted[1] + _EXHAUSTED_SECONDS):
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

    async def receive(self, *, timeout: float | None = None) -> Message[T_co]:
        """Take one message; wait until there is one.

        Args:
            timeout: Seconds to wait at most; 0: only if there is one already. Default: no limit, whatever that of
                `connect` is.

        Returns:
            The message. The caller settles it.

        Raises:
            OperationTimeout: No message came in time.
            SubscriptionEnded: The subscription was left, or all messages of a queue were browsed.
            ConnectionLost: The connection ended. In auto mode, messages that had come are returned first.
            SubscriptionOverflow: The consumers did not keep up.
            BodySpoolError: A body could not be written to its temporary file.
            BrokerError: The broker ended the subscription, or refused to restore it until `Reconnect` gave up.
            PoisonSubscription: The broker has closed the connection without an ERROR each time instead.

        Cancellation: no message was taken. The same is true at the `timeout`.
        """
        seconds = limit_of(timeout, None)
        inbox = self._inbox
        if inbox.delivered % _CALLS_PER_CHECKPOINT == 0:
            await anyio.lowlevel.checkpoint()
        if not inbox.messages:
            async with Limit(seconds, f"receive() from {self.destination!r}", outcome=_NONE_TAKEN):
                if not await self._wait():
                    raise SubscriptionEnded(f"{self._options.name} was left, or has no more messages")
        return self._take()

    def messages(self, *, timeout: float) -> AsyncIterator[Message[T_co]]:
        """Iterate until no message has come for some time: ``async for message in subscription.messages(timeout=1)``.

        The end of the iteration says nothing about the subscription: iterate again to go on. So a program can look
        at something else from time to time::

            while not stopping:
                async for message in orders.messages(timeout=1):
                    ...

        Args:
            timeout: Seconds without a message after which the iteration ends; 0: as soon as there is none.

        Returns:
            An async iterator of messages, as the subscription itself is one. If the subscription had ended before,
            iterating raises SubscriptionEnded, so that such a loop ends.

        Raises:
            LocalProtocolError: `timeout` is invalid.
        """
        seconds = limit_of(timeout, None)
        return _Messages(self, self._inbox, inf if seconds is None else seconds)

    async def receive_batch(
        self, max_messages: int, *, linger: float = 0, timeout: float | None = None
    ) -> list[Message[T_co]]:
        """Take several messages in one call.

        Args:
            max_messages: Maximum number of messages.
            linger: Seconds to wait for more after the first one.
            timeout: Seconds that the call may take; what has come by then is returned. 0: only what is there already.
                Default: no limit, whatever that of `connect` is.

        Returns:
            At least one message, or an empty list when the subscription was left, or all messages of a queue were
            browsed.

        Raises:
            OperationTimeout: No message came in time.
            ConnectionLost: The connection ended. In auto mode, messages that had come are returned first.
            SubscriptionOverflow: The consumers did not keep up.
            BodySpoolError: A body could not be written to its temporary file.
            BrokerError: The broker ended the subscription, or refused to restore it until `Reconnect` gave up.
            PoisonSubscription: The broker has closed the connection without an ERROR each time instead.
            LocalProtocolError: An argument is invalid.

        Cancellation: no message was taken. The same is true at the `timeout`.
        """
        seconds = limit_of(timeout, None)
        require_whole("max_messages", max_messages)
        require_seconds("linger", linger)
        await anyio.lowlevel.checkpoint()
        began, inbox = current_time(), self._inbox
        call = f"receive_batch() from {self.destination!r}"
        while True:
            # Not over what comes next: messages that have come are taken.
            async with Limit(seconds, call, outcome=_NONE_TAKEN, since=began):
                if not await self._wait():
                    return []
            if linger > 0 and len(inbox) < max_messages:
                until = current_time() + linger
                try:
                    with move_on_at(until if seconds is None else min(until, began + seconds)):
                        await inbox.wait_count(max_messages)
                finally:
                    # Canceled, this task leaves the messages that it was woken for to another consumer.
                    inbox.wake()
            batch = [self._take() for _ in range(min(max_messages, len(inbox)))]
            # The connection may have been lost while this waited for more, and its messages with it.
            if batch:
                return batch

    async def ack_up_to(self, message: Message, *, timeout: float | None = None) -> None:
        """Acknowledge a message and all earlier unsettled ones in one call, in either client mode.

        Args:
            message: The last message to acknowledge.
            timeout: Seconds to wait for room at most. Default: that of `connect`.

        Raises:
            StaleMessage: The subscription is gone; the broker redelivers the messages.
            LocalProtocolError: The message is already settled or came over another subscription, or the subscription is
                in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the messages.
            OperationTimeout: There was no room in time; none was acknowledged.

        Cancellation: all were acknowledged or none. At the `timeout`, none was.

        Spec: ACK.
        """
        if message.subscription is not self:
            other = message.subscription
            raise LocalProtocolError(
                f"message {message.id!r} came over subscription {other.id!r} to {other.destination!r}, not over "
                f"{self._options.name}; call ack_up_to() of the subscription that delivered it"
            )
        await tracker_of(message).ack_up_to(message, timeout)

    async def _reply(self, message: Parts[bytes | str], *, receipt: bool, timeout: float | None) -> None:
        await send_reply(self._session, message, receipt=receipt, timeout=timeout)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete a durable subscription at the broker, together with its messages.

        Iteration stops. Messages that were taken can no longer be settled; they are deleted too.

        Args:
            timeout: Seconds to wait at most for room and for the broker. Default: that of `connect`.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            BrokerError: The broker refused, perhaps because another connection uses it.
            ConnectionLost: The connection is gone; the broker may or may not have deleted it.
            OperationTimeout: The `timeout` was reached; its text says which of the two below is true.

        Cancellation: either nothing was sent, or it was left and the broker may or may not have deleted it. The same is
        true at the `timeout`.

        Spec: UNSUBSCRIBE.
        """
        session = self._session
        seconds = limit_of(timeout, session.settings.timeout)
        async with Limit(seconds, f"delete() of {self._options.name}", session) as limit:
            await self._registration.delete(session.turn, limit)

    async def work(
        self,
        handler: Handler[T_co],
        *,
        workers: int = 10,
        key: Key[T_co] | None = None,
        retry: Retry | None = None,
        dead_letter: DeadLetter[T_co] | None = None,
        around: Sequence[Around[T_co]] = (),
        drain_timeout: float = 10.0,
        report_blocking_after: float = 0.5,
        timeout: float | None = None,
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
            around: Functions that take the message and return an async context manager, which is entered around each
                attempt to handle it: for timing, tracing or a database session. The first one is outermost. They see
                the exception of the handler, and an exception of theirs counts as one.
            drain_timeout: Seconds that running handlers have to finish when the pool is canceled. Handlers that take
                longer are canceled too, and the broker redelivers their messages.
            report_blocking_after: Log a warning when a handler blocks the event loop, and with it the heart-beats, for
                this many seconds. `math.inf` disables the check.
            timeout: Seconds after which the pool ends, as if canceled. Default: no limit, whatever that of `connect`
                is.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter; a note names its message.
            PoisonMessage: The broker has closed the connection without an ERROR each time that it got a dead letter.
            LocalProtocolError: An argument is invalid, the ack mode is not ``client-individual``, or `dead_letter`
                sends a message back to where it came from.
            TypeError: The handler is not async.
            OperationTimeout: The `timeout` was reached, and the pool has ended.
            Exception: A handler failed for good, and there is no dead-letter destination.

        Cancellation: no further message is started, running handlers finish within `drain_timeout`, and the remaining
        messages go back to the broker when the subscription is left. The same is true at the `timeout`.
        """
        if self._options.ack is not AckMode.CLIENT_INDIVIDUAL:
            raise LocalProtocolError(
                "work() settles each message by itself; it needs ack='client-individual', not "
                f"{self._options.ack.value!r}"
            )
        require_async(handler)
        check_work(
            self.destination,
            workers=workers,
            key=key,
            retry=retry,
            dead_letter=dead_letter,
            around=around,
            drain_timeout=drain_timeout,
        )
        require_seconds("report_blocking_after", report_blocking_after)
        options = WorkOptions(
            workers=workers,
            key=key,
            retry=retry if retry is not None else Retry(),
            dead_letter=dead_letter,
            around=around,
            drain_timeout=drain_timeout,
            report_blocking_after=report_blocking_after,
            capacity=max(workers, self._options.prefetch),
        )
        outcome = "no further message is started, and running handlers have ended"
        async with Limit(limit_of(timeout, None), f"work() on {self.destination!r}", outcome=outcome):
            await work(self, self._transaction, handler, options)


class _Messages(Generic[T]):
    """What `Subscription.messages` returns."""

    def __init__(self, subscription: Subscription[T], inbox: Inbox, seconds: float) -> None:
        self._subscription = subscription
        self._inbox = inbox
        self._seconds = seconds
        self._may_end = False

    def __aiter__(self) -> Self:
        """Iterate."""
        # Without this, a loop around the iteration would never end, and never wait.
        self._may_end = len(self._inbox) > 0 or not self._inbox.is_over
        return self

    async def __anext__(self) -> Message[T]:
        """Take the next message; wait until there is one.

        Raises:
            StopAsyncIteration: No message came in time, or the subscription has ended meanwhile.
            SubscriptionEnded: It had ended before.

        Cancellation: no message was taken.
        """
        try:
            return await self._subscription.receive(timeout=self._seconds)
        except OperationTimeout:
            raise StopAsyncIteration from None
        except SubscriptionEnded:
            if self._may_end:
                raise StopAsyncIteration from None
            raise


class Subscribing(Generic[T]):
    """Opens a subscription for the length of an ``async with`` block; `seconds` is the time limit of entering it."""

    def __init__(
        self,
        session: Session,
        options: SubscriptionOptions,
        transaction: OpenTransaction,
        codec: Codec[T],
        seconds: float | None,
    ) -> None:
        self._session = session
        self._seconds = seconds
        self._options = options
        self._transaction = transaction
        self._codec = codec

    async def __aenter__(self) -> Subscription[T]:
        """Subscribe.

        Cancellation: UNSUBSCRIBE was sent, if SUBSCRIBE was. The same is true at the time limit.
        """
        subscribed = False
        # Not before, as its queues belong to the loop that runs: the blocking client makes this in another thread.
        self._registration = Registration(self._options)
        call = f"subscribe() to {self._options.destination!r}"
        async with Limit(self._seconds, call, self._session) as limit:
            try:
                await self._session.subscribe(self._registration)
                subscribed = True
            finally:
                if not subscribed:
                    if self._registration.connection is not None:
                        limit.outcome = "the broker has not confirmed it, and the subscription was left"
                    self._session.unsubscribe(self._registration)
        return Subscription(self._registration, self._transaction, self._codec, self._session)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe; raise what ended the subscription if no consumer has seen it.

        Cancellation: no cancellation point.
        """
        self._session.unsubscribe(self._registration)
        if error is None and self._session.failure is None:
            self._registration.raise_unnoticed()
