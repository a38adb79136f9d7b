"""Calls into the trio thread, and async context managers that are kept open there.

Theory of operation. A `Call` is made first, then handed to the trio thread, and waited for. When the waiting thread is
interrupted (Ctrl-C), the call is canceled and its end awaited, so that a verb that was left by Ctrl-C keeps the promise
that it makes about cancellation.

anyio's blocking portal was tried for this. `BlockingPortal.call` crosses twice, once to start a task and once for its
result, and a Ctrl-C in the first crossing leaves an orphaned task behind. One while `start_blocking_portal`
starts makes it wait for a thread that never ends.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Final, Generic, TypeVar

import trio

from trio_stomp.bridge.outcome import Outcome
from trio_stomp.bridge.trio_thread import (
    CLOSED,
    FORKED,
    TrioThread,
    join_thread,
    leave_thread,
    stop_daemon_at_exit,
    wait_done,
)
from trio_stomp.errors import ConnectionClosed

__all__ = ["EXIT_SECONDS", "Bridge", "Call", "Entered"]

T = TypeVar("T")

# Calls of other threads that are under way when a client is closed have been told so, and end in a moment.
_GRACE: Final = 1.0
# A client that is still open when the interpreter exits has this many seconds to send the rest and to disconnect.
EXIT_SECONDS: Final = 2.0


class Call(Generic[T]):
    """An async function that runs in the trio thread while its caller waits.

    Args:
        function: What to run.

    Attributes:
        begun: Whether its task was started.
        outcome: What it returned or raised.
    """

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._scope = trio.CancelScope()
        self.begun = False
        self.outcome: Outcome[T] = Outcome()

    async def run(self) -> None:
        """Run it; in the trio thread.

        Cancellation: the caller gets ConnectionClosed.
        """
        try:
            with self._scope:
                self.outcome.set_result(await self._function())
            if not self.outcome.done():
                # Its caller was interrupted, and waits only for this.
                self.outcome.set_exception(ConnectionClosed("the call was interrupted"))
        except trio.Cancelled:
            self.refuse()
            raise
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            self.outcome.set_exception(error)

    def refuse(self) -> None:
        """End it without running it."""
        if not self.outcome.done():
            self.outcome.set_exception(ConnectionClosed(CLOSED))

    def cancel(self) -> None:
        """Cancel it; in the trio thread."""
        self._scope.cancel()
        if not self.begun:
            self.refuse()

    def end(self) -> None:
        """Cancel it and do not wait; in the trio thread."""
        self.cancel()
        self.refuse()

    def begin_at_once(self) -> bool:
        """Begin without a task, where that is possible; in the trio thread. Returns whether it did."""
        return False


class Bridge:
    """The way of one client into the trio thread.

    Args:
        grace: Seconds that calls under way have to end by themselves when the bridge is closed.

    Attributes:
        stopped: Done when everything that ran through this bridge has ended.
    """

    def __init__(self, grace: float = _GRACE) -> None:
        self._grace = grace
        self._thread: TrioThread | None = None
        self._nursery: Outcome[trio.Nursery] = Outcome()
        self._serving = Call(self._serve)
        self._calls = 0
        # What ends the calls that were begun without a task.
        self._without_task: set[Callable[[], None]] = set()
        self._no_calls = trio.lowlevel.ParkingLot()
        self._closed = False
        self._stop = trio.Event()
        self.stopped: Outcome[None] = self._serving.outcome
        self.stopped.add_done_callback(self._fail_to_start)

    # --- in any thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; close it later even if this raises."""
        self._thread = join_thread(self)
        self._thread.soon(self._begin_serving)
        wait_done(self._nursery)
        self._nursery.result()

    @property
    def forked(self) -> bool:
        """Whether this process was forked since the start."""
        return self._thread is not None and self._thread.forked

    @property
    def can_wait(self) -> bool:
        """Whether this thread may wait for the trio thread: it is another one, and of this process.

        Only the garbage collector comes here in the trio thread itself.
        """
        return self._thread is not None and not self._thread.forked and not self._thread.is_current

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function in the trio thread and wait for it.

        Returns:
            What it returned.

        Raises:
            ConnectionClosed: The bridge is closed.
            BaseException: What it raised. If this thread is interrupted, the call is canceled first.
        """
        return self.run(Call(function))

    def run(self, call: Call[T]) -> T:
        """Begin a call and wait for it; see `call`."""
        try:
            self.begin(call)
            wait_done(call.outcome)
        except ConnectionClosed:
            stop_daemon_at_exit()
            raise
        finally:
            self.abandon(call)
        stop_daemon_at_exit()
        return call.outcome.result()

    def begin(self, call: Call[T], *, awaited: bool = True) -> None:
        """Begin a call; does not wait for it.

        Args:
            call: What to run.
            awaited: Whether closing the bridge waits a moment for it before it is canceled.

        Raises:
            ConnectionClosed: The bridge is closed.
        """
        if self._thread is not None and self._thread.is_current:
            call.refuse()
            raise RuntimeError(
                "the trio thread cannot wait for itself: functions given as key= and dead_letter= may only look at the "
                "message"
            )
        context = contextvars.copy_context()
        self.soon(lambda: context.run(self._begin, call, awaited))

    def cancel(self, call: Call[T]) -> None:
        """Cancel a call that has not ended; does not wait for its end."""
        if call.outcome.done():
            return
        try:
            self.soon(call.cancel)
        except ConnectionClosed:
            # Everything that was begun has ended with trio; this was not begun.
            call.refuse()

    def abandon(self, call: Call[T]) -> None:
        """Cancel a call that has not ended, and wait for its end."""
        self.cancel(call)
        wait_done(call.outcome)

    def soon(self, function: Callable[[], object]) -> None:
        """Call a plain function in the trio thread, in the order of asking; does not wait for it.

        Raises:
            ConnectionClosed: The trio thread has ended.
        """
        if self._thread is None:
            raise ConnectionClosed(CLOSED)
        self._thread.soon(function)

    def expire(self) -> None:
        """Cancel everything that runs through this bridge after `EXIT_SECONDS`; does not wait."""

        async def cancel() -> None:
            await trio.sleep(EXIT_SECONDS)
            self._nursery.result().cancel_scope.cancel()

        with suppress(ConnectionClosed):
            self.serve(cancel)

    def check(self) -> None:
        """Raise if nothing can cross any more.

        Raises:
            ConnectionClosed: The bridge is closed, or this process was forked.
        """
        if self.forked:
            raise ConnectionClosed(FORKED)
        if self._closed or self._thread is None:
            stop_daemon_at_exit()
            raise ConnectionClosed(CLOSED)

    def serve(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a task until the bridge is closed."""
        self.soon(lambda: self._nursery.result().start_soon(function))

    def stop(self) -> None:
        """Begin to close: no more calls are taken. Does not wait; `stopped` does."""
        with suppress(ConnectionClosed):
            self.soon(self._stop_serving)

    def close(self) -> None:
        """Close the bridge and wait until everything that ran through it has ended.

        Raises:
            BaseException: What crashed, a mistake of this library.
        """
        try:
            self.stop()
            if self.can_wait and self._thread is not None and self._thread.is_alive:
                wait_done(self.stopped)
        finally:
            leave_thread(self)

    def _fail_to_start(self, _stopped: Outcome[None]) -> None:
        if not self._nursery.done():
            self._nursery.set_exception(ConnectionClosed(CLOSED))

    # --- in the trio thread ---------------------------------------------------------------------------------------

    def _begin_serving(self) -> None:
        if self._stop.is_set() or self._thread is None:
            self._serving.refuse()
        else:
            self._serving.begun = True
            self._thread.nursery.start_soon(self._serving.run)

    def _stop_serving(self) -> None:
        self._stop.set()
        if not self._serving.begun:
            # A Ctrl-C has interrupted the start.
            self._serving.refuse()

    async def _serve(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery.set_result(nursery)
                await self._stop.wait()
                self._closed = True
                with trio.move_on_after(self._grace):
                    while self._calls or self._without_task:
                        await self._no_calls.park()
                nursery.cancel_scope.cancel()
        finally:
            self._closed = True
            for end in list(self._without_task):
                end()

    def _begin(self, call: Call[T], awaited: bool) -> None:  # noqa: FBT001  # Context.run passes it on
        if self._closed:
            call.refuse()
            return
        call.begun = True
        try:
            without_task = call.begin_at_once()
        except Exception as error:  # noqa: BLE001  # raised in the thread that waits
            call.outcome.set_exception(error)
            return
        if without_task:
            self._without_task.add(call.end)
            call.outcome.add_done_callback(lambda _: self._ended(call.end))
        else:
            self._nursery.result().start_soon(self._run, call, awaited)

    def _ended(self, end: Callable[[], None]) -> None:
        self._without_task.discard(end)
        if not self._without_task:
            self._no_calls.unpark_all()

    async def _run(self, call: Call[T], awaited: bool) -> None:  # noqa: FBT001  # start_soon passes it on
        self._calls += awaited
        try:
            await call.run()
        finally:
            self._calls -= awaited
            if not self._calls:
                self._no_calls.unpark_all()


class Entered(Generic[T]):
    """An async context manager that one task in the trio thread enters, keeps and leaves.

    Args:
        bridge: The way there.
        manager: The context manager.
        outlives: It may be left after the client was closed, and nothing is lost then.

    Attributes:
        call: The task: it ends when the manager was left.
        value: What entering it returned.
    """

    def __init__(self, bridge: Bridge, manager: AbstractAsyncContextManager[T], *, outlives: bool = False) -> None:
        self._bridge = bridge
        self._manager = manager
        self._outlives = outlives
        self._error: BaseException | None = None
        self._left = trio.Event()
        self.value: Outcome[T] = Outcome()
        self.call = Call(self._keep)

    def begin(self) -> None:
        """Begin to enter it; does not wait. `value` then is what entering returned or raised."""
        # The call ends before the value is there only when entering fails.
        self.call.outcome.add_done_callback(self._fail_to_enter)
        # Closing a client does not wait for what others keep: it is canceled, and so left, at once.
        self._bridge.begin(self.call, awaited=False)

    def leave(self, error: BaseException | None) -> None:
        """Begin to leave it, with the exception of the block if it raised; does not wait. ``call.outcome`` does."""
        self._error = error
        with suppress(ConnectionClosed):  # then it was left already
            self._bridge.soon(self._left.set)

    def raise_outcome(self) -> None:
        """Raise what leaving has raised, except the exception of the block, which goes its own way."""
        raised = self.call.outcome.exception()
        if raised is None or raised is self._error or (self._outlives and isinstance(raised, ConnectionClosed)):
            return
        raise raised

    def __enter__(self) -> T:
        """Enter it from a thread that may block."""
        entered = False
        try:
            self.begin()
            wait_done(self.value)
            value = self.value.result()
            entered = True
        finally:
            if not entered:
                self._bridge.abandon(self.call)
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it as the block was left. What leaving raises is raised; the exception of the block propagates."""
        try:
            self.leave(error)
            if not self._bridge.can_wait:
                return
            wait_done(self.call.outcome)
        finally:
            if self._bridge.can_wait:
                self._bridge.abandon(self.call)
        self.raise_outcome()

    def _fail_to_enter(self, outcome: Outcome[None]) -> None:
        error = outcome.exception()
        if error is not None and not self.value.done():
            self.value.set_exception(error)

    async def _keep(self) -> None:
        async with self._manager as value:
            self.value.set_result(value)
            await self._left.wait()
            if self._error is not None:
                raise self._error
