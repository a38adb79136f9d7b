"""The thread of trio, and how other threads have things done in it.

Theory of operation. A `Call` is made first, then thrown over into the thread of trio, and waited for. When the waiting
thread is interrupted (Ctrl-C), the call is canceled and its end awaited, so that a verb that was left by Ctrl-C keeps
the promise that it makes about cancellation. The same holds for starting and ending the thread itself.

anyio's blocking portal was tried for this. `BlockingPortal.call` crosses twice, once to start a task and once for its
result, and a Ctrl-C in the first crossing leaves a task behind that nobody holds; one while `start_blocking_portal`
starts makes it wait for a thread that nobody ends.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import TracebackType
from typing import Final, Generic, TypeVar

import trio

from trio_stomp.errors import ConnectionClosed

__all__ = ["Entered", "TrioThread", "held", "open_trio_thread"]

T = TypeVar("T")

CLOSED: Final = "this client was closed; open a new one with connect()"

# Calls of other threads that are still under way when the client is left have been told so, and end in a moment.
_GRACE: Final = 1.0


# A thread that waits for a lock does not see a Ctrl-C that comes in the moment before it falls asleep, and on Windows
# none at all. So it wakes now and then to look.
_SLICE: Final = 0.5


def wait_done(future: Future[T]) -> None:
    """Wait until a future is done, so that a Ctrl-C is seen in any case."""
    while True:
        with suppress(TimeoutError):
            future.exception(_SLICE)
            return


@contextmanager
def held(lock: threading.Lock) -> Generator[None]:
    """Hold a lock for the length of a block; waiting for it, a Ctrl-C is seen in any case."""
    while not lock.acquire(timeout=_SLICE):
        pass
    try:
        yield
    finally:
        lock.release()


class Call(Generic[T]):
    """Something that is done in the thread of trio, while another thread waits.

    Args:
        function: What to do.

    Attributes:
        begun: Whether its task is started.
        outcome: What it returned or raised.
    """

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._scope = trio.CancelScope()
        self.begun = False
        self.outcome: Future[T] = Future()

    async def run(self) -> None:
        """Do it; in the thread of trio.

        Cancellation: the waiting thread is told that the client was closed.
        """
        try:
            with self._scope:
                self.outcome.set_result(await self._function())
            if not self.outcome.done():
                # Its thread was interrupted, and waits only for this.
                self.outcome.set_exception(ConnectionClosed("the call was interrupted"))
        except trio.Cancelled:
            self.refuse()
            raise
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            self.outcome.set_exception(error)

    def refuse(self) -> None:
        """It is too late to do it."""
        if not self.outcome.done():
            self.outcome.set_exception(ConnectionClosed(CLOSED))

    def cancel(self) -> None:
        """Do it no more; in the thread of trio, after it was begun there, if it ever was."""
        self._scope.cancel()
        if not self.begun:
            self.refuse()


class TrioThread:
    """The thread of trio, for the threads that use it. `open_trio_thread` makes it.

    Args:
        nursery: Where calls run.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._ident = threading.get_ident()
        self._calls = 0
        self._no_calls = trio.lowlevel.ParkingLot()
        self._closed = False
        self._stopped = trio.Event()

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Have something done in the thread of trio, and wait for it.

        Returns:
            What it returned.

        Raises:
            ConnectionClosed: The client is closed.
            BaseException: What it raised. When this thread is interrupted instead, the call is canceled first.
        """
        call = Call(function)
        try:
            self.start(call)
            wait_done(call.outcome)
            return call.outcome.result()
        finally:
            self.abandon(call)

    def start(self, call: Call[T], *, awaited: bool = True) -> None:
        """Begin a call.

        Args:
            call: What to do.
            awaited: Whether a client that is left waits a moment for it, before it is canceled.
        """
        if threading.get_ident() == self._ident:
            call.refuse()
            msg = "the thread of trio cannot wait for itself: key= and dead_letter= may only look at a message"
            raise RuntimeError(msg)
        context = contextvars.copy_context()
        self.soon(lambda: context.run(self._begin, call, awaited))

    def abandon(self, call: Call[T]) -> None:
        """Cancel a call, where it has not ended, and wait for its end."""
        if call.outcome.done():
            return
        try:
            self.soon(call.cancel)
        except ConnectionClosed:
            # All that was begun has ended with trio; this has not been begun.
            call.refuse()
        wait_done(call.outcome)

    def soon(self, function: Callable[[], object]) -> None:
        """Have a plain function called in the thread of trio, in the order of asking, and don't wait.

        Raises:
            ConnectionClosed: The client is closed.
        """
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise ConnectionClosed(CLOSED) from None

    def serve(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a task for as long as the thread is open."""
        self.soon(lambda: self._nursery.start_soon(function))

    def stop(self) -> None:
        """Take no more calls; the thread ends."""
        self.soon(self._stopped.set)

    # --- in the thread of trio --------------------------------------------------------------------------------------

    def _begin(self, call: Call[T], awaited: bool) -> None:  # noqa: FBT001  # Context.run passes it on
        if self._closed:
            call.refuse()
        else:
            call.begun = True
            self._nursery.start_soon(self._run, call, awaited)

    async def _run(self, call: Call[T], awaited: bool) -> None:  # noqa: FBT001  # start_soon passes it on
        self._calls += awaited
        try:
            await call.run()
        finally:
            self._calls -= awaited
            if not self._calls:
                self._no_calls.unpark_all()

    def refuse_calls(self) -> None:
        """Take no more calls."""
        self._closed = True

    async def serve_calls(self, grace: float) -> None:
        """Take calls until stopped; then let those that are under way end, or leave them after `grace` seconds.

        Cancellation: no more calls are taken.
        """
        await self._stopped.wait()
        self.refuse_calls()
        with trio.move_on_after(grace):
            while self._calls:
                await self._no_calls.park()


