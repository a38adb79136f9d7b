"""A subscription, for asyncio code: messages cross the threads in batches."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Generic, Self

from typing_extensions import TypeVar

from trio_stomp.asyncio.crossing import Crossing, Home
from trio_stomp.asyncio.message import DeliveredMessage, Message, delivered
from trio_stomp.bridge import Batches, Claims
from trio_stomp.client import Codec, NotAsyncError, Retry, Settlement, SubscriptionStatistics, require_async
from trio_stomp.client import Message as TrioMessage
from trio_stomp.client import Subscription as TrioSubscription
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import AckMode

__all__ = ["Subscription", "open_subscription"]

# Type of `value` of its messages; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
T = TypeVar("T")
Value = TypeVar("Value")


class Subscription(Generic[T_co]):
    """The messages of one destination, in the order in which the broker sends them.

    Iterate over it: ``async for message in subscription``. Several tasks may do so at once; each message goes to one of
    them. With ``connect(reconnect=...)`` it survives the loss of a connection: iteration waits for the next connection
    and continues.
    """

    _crossing: Crossing
    _inner: TrioSubscription[T_co]
    _claims: Claims
    _batches: Batches[T_co]

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Subscription cannot be constructed: use async with client.subscribe(...) as subscription")

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._inner.id

    @property
    def destination(self) -> str:
        """Its destination."""
        return self._inner.destination

    @property
    def ack_mode(self) -> AckMode:
        """Its ack mode."""
        return self._inner.ack_mode

    @property
    def codec(self) -> Codec[T_co]:
        """How its bodies become values."""
        return self._inner.codec

    def statistics(self) -> SubscriptionStatistics:
        """Return counters of this subscription, and what it holds now."""
        return self._batches.statistics()

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
        crossing, batches = self._crossing, self._batches
        if crossing.must_wait():
            await crossing.wait()
        inner = batches.take()
        if inner is None:
            inner = await crossing.at_once(batches.wait_one, undo=self._put_back)
            if inner is None:
                raise StopAsyncIteration
        return DeliveredMessage(inner, self, self._claims, crossing)

    def _put_back(self, inner: TrioMessage[T_co] | None) -> None:
        if inner is not None:
            self._batches.put_back([inner])

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
        batches = self._batches
        batch = await self._crossing.at_once(partial(batches.wait_many, max_messages, linger), undo=batches.put_back)
        return [DeliveredMessage(inner, self, self._claims, self._crossing) for inner in batch]

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
        taken, crossing = delivered(message), self._crossing
        if crossing.must_wait():
            await crossing.wait()
        settle = partial(self._inner.ack_up_to, taken.inner)
        if taken.can_be_settled and message.subscription is self:
            taken.claim(crossing.lane.add(settle), Settlement.ACKED, earlier=True)
        else:
            await crossing.in_turn(settle)

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
        await self._crossing.in_turn(self._inner.delete)
        self._batches.clear()

    async def work(
        self,
        handler: Callable[[Message[T_co]], Awaitable[object]],
        *,
        workers: int = 10,
        key: str | Callable[[Message[T_co]], Hashable] | None = None,
        retry: Retry | None = None,
        dead_letter: str | Callable[[Message[T_co]], str] | None = None,
        drain_timeout: float = 10.0,
    ) -> None:
        """Handle messages with a pool of workers, until canceled.

        A message is acknowledged when its handler returns. When the handler raises an Exception, the message is retried
        as `retry` says, and then dead-lettered. The pool holds as many messages as the prefetch or as it has workers,
        whichever is more. A handler that blocks the event loop delays the other handlers, but no heart-beats.

        Args:
            handler: Async function that takes the message, run in a task of this event loop. It may settle the message
                itself.
            workers: Number of messages handled at once.
            key: Messages with the same key are handled one at a time, in the order in which they came, including
                retries. Either the name of a header or a function of the message, called in the trio
                thread. Default: no order.
            retry: When and how often to retry a failed message. Default: `Retry()`, three attempts.
            dead_letter: Destination of messages that failed for good, or a function of the message. A message is sent
                there and acknowledged in one transaction, with headers that describe the failure. Default: the
                broker's own dead-letter queue if a NACK certainly leads there; otherwise the handler's error is raised.
            drain_timeout: Seconds that running handlers have to finish when the pool is canceled. Handlers that take
                longer are canceled, and the broker redelivers their messages.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter.
            LocalProtocolError: An argument is invalid, the ack mode is not ``client-individual``, or messages that were
                fetched for an iteration are left over.
            TypeError: The handler is not async.
            Exception: A handler failed for good, and there is no dead-letter destination.

        Cancellation: no further message is started, running handlers finish within `drain_timeout`, and the remaining
        messages go back to the broker when the subscription is left.
        """
        if self._batches:
            raise LocalProtocolError(
                f"{len(self._batches)} messages are left over from iterating the subscription, and work() would skip "
                "them; call work() first, or on a subscription of its own"
            )
        require_async(handler, "asyncio.to_thread(function, message)")
        home = Home()

        async def awaited(message: Message[T_co]) -> None:
            # In the event loop, as a handler may need it before it returns what is awaited.
            handling: object = handler(message)
            if not inspect.isawaitable(handling):
                raise NotAsyncError(
                    f"work() awaits what it returns, and it returned {type(handling).__name__}. Write 'async def', or "
                    "for a function that blocks: work(lambda message: asyncio.to_thread(function, message))"
                )
            await handling

        async def handle(inner: TrioMessage[T_co]) -> None:
            await home.run(partial(awaited, self._message(inner)))
            # What the handler has added to the lane, say an ack(), is done before the pool looks at its message.
            await self._crossing.lane.wait_done()

        def seen(function: Callable[[Message[T_co]], Value]) -> Callable[[TrioMessage[T_co]], Value]:
            return lambda inner: function(self._message(inner))

        # The pool names its handler in the log.
        handle.__qualname__ = getattr(handler, "__qualname__", repr(handler))
        await self._crossing.in_turn(
            lambda: self._inner.work(
                handle,
                workers=workers,
                key=key if key is None or isinstance(key, str) else seen(key),
                retry=retry,
                dead_letter=dead_letter if dead_letter is None or isinstance(dead_letter, str) else seen(dead_letter),
                drain_timeout=drain_timeout,
            )
        )

    def _message(self, inner: TrioMessage[T_co]) -> Message[T_co]:
        return DeliveredMessage(inner, self, self._claims, self._crossing)


class _OpenSubscription(Subscription[T_co]):
    """The Subscription that the library constructs."""

    def __init__(self, crossing: Crossing, inner: TrioSubscription[T_co], prefetch: int) -> None:
        self._crossing = crossing
        self._inner = inner
        self._claims = Claims(inner.ack_mode)
        self._batches = Batches(inner, prefetch)

    def forget(self) -> None:
        """Hand out nothing more."""
        self._batches.clear()


# In tracebacks and debuggers users see the name that they import.
_OpenSubscription.__name__ = _OpenSubscription.__qualname__ = Subscription.__name__


@asynccontextmanager
async def open_subscription(
    crossing: Crossing, manager: AbstractAsyncContextManager[TrioSubscription[T]], prefetch: int
) -> AsyncGenerator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    await crossing.catch_up()
    async with crossing.entered(manager, outlives=True) as inner:
        subscription = _OpenSubscription(crossing, inner, prefetch)
        try:
            yield subscription
        finally:
            subscription.forget()
