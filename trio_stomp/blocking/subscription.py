"""A subscription, for synchronous code: messages cross the threads in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Generic, Self

import trio
from typing_extensions import TypeVar

from trio_stomp.blocking.link import Finish
from trio_stomp.blocking.message import DeliveredMessage, Message, delivered
from trio_stomp.bridge import Batches, Claims, Entered, Lane, held
from trio_stomp.client import Codec, Retry, Settlement, SubscriptionStatistics, require_plain
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.client import Subscription as AsyncSubscription
from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import name_of
from trio_stomp.protocol import AckMode

__all__ = ["Subscription", "open_subscription"]

# Type of `value` of its messages; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
T = TypeVar("T")
Value = TypeVar("Value")


class Subscription(Generic[T_co]):
    """The messages of one destination, in the order in which the broker sends them.

    Iterate over it: ``for message in subscription``. Several threads may do so at once; each message goes to one of
    them. With ``connect(reconnect=...)`` it survives the loss of a connection: iteration waits for the next connection
    and continues.
    """

    _lane: Lane
    _inner: AsyncSubscription[T_co]
    _claims: Claims
    _batches: Batches[T_co]
    _fetching: threading.Lock

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Subscription cannot be constructed: use with client.subscribe(...) as subscription")

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

    def __iter__(self) -> Self:
        """Iterate: ``for message in subscription``."""
        return self

    def __next__(self) -> Message[T_co]:
        """Take the next message; waits until there is one.

        Returns:
            The message. The caller settles it.

        Raises:
            StopIteration: The subscription was left.
            ConnectionLost: The connection ended. In auto mode, messages that had come are returned first.
            SubscriptionOverflow: The consumers did not keep up.
            BrokerError: The broker ended the subscription.
        """
        while True:
            inner = self._batches.take()
            if inner is not None:
                return self._message(inner)
            with held(self._fetching):
                if not self._batches and not self._lane.bridge.call(self._batches.fetch):
                    raise StopIteration

    def _message(self, inner: AsyncMessage[T_co]) -> Message[T_co]:
        return DeliveredMessage(inner, self, self._claims, self._lane)

    def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message[T_co]]:
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
        """
        batches, call = self._batches, self._lane.bridge.call
        with held(self._fetching):
            batch = batches.take_many(max_messages)
            if not batch:
                if not call(partial(batches.fetch, max_messages, linger)):
                    return []
                batch = batches.take_many(max_messages)
            elif linger > 0 and len(batch) < max_messages:
                call(partial(batches.fetch_more, max_messages - len(batch), linger))
                batch += batches.take_many(max_messages - len(batch))
        return [self._message(inner) for inner in batch]

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier unsettled ones in one call, in either client mode.

        Args:
            message: The last message to acknowledge.

        Raises:
            StaleMessage: The subscription is gone; the broker redelivers the messages.
            LocalProtocolError: The message is already settled or came over another subscription, or the subscription is
                in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the messages.

        Spec: ACK.
        """
        taken = delivered(message)
        settle = partial(self._inner.ack_up_to, taken.inner)
        if taken.can_be_settled and message.subscription is self:
            taken.claim(self._lane.post(settle), Settlement.ACKED, earlier=True)
        else:
            self._lane.call(settle)

    def delete(self) -> None:
        """Delete a durable subscription at the broker, together with its messages.

        Iteration stops. Messages that were taken can no longer be settled; they are deleted too.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            BrokerError: The broker refused, perhaps because another connection uses it.
            ConnectionLost: The connection is gone; the broker may or may not have deleted it.

        Spec: UNSUBSCRIBE.
        """
        self._lane.call(self._inner.delete)
        self._batches.clear()

    def work(
        self,
        handler: Callable[[Message[T_co]], object],
        *,
        workers: int = 10,
        key: str | Callable[[Message[T_co]], Hashable] | None = None,
        retry: Retry | None = None,
        dead_letter: str | Callable[[Message[T_co]], str] | None = None,
        drain_timeout: float = 10.0,
    ) -> None:
        """Handle messages with a pool of threads, until interrupted, or until the subscription or client is left.

        A message is acknowledged when its handler returns. When the handler raises an Exception, the message is tried
        again as `retry` says, and then dead-lettered. The pool holds as many messages as the prefetch or as it has
        workers, whichever is more.

        When this thread is interrupted (Ctrl-C), nothing new is begun, what runs is finished within `drain_timeout`,
        and the rest is given back when the subscription is left.

        Args:
            handler: Function that is given the message, in a thread of the pool. It may settle the message itself.
            workers: How many messages are handled at once, each in a thread of its own.
            key: Messages of one key are handled one after the other, in the order in which they came, retries
                included: the name of a header, or a function that looks at the message and does not wait. Default: no
                order.
            retry: How often, and when, a failed message is tried again. Default: `Retry()`, three attempts.
            dead_letter: Destination of messages that failed for good, or a function that looks at the message. They
                are sent there and acknowledged in one transaction, with headers that tell the cause. Default: the
                broker's own dead letters, where a NACK leads there for certain; else the handler's error is raised.
            drain_timeout: Seconds that running handlers have when the pool is interrupted. Their messages are then
                settled as usual. Handlers that take longer go on without the pool, and the broker redelivers their
                messages.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter.
            LocalProtocolError: An argument is invalid, the subscription is in auto mode, or messages that it has
                fetched for an iteration are left over.
            TypeError: The handler is async.
            Exception: A handler failed for good, and there is nowhere to put its message.
        """
        if self._batches:
            raise LocalProtocolError(
                f"{len(self._batches)} messages are left over from iterating the subscription, and work() would skip "
                "them; call work() first, or on a subscription of its own"
            )
        require_plain(handler)
        limiter = trio.CapacityLimiter(max(1, workers))

        async def handle(inner: AsyncMessage[T_co]) -> None:
            run = partial(handler, self._message(inner))
            await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
            # What the handler has posted, say an ack(), is done before the pool looks at its message.
            await self._lane.wait_done()

        def seen(function: Callable[[Message[T_co]], Value]) -> Callable[[AsyncMessage[T_co]], Value]:
            return lambda inner: function(self._message(inner))

        # The pool names its handler in the log.
        handle.__qualname__ = name_of(handler)
        self._lane.call(
            lambda: self._inner.work(
                handle,
                workers=workers,
                key=key if key is None or isinstance(key, str) else seen(key),
                retry=retry,
                dead_letter=dead_letter if dead_letter is None or isinstance(dead_letter, str) else seen(dead_letter),
                drain_timeout=drain_timeout,
            )
        )


class _OpenSubscription(Subscription[T_co]):
    """The Subscription that the library constructs."""

    def __init__(self, lane: Lane, inner: AsyncSubscription[T_co], prefetch: int) -> None:
        self._lane = lane
        self._inner = inner
        self._claims = Claims(inner.ack_mode)
        self._batches = Batches(inner, prefetch)
        # Held by the thread that fetches more; the others wait for what it brings.
        self._fetching = threading.Lock()

    def forget(self) -> None:
        """Hand out nothing more."""
        self._batches.clear()


# In tracebacks and debuggers users see the name that they import.
_OpenSubscription.__name__ = _OpenSubscription.__qualname__ = Subscription.__name__


@contextmanager
def open_subscription(
    lane: Lane, manager: AbstractAsyncContextManager[AsyncSubscription[T]], prefetch: int
) -> Generator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    lane.catch_up()
    with Entered(lane.bridge, manager, outlives=True) as inner, Finish(lane):
        subscription = _OpenSubscription(lane, inner, prefetch)
        try:
            yield subscription
        finally:
            subscription.forget()