class _Host:
    """Runs trio in a thread, from `start` to `stop`.

    Args:
        grace: Seconds that calls of other threads, which are under way in the end, have to end by themselves.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._thread = threading.Thread(target=self._run, name="trio_stomp", daemon=True)
        self._stopped = False
        self._ready: Future[TrioThread] = Future()
        self._crash: BaseException | None = None

    def start(self) -> TrioThread:
        """Start the thread."""
        self._thread.start()
        wait_done(self._ready)
        return self._ready.result()

    def stop(self) -> None:
        """End the thread, however far its start has come, and wait for its end."""
        self._stopped = True
        if self._ready.done() and self._ready.exception() is None:
            with suppress(ConnectionClosed):
                self._ready.result().stop()
        while self._thread.is_alive():
            self._thread.join(_SLICE)
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        # A mistake of ours, raised in the thread that has started this one.
        except BaseException as error:  # noqa: ASYNC103, BLE001  # see above
            self._crash = error
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            thread = TrioThread(nursery)
            self._ready.set_result(thread)
            try:
                if not self._stopped:
                    await thread.serve_calls(self._grace)
            finally:
                thread.refuse_calls()
                nursery.cancel_scope.cancel()


@contextmanager
def open_trio_thread(grace: float = _GRACE) -> Generator[TrioThread]:
    """Run trio in a thread of its own for the length of a block.

    Args:
        grace: Seconds that calls of other threads, which are under way in the end, have to end by themselves.

    Yields:
        The way into it.
    """
    host = _Host(grace)
    try:
        yield host.start()
    finally:
        host.stop()


class Entered(Generic[T]):
    """An async context manager that is entered, kept and left by one task in the thread of trio.

    Args:
        thread: That thread.
        manager: The context manager.
        outlives: It may be left after the client was closed, and nothing is lost then.
    """

    def __init__(self, thread: TrioThread, manager: AbstractAsyncContextManager[T], *, outlives: bool = False) -> None:
        self._thread = thread
        self._manager = manager
        self._outlives = outlives
        self._value: Future[T] = Future()
        self._error: BaseException | None = None
        self._left = trio.Event()
        self._call = Call(self._keep)

    def __enter__(self) -> T:
        """Enter it; what it raises is raised here."""
        call = self._call
        # The call ends before the value is there only when entering fails.
        call.outcome.add_done_callback(self._fail_to_enter)
        entered = False
        try:
            # A client that is left waits for nothing that others keep: it is canceled, and so left, at once.
            self._thread.start(call, awaited=False)
            wait_done(self._value)
            value = self._value.result()
            entered = True
        finally:
            if not entered:
                self._thread.abandon(call)
        return value

    def _fail_to_enter(self, outcome: Future[None]) -> None:
        error = outcome.exception()
        if error is not None and not self._value.done():
            self._value.set_exception(error)

    async def _keep(self) -> None:
        async with self._manager as value:
            self._value.set_result(value)
            await self._left.wait()
            if self._error is not None:
                raise self._error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it as the block was left. What it raises is raised here; the block's own exception goes its way."""
        call = self._call
        self._error = error
        try:
            with suppress(ConnectionClosed):  # then it has been left already
                self._thread.soon(self._left.set)
            wait_done(call.outcome)
            raised = call.outcome.exception()
        finally:
            self._thread.abandon(call)
        if raised is None or raised is error or (self._outlives and isinstance(raised, ConnectionClosed)):
            return
        raise raised
