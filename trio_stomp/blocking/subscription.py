"""A subscription, for synchronous code: messages cross the threads in batches."""

# What the classes of this package hand each other is hidden from users alone.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import Final, Generic, Self

import trio
from typing_extensions import TypeVar

from trio_stomp.blocking.calls import Calls, entered
from trio_stomp.blocking.message import Claims, Message, taken
from trio_stomp.blocking.thread import INTERRUPT_SECONDS, Call
from trio_stomp.blocking.verbs import documented
from trio_stomp.brokers import require_seconds, require_whole
from trio_stomp.client import Codec, Retry, Settlement, SubscriptionStatistics, UnusableError, check_work, require_plain
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.client import Subscription as AsyncSubscription
from trio_stomp.errors import LocalProtocolError, OperationTimeout, StompError, SubscriptionEnded
from trio_stomp.printable import name_of
from trio_stomp.protocol import AckMode
from trio_stomp.runtime import sync_context
from trio_stomp.session import Limit, checked_seconds, limit_of

__all__ = ["Subscription", "open_subscription"]

# Type of `value` of its messages; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
T = TypeVar("T")
Value = TypeVar("Value")

# A crossing costs as much as handing out some ten messages; beyond this many per crossing nothing is gained.
_LARGEST_BATCH: Final = 1024


def _handled(
    handler: Callable[[Message[T]], None],
    around: Sequence[Callable[[Message[T]], AbstractContextManager[object]]],
    message: Message[T],
) -> None:
    with ExitStack() as stack:
        for each in around:
            manager = each(message)
            if not isinstance(manager, AbstractContextManager):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise UnusableError(
                    f"around= must hold functions that return context managers, and {name_of(each)} returned "
                    f"{type(manager).__name__}: decorate it with @contextlib.contextmanager"
                )
            stack.enter_context(manager)
        handler(message)


