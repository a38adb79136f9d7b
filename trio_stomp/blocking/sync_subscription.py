"""A subscription, for synchronous code: messages cross the threads in batches."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Final, Generic, Self

import trio
from typing_extensions import TypeVar

from trio_stomp.blocking.lane import Finish, Lane
from trio_stomp.blocking.sync_message import Claims, Message
from trio_stomp.blocking.trio_thread import Entered, held
from trio_stomp.client import Codec, Retry, Settlement, SubscriptionStatistics
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.client import Subscription as AsyncSubscription
from trio_stomp.errors import LocalProtocolError, StompError
from trio_stomp.protocol import AckMode

__all__ = ["Subscription", "open_subscription"]

# What `value` of its messages gives.
T_co = TypeVar("T_co", covariant=True, default=object)
T = TypeVar("T")
Value = TypeVar("Value")

# A crossing costs as much as handing out some hundred messages; beyond this many per crossing nothing is gained.
_LARGEST_BATCH: Final = 1024


class Subscription(Generic[T_co]):
    """Messages of one destination, in the order in which the broker sends them.

    Iterate it: ``for message in subscription``. Several threads may; each message goes to one of them. With
    ``connect(reconnect=...)`` it outlives the loss of a link: iteration waits, and goes on with the next connection.
    """

    def __init__(self, lane: Lane, inner: AsyncSubscription[T_co], prefetch: int) -> None:
        self._lane = lane
        self._inner = inner
        self._claims = Claims(lane, inner.ack_mode)
        self._batch = min(prefetch, _LARGEST_BATCH)
        # What has crossed and was not handed out. The thread of trio adds, any thread takes.
        self._here: deque[AsyncMessage[T_co]] = deque()
        # Held by the thread that fetches more; the others wait for what it brings.
        self._fetching = threading.Lock()

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._inner.id

    @property
    def destination(self) -> str:
        """What it subscribes to."""
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
        """What this subscription has done so far, and what it holds."""
        seen, here = self._inner.statistics(), len(self._here)
        # What has crossed but was not handed out still waits, as its user sees it.
        settles = self._inner.ack_mode is not AckMode.AUTO
        return dataclasses.replace(
            seen,
            buffered=seen.buffered + here,
            unsettled=max(0, seen.unsettled - here) if settles else seen.unsettled,
            delivered=seen.delivered - here,
        )

    def __iter__(self) -> Self:
        """Iterate: ``for message in subscription``."""
        return self

    def __next__(self) -> Message[T_co]:
        """Take the next message; waits until there is one.

        Returns:
            The message, to be settled by whoever took it.

        Raises:
            StopIteration: The subscription was left.
            ConnectionLost: The connection ended. In auto mode what had come is handed out first.
            SubscriptionOverflow: Its consumers did not keep up.
            BrokerError: The broker ended the subscription.
        """
        while True:
            inner = self._take()
            if inner is not None:
                return self._message(inner)
            with held(self._fetching):
                if not self._here and not self._lane.thread.call(self._fetch):
                    raise StopIteration

    def _take(self) -> AsyncMessage[T_co] | None:
        """The oldest message that has crossed; stale ones are left out, because the broker delivers them again."""
        try:
            while True:
                inner = self._here.popleft()
                if not inner.is_stale:
                    return inner
        except IndexError:
            return None

    async def _fetch(self) -> bool:
        # Put here in the thread of trio: a waiting thread that is interrupted loses nothing.
        batch = await self._inner.receive_batch(self._batch)
        self._here.extend(batch)
        return bool(batch)

    def _message(self, inner: AsyncMessage[T_co]) -> Message[T_co]:
        return Message(inner, self, self._claims)

    def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message[T_co]]:
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
        """
        batch: list[AsyncMessage[T_co]] = []
        with held(self._fetching):
            self._take_up_to(max_messages, batch)
            if not batch:
                if not self._lane.thread.call(partial(self._fetch_batch, max_messages, linger)):
                    return []
                self._take_up_to(max_messages, batch)
            elif linger > 0 and len(batch) < max_messages:
                self._lane.thread.call(partial(self._fetch_more, max_messages - len(batch), linger))
                self._take_up_to(max_messages, batch)
        return [self._message(inner) for inner in batch]

    def _take_up_to(self, max_messages: int, batch: list[AsyncMessage[T_co]]) -> None:
        while len(batch) < max_messages and (inner := self._take()) is not None:
            batch.append(inner)

    async def _fetch_batch(self, max_messages: int, linger: float) -> bool:
        batch = await self._inner.receive_batch(max_messages, linger=linger)
        self._here.extend(batch)
        return bool(batch)

    async def _fetch_more(self, max_messages: int, linger: float) -> None:
        with trio.move_on_after(linger):
            try:
                await self._fetch_batch(max_messages, linger)
            except StompError:
                # There is something to hand out first; whoever takes the next message is told.
                return

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier ones that are open, in either client mode, in one call.

        Args:
            message: The last one to acknowledge.

        Raises:
            StaleMessage: The subscription is gone; the broker delivers them again.
            LocalProtocolError: The message is settled already, or came over another subscription, or the subscription
                is in auto mode.
            ConnectionLost: The link is gone; the broker delivers them again.

        Spec: ACK.
        """
        inner = message.inner
        if message.can_be_settled and message.subscription is self:
            number = self._lane.post(partial(self._inner.ack_up_to, inner))
            message.claim(number, Settlement.ACKED, earlier=True)
        else:
            self._lane.call(lambda: self._inner.ack_up_to(inner))

    def delete(self) -> None:
        """End a durable subscription for good: it is left, and the broker forgets it and the messages that it holds.

        Iteration stops. Messages that were taken can no longer be settled; they are gone with it.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            BrokerError: The broker refused: another connection uses it, perhaps.
            ConnectionLost: The link is gone; the broker may or may not have forgotten it.

        Spec: UNSUBSCRIBE.
        """
        self._lane.call(self._inner.delete)
        self.forget()

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
        again by `retry`, and then put aside. The pool holds no more messages than the prefetch, or than it has workers.

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
                settled as ever; handlers that take longer go on without the pool, and their messages come again.

        Raises:
            ConnectionLost: The connection ended for good.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter.
            LocalProtocolError: An argument cannot be meant, the subscription is in auto mode, or messages that it has
                fetched for an iteration are left over.
            Exception: A handler failed for good, and there is nowhere to put its message.
        """
        if self._here:
            msg = (
                f"{len(self._here)} messages are left over from iterating the subscription, which work() would pass "
                "over; call work() first, or on a subscription of its own"
            )
            raise LocalProtocolError(msg)
        limiter = trio.CapacityLimiter(max(1, workers))

        async def handle(inner: AsyncMessage[T_co]) -> None:
            run = partial(handler, self._message(inner))
            await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
            # What the handler has posted, say an ack(), is done before the pool looks at its message.
            await self._lane.wait_done()

        def seen(function: Callable[[Message[T_co]], Value]) -> Callable[[AsyncMessage[T_co]], Value]:
            return lambda inner: function(self._message(inner))

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

    def forget(self) -> None:
        """Hand out nothing more."""
        self._here.clear()


@contextmanager
def open_subscription(
    lane: Lane, manager: AbstractAsyncContextManager[AsyncSubscription[T]], prefetch: int
) -> Generator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    lane.catch_up()
    with Entered(lane.thread, manager, outlives=True) as inner, Finish(lane):
        subscription = Subscription(lane, inner, prefetch)
        try:
            yield subscription
        finally:
            subscription.forget()
