"""An open client in the loop's thread, until it is closed."""

from __future__ import annotations

import contextvars
import math
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Protocol, TypeVar

import trio

from trio_stomp.blocking.processes import EXIT_SECONDS, process
from trio_stomp.blocking.queue import Queue
from trio_stomp.blocking.thread import CLOSED, FORKED, Call, LoopThread
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import Statistics, session_of
from trio_stomp.errors import ConnectionClosed
from trio_stomp.session import Limit

__all__ = ["Link", "raised"]

T = TypeVar("T")

# A block that is left by Ctrl-C waits this many seconds for what it has sent and acknowledged.
_HASTE: Final = 1.0
# Calls of other threads that are under way when a client is closed have been told so, and end in a moment.
_GRACE: Final = 1.0


class _Ending(Protocol):
    """A call, whatever it returns."""

    def cancel(self) -> None:
        """Cancel it."""


class Link:
    """A client in the loop's thread, and what runs for it there.

    Args:
        thread: The loop's thread.
        client: The client.
        keeps_context: Whether what is posted sees the context variables of its caller. Hooks need them, for traces.

    Attributes:
        thread: The loop's thread.
        client: The client.
        session: Its session.
        queue: What is to be done without being waited for.
        last: Its statistics when it was closed.
        is_closed: Whether it takes no more calls.
    """

    def __init__(self, thread: LoopThread, client: AsyncClient, *, keeps_context: bool) -> None:
        self.thread = thread
        self.client = client
        self.session = session_of(client)
        self.keeps_context = keeps_context
        self.queue = Queue(thread)
        self.last: Statistics | None = None
        self.is_closed = False
        # Those that are under way.
        self._calls: set[_Ending] = set()
        self._no_calls = trio.lowlevel.ParkingLot()
        self._closing: trio.CancelScope | None = None
        self._closed = trio.Event()
        self._queueing = Call(self.queue.run)
        self._queueing.begin(contextvars.copy_context())

    def check(self) -> None:
        """Raise if nothing can cross any more.

        Raises:
            ConnectionClosed: The client is closed, or this process was forked.
        """
        if self.thread.forked:
            raise ConnectionClosed(FORKED)
        if self.is_closed:
            process.halt_daemon()
            raise ConnectionClosed(CLOSED)

    def run(self, call: Call[T], seconds: float = math.inf) -> T:
        """Begin a call of the client and wait for it; see `LoopThread.run`.

        Raises:
            ConnectionClosed: The client is closed.
            BaseException: What the call has raised.
        """
        try:
            return self.thread.run(call, self._begin, seconds)
        except ConnectionClosed:
            process.halt_daemon()
            raise

    # --- in the loop's thread -------------------------------------------------------------------------------------

    def _begin(self, call: Call[T], context: contextvars.Context) -> None:
        if self.is_closed:
            call.refuse()
        elif not call.is_done:
            self._calls.add(call)
            call.when_done = self._ended
            call.begin(context)

    def _ended(self, call: Call[T]) -> None:
        self._calls.discard(call)
        if not self._calls:
            self._no_calls.unpark_all()

    async def count(self) -> Statistics:  # noqa: ASYNC124  # runs in the loop's thread
        """Return the statistics of this moment.

        Cancellation: no cancellation point.
        """
        return self.last or self.client.statistics()

    async def close(self, error: BaseException | None, seconds: float | None = None) -> None:
        """Close the client as its block was left, within a time limit; if that is under way already, wait for it.

        Raises:
            StompError: As leaving the client does.

        Cancellation: the connection is closed at once.
        """
        if self._closing is not None:
            await self._closed.wait()
            return
        self._closing = trio.CancelScope()
        grace = 0.0
        try:
            with self._closing:
                async with Limit(seconds, "close()", outcome="the connection was closed at once"):
                    try:
                        # As long as the session waits for what it has: without a connection, this would not end.
                        with trio.move_on_after(self.session.settings.disconnect_timeout):
                            await self.finish(error)
                    finally:
                        # Canceled, it closes the connection at once.
                        await self.client.__aexit__(*raised(error))  # noqa: ASYNC102  # it decides what it shields
                grace = _GRACE
        finally:
            self.last = self.client.statistics()
            self.is_closed = True
            self._queueing.cancel()
            with trio.CancelScope(deadline=trio.current_time() + grace, shield=True):
                while self._calls:
                    await self._no_calls.park()
            for call in list(self._calls):
                call.cancel()
            self._closed.set()
        if self._closing.cancelled_caught:
            raise ConnectionClosed(CLOSED)

    async def close_within(self, seconds: float) -> None:
        """`close`, and if that takes too long, close the connection at once, also if another task was closing it.

        Cancellation: as `close`.
        """
        with trio.move_on_after(seconds) as limit:
            await self.close(None)
        if limit.cancelled_caught:
            if self._closing is not None:
                self._closing.cancel()
            raise ConnectionClosed(CLOSED)

    def begin_closing(self) -> Call[None] | None:
        """`close_within` the time that there is at exit, without waiting for it; in any thread."""
        call = Call(partial(self.close_within, EXIT_SECONDS))
        with suppress(ConnectionClosed):
            self.thread.soon(call.begin, contextvars.copy_context())
            return call
        return None

    async def finish(self, error: BaseException | None = None) -> None:
        """Wait until all that was posted so far is done, but not for long if a block is left by Ctrl-C.

        Cancellation: nothing changes.
        """
        if self.is_closed or self.queue.is_empty:
            return
        in_haste = error is not None and not isinstance(error, Exception)
        with trio.move_on_after(_HASTE if in_haste else math.inf):
            await self.queue.wait_done()


def raised(
    error: BaseException | None,
) -> tuple[type[BaseException] | None, BaseException | None, TracebackType | None]:
    """Return what a context manager is told when its block was left."""
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)