class Subscription(Generic[T_co]):
    """The messages of one destination, in the order in which the broker sends them.

    Iterate over it: ``for message in subscription``. Several threads may do so at once; each message goes to one of
    them. With ``connect(reconnect=...)`` it survives the loss of a connection: iteration waits for the next connection
    and continues. If the broker refuses it there, it is retried by the same policy.

    A message that a call has not returned because of Ctrl-C is returned by the next one.
    """

    def __init__(
        self,
        calls: Calls | None = None,
        inner: AsyncSubscription[T_co] | None = None,
        prefetch: int = 0,
    ) -> None:
        if not isinstance(calls, Calls) or inner is None:
            raise TypeError("a Subscription cannot be constructed: use with client.subscribe(...) as subscription")
        self._calls = calls
        self._inner = inner
        self._claims = Claims(inner.ack_mode)
        self._prefetch = min(prefetch, _LARGEST_BATCH)
        # Messages that have crossed and were not handed out. The loop's thread adds, any thread takes.
        self._here: list[AsyncMessage[T_co]] = []
        self._taking = threading.Lock()
        # Held, in the loop's thread, by the call that fetches more; the others look at what it has brought.
        self._fetching = trio.Lock()

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
        # As its user sees them: what is here still waits.
        seen, here = self._inner.statistics(), len(self._here)
        settles = self._inner.ack_mode is not AckMode.AUTO
        return dataclasses.replace(
            seen,
            buffered=seen.buffered + here,
            unsettled=max(0, seen.unsettled - here) if settles else seen.unsettled,
            delivered=seen.delivered - here,
        )

    # --- receiving ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        """Iterate: ``for message in subscription``."""
        return self

    @documented(AsyncSubscription.__anext__)
    def __next__(self) -> Message[T_co]:
        """Take the next message; wait until there is one."""
        # As `_take`, for one, in two thirds of its time.
        here, removed, message = self._here, None, None
        try:
            with self._taking:
                if here:
                    oldest = here[0]
                    message = Message(oldest, self, self._claims, self._calls)
                    # Both or none: see the top of `trio_stomp.blocking.thread`.
                    removed = oldest
                    del here[0]
            if removed is not None and message is not None and not removed.is_stale:
                return message
        except BaseException:
            # Ctrl-C: this call does not return it.
            self._put_back(removed)
            raise
        messages = self._receive(1)
        if messages:
            return messages[0]
        raise StopIteration

    @documented(AsyncSubscription.receive)
    def receive(self, *, timeout: float | None = None) -> Message[T_co]:
        """Take one message; wait until there is one."""
        messages = self._receive(1, seconds=limit_of(timeout, None), name="receive")
        if messages:
            return messages[0]
        raise SubscriptionEnded(f"subscription to {self.destination!r} was left, or has no more messages")

    @documented(AsyncSubscription.receive_batch)
    def receive_batch(
        self, max_messages: int, *, linger: float = 0, timeout: float | None = None
    ) -> list[Message[T_co]]:
        """Take several messages in one call."""
        require_whole("max_messages", max_messages)
        require_seconds("linger", linger)
        return self._receive(max_messages, linger, limit_of(timeout, None))

    def _receive(
        self, count: int, linger: float = 0, seconds: float | None = None, *, name: str = "receive_batch"
    ) -> list[Message[T_co]]:
        while True:
            # Nothing is taken before the wait, so nothing is lost if that is interrupted.
            waits = (linger > 0 and len(self._here) < count) or not self._here
            if waits and not self._calls.link.run(Call(partial(self._fetch, count, linger, seconds, name))):
                return []
            messages = self._take(count)
            if messages:
                return messages

    @documented(AsyncSubscription.messages)
    def messages(self, *, timeout: float) -> Iterator[Message[T_co]]:
        """Iterate until no message has come for some time: ``for message in subscription.messages(timeout=1)``."""
        checked_seconds(timeout)
        return self._until_idle(timeout)

    def _until_idle(self, timeout: float) -> Iterator[Message[T_co]]:
        # The first look does not wait: a subscription that had ended before raises SubscriptionEnded.
        seconds, may_end = 0.0, False
        while True:
            try:
                message = self.receive(timeout=seconds)
            except OperationTimeout:
                if may_end:
                    return
            except SubscriptionEnded:
                if may_end:
                    return
                raise
            else:
                yield message
            seconds, may_end = timeout, True

    def _take(self, count: int) -> list[Message[T_co]]:
        """Return the oldest messages; stale ones are left out, because the broker redelivers them."""
        here, removed = self._here, list[AsyncMessage[T_co]]()
        try:
            with self._taking:
                oldest = here[:count]
                wrapped = [self._wrapped(each) for each in oldest if not each.is_stale]
                # What a fetch adds meanwhile comes after these.
                found = len(oldest)
                # Both or none: see the top of `trio_stomp.blocking.thread`.
                removed = oldest
                del here[:found]
        except BaseException:
            # Ctrl-C: this call does not return them.
            self._put_back(*removed)
            raise
        else:
            return wrapped

    def _put_back(self, *removed: AsyncMessage[T_co] | None) -> None:
        with self._taking:
            self._here[:0] = [each for each in removed if each is not None]

    # --- in the loop's thread -------------------------------------------------------------------------------------

    async def _fetch(self, wanted: int, linger: float, seconds: float | None, name: str) -> bool:
        """Wait until there are messages here; with `linger`, a while longer for more.

        Args:
            wanted: How many the call returns at most.
            linger: How long it waits for more.
            seconds: Its limit.
            name: Its name, for the error.

        Returns:
            False when the subscription was left.

        Raises:
            OperationTimeout: None came within `seconds`.

        Cancellation: no message is lost: what was taken is here.
        """
        here, began = self._here, trio.current_time()
        limit = Limit(seconds, f"{name}() from {self.destination!r}", outcome="no message was taken")
        try:
            self._fetching.acquire_nowait()
        except trio.WouldBlock:
            async with limit:
                await self._fetching.acquire()
        try:
            left = None if seconds is None else max(0.0, began + seconds - trio.current_time())
            if not here:
                # A whole batch crosses, even if one message is asked for.
                most = wanted if linger > 0 else max(wanted, self._prefetch)
                try:
                    here += await self._inner.receive_batch(most, linger=linger, timeout=left)
                except OperationTimeout:
                    # It names another call, and what was left of the limit of this one.
                    raise limit.error() from None
                return bool(here)
            if linger > 0 and len(here) < wanted:
                with suppress(StompError):
                    # The messages that are here come first; the next fetch raises it again.
                    here += await self._inner.receive_batch(
                        wanted - len(here), linger=linger, timeout=linger if left is None else min(linger, left)
                    )
            return True
        finally:
            self._fetching.release()

    def _forget(self) -> None:
        """Hand out nothing more."""
        del self._here[:]

    # --- settling, handling ---------------------------------------------------------------------------------------

    @documented(AsyncSubscription.ack_up_to)
    def ack_up_to(self, message: Message, *, timeout: float | None = None) -> None:
        """Acknowledge a message and all earlier unsettled ones in one call, in either client mode."""
        inner = taken(message)._inner
        settle = partial(self._inner.ack_up_to, inner)
        if message._can_be_settled and message.subscription is self:
            posted = self._calls.post(partial(settle, timeout=math.inf), timeout=timeout)
            message._claim(posted, Settlement.ACKED, earlier=True)
        else:
            self._calls.call(lambda left: settle(timeout=left), timeout, name="ack_up_to")

    @documented(AsyncSubscription.delete)
    def delete(self, *, timeout: float | None = None) -> None:
        """Delete a durable subscription at the broker, together with its messages."""
        self._calls.call(lambda left: self._inner.delete(timeout=left), timeout, name="delete")
        self._forget()

    def work(
        self,
        handler: Callable[[Message[T_co]], None],
        *,
        workers: int = 10,
        key: str | Callable[[Message[T_co]], Hashable] | None = None,
        retry: Retry | None = None,
        dead_letter: str | Callable[[Message[T_co]], str] | None = None,
        around: Sequence[Callable[[Message[T_co]], AbstractContextManager[object]]] = (),
        drain_timeout: float = 10.0,
        timeout: float | None = None,
    ) -> None:
        """Handle messages with a pool of threads, until interrupted, or until the subscription or the client is left.

        A message is acknowledged when its handler returns. When the handler raises an Exception, the message is retried
        as `retry` says, and then dead-lettered. The pool holds as many messages as the prefetch or as it has workers,
        whichever is more.

        When this thread is interrupted (Ctrl-C), no further message is started, running handlers finish within
        `drain_timeout`, and the remaining messages go back to the broker when the subscription is left. Then
        KeyboardInterrupt is raised.

        Args:
            handler: Function that takes the message, in a thread of the pool. It may settle the message itself.
            workers: Number of messages handled at once, each in a thread of its own.
            key: Messages with the same key are handled one at a time, in the order in which they came, including
                retries. Either the name of a header or a function of the message, which must not wait. Default: no
                order.
            retry: When and how often to retry a failed message. Default: `Retry()`, three attempts.
            dead_letter: Destination of messages that failed for good, or a function of the message, which must not
                wait. A message is sent there and acknowledged in one transaction, with headers that describe the
                failure. Default: the broker's own dead-letter queue if a NACK certainly leads there; otherwise the
                handler's error is raised.
            around: Functions that take the message and return a context manager, which is entered around each attempt
                to handle it, in the thread of the handler: for timing, tracing or a database session. The first one is
                outermost. They see the exception of the handler, and an exception of theirs counts as one.
            drain_timeout: Seconds that running handlers have to finish when the pool is interrupted. Handlers that take
                longer go on without the pool, and the broker redelivers their messages.
            timeout: Seconds after which the pool ends, as if interrupted. Default: no limit, whatever that of `connect`
                is.

        Raises:
            ConnectionLost: The connection ended for good.
            ConnectionClosed: Another thread has closed the client.
            SubscriptionOverflow: The pool did not keep up.
            BrokerError: The broker ended the subscription, or refused a dead letter; a note names its message.
            PoisonMessage: The broker has closed the connection without an ERROR each time that it got a dead letter.
            LocalProtocolError: An argument is invalid, the ack mode is not ``client-individual``, iterating has left
                messages that the subscription had fetched, or `dead_letter` sends a message back to where it came from.
            TypeError: The handler is async.
            OperationTimeout: The `timeout` was reached, and the pool has ended.
            Exception: A handler failed for good, and there is no dead-letter destination.
        """
        if self._here:
            raise LocalProtocolError(
                f"{len(self._here)} messages are left over from iterating the subscription, and work() would skip "
                "them; call work() first, or on a subscription of its own"
            )
        require_plain(handler)
        check_work(
            self.destination,
            workers=workers,
            key=key,
            retry=retry,
            dead_letter=dead_letter,
            around=around,
            drain_timeout=drain_timeout,
        )
        limiter = trio.CapacityLimiter(workers)

        async def handle(inner: AsyncMessage[T_co]) -> None:
            run = partial(_handled, handler, around, self._wrapped(inner))
            try:
                await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
            finally:
                # What the handler has posted, say an ack(), is done before the pool looks at its message.
                await self._calls.link.queue.wait_done()  # noqa: ASYNC102  # canceled, it is not looked at

        def seen(function: Callable[[Message[T_co]], Value]) -> Callable[[AsyncMessage[T_co]], Value]:
            return lambda inner: function(self._wrapped(inner))

        # The pool names its handler in the log.
        handle.__qualname__ = name_of(handler)
        self._calls.call(
            lambda left: self._inner.work(
                handle,
                workers=workers,
                key=key if key is None or isinstance(key, str) else seen(key),
                retry=retry,
                dead_letter=dead_letter if dead_letter is None or isinstance(dead_letter, str) else seen(dead_letter),
                drain_timeout=drain_timeout,
                timeout=left,
            ),
            math.inf if timeout is None else timeout,
            name="work",
            patience=drain_timeout + INTERRUPT_SECONDS,
        )

    def _wrapped(self, inner: AsyncMessage[T_co]) -> Message[T_co]:
        return Message(inner, self, self._claims, self._calls)


@sync_context("subscribe()", "with client.subscribe(...) as subscription:")
def open_subscription(
    calls: Calls, manager: AbstractAsyncContextManager[AsyncSubscription[T]], prefetch: int, timeout: float | None
) -> Generator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    with entered(calls, manager, timeout) as inner:
        subscription = Subscription(calls, inner, prefetch)
        try:
            yield subscription
        finally:
            subscription._forget()
