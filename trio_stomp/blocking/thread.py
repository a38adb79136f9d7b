"""The thread that runs the event loop of all blocking clients of a process, and calls into it.

Theory of operation. One daemon thread runs trio from the first use until the process ends. A `Call` is made first, then
handed to the thread, then waited for. If the waiting thread is interrupted, the call is canceled there and its end is
awaited, at most for `Call.patience`, so that a verb keeps the promise that it makes about cancellation.

Ctrl-C. Python raises KeyboardInterrupt in the main thread when a call returns, when a function begins or when a loop
repeats, and nowhere else. So two statements without a call between them happen both or not at all, and ``with lock`` on
a lock of `threading` always releases it. A lock that is taken in any other way may stay locked: Condition and Event,
written in Python, do that, so no other thread ever waits for one that the main thread uses. No lock is held while
anything is awaited. Each step of starting the thread can be repeated by the next caller.

A fork copies no thread. In the child, everything of the parent's thread raises `ConnectionClosed`, and there
is a new `LoopThread`.
"""

from __future__ import annotations

import contextvars
import logging
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar, TypeVarTuple

import trio

from trio_stomp.errors import ConnectionClosed

__all__ = ["CLOSED", "FORKED", "INTERRUPT_SECONDS", "Call", "LoopThread", "begin"]

logger: Final = logging.getLogger("trio_stomp")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLOSED: Final = "this client was closed; open a new one with connect()"
FORKED: Final = (
    "this client was opened before os.fork(), and the new process has no connection of its own; open a client in each "
    "process, for example in gunicorn's post_fork hook or in Celery's first task, or pass after_fork='reopen'"
)
# How long KeyboardInterrupt is held back while the interrupted call ends. Cancellation takes well under a millisecond.
INTERRUPT_SECONDS: Final = 1.0

# A thread that waits for a lock does not see a Ctrl-C that comes in the moment before it falls asleep, and on Windows
# none at all. So it wakes now and then to look.
_SLICE: Final = 0.5


class Call(Generic[T]):
    """An async function that runs in the loop's thread while its caller waits. Its result is set once.

    Args:
        function: What to run.
        patience: Seconds that its caller waits for its end after a Ctrl-C.

    Attributes:
        patience: The argument.
        is_done: Whether it has ended.
        error: What it raised, until `result` has.
        begun: Whether it was started.
        when_done: Called in the loop's thread at its end.
    """

    __slots__ = (
        "_function",
        "_is_canceled",
        "_lock",
        "_scope",
        "_values",
        "begun",
        "error",
        "is_done",
        "patience",
        "when_done",
    )

    def __init__(self, function: Callable[[], Awaitable[T]], patience: float = INTERRUPT_SECONDS) -> None:
        self._function = function
        self.patience = patience
        self.is_done = False
        self.begun = False
        self.error: BaseException | None = None
        self.when_done: Callable[[Call[T]], object] | None = None
        self._values: list[T] = []
        self._scope: trio.CancelScope | None = None
        self._is_canceled = False
        # Held until the call has ended. It belongs to this call alone, so a Ctrl-C can leave nothing else locked.
        self._lock = threading.Lock()
        self._lock.acquire()

    # --- in the thread that waits ---------------------------------------------------------------------------------

    def wait(self, thread: LoopThread, seconds: float = math.inf) -> None:
        """Wait until it has ended, at most for so long, and see a Ctrl-C meanwhile in any case."""
        acquire = self._lock.acquire
        if seconds == math.inf:
            while not (self.is_done or acquire(timeout=_SLICE) or thread.is_over):
                pass
            return
        deadline = time.monotonic() + seconds
        while not self.is_done and not thread.is_over and (left := deadline - time.monotonic()) > 0:
            acquire(timeout=min(left, _SLICE))

    def result(self) -> T:
        """Return or raise, once, what came of it.

        The traceback of an error has the frames of the loop's thread below those of the caller.
        """
        if self._values:
            return self._values[0]
        # An exception that is reachable from its own traceback is garbage that only a collection frees.
        error, self.error = self.error or ConnectionClosed(CLOSED), None
        try:
            raise error
        finally:
            del error

    @property
    def value(self) -> T | None:
        """What it returned, if it did."""
        return self._values[0] if self._values else None

    # --- in the loop's thread -------------------------------------------------------------------------------------

    def begin(self, context: contextvars.Context) -> None:
        """Run it in a task of its own, unless it was canceled already."""
        if not self.is_done:
            self.begun = True
            trio.lowlevel.spawn_system_task(self._run, context=context)

    async def _run(self) -> None:
        """Run it; never raises, except for the cancellation that ends the thread.

        Cancellation: the caller gets ConnectionClosed.
        """
        try:
            self._scope = trio.CancelScope()
            if self._is_canceled:
                self._scope.cancel()
            with self._scope:
                self.set_result(await self._started())
            if not self.is_done:
                # Its caller was interrupted, and waits only for this.
                self.set_error(ConnectionClosed("the call was interrupted"))
        except trio.Cancelled:
            self.refuse()
            raise
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            self.set_error(error)

    def _started(self) -> Awaitable[T]:
        # A process may be forked when the caller goes on and this task has not ended. The frame of `_run` stays there
        # for good, and must not keep what the function belongs to.
        function = self._function
        del self._function
        return function()

    def set_result(self, value: T) -> None:
        """It returned this."""
        self._values.append(value)
        self._end()

    def set_error(self, error: BaseException) -> None:
        """It raised this."""
        self.error = error
        self._end()

    def _end(self) -> None:
        self.is_done = True
        self._lock.release()
        if self.when_done is not None:
            self.when_done(self)

    def refuse(self) -> None:
        """End it without running it."""
        if not self.is_done:
            self.set_error(ConnectionClosed(CLOSED))

    def expire(self) -> None:
        """Its time is over, for calls that have no task which sees that."""

    def cancel(self) -> None:
        """Cancel it."""
        self._is_canceled = True
        if not self.begun:
            self.refuse()
        elif self._scope is not None:
            self._scope.cancel()


def begin(call: Call[T], context: contextvars.Context) -> None:
    """Begin a call that belongs to no client; in the loop's thread."""
    call.begin(context)


class LoopThread:
    """The thread, started when it is first used.

    Attributes:
        forked: Whether this process was forked from the one that the thread runs in.
        is_over: Whether it has ended, by a mistake of this library.
    """

    def __init__(self) -> None:
        self.forked = False
        self.is_over = False
        self._ident: int | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        # Taken once and kept, by the one thread that is to run the loop.
        self._claim = threading.Lock()

    @property
    def is_current(self) -> bool:
        """Whether this very thread runs now."""
        # In a forked process, a new thread may get the same identifier: its stack is where that of this one was.
        return threading.get_ident() == self._ident and not self.forked

    @property
    def can_be_awaited(self) -> bool:
        """Whether this thread may wait for it: it is another one, and of this process."""
        return not (self.forked or self.is_over or self.is_current or sys.is_finalizing())

    def soon(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call a plain function in the thread, in the order of asking; does not wait for it.

        Raises:
            ConnectionClosed: The thread has ended, or is the one of another process.
        """
        if self.forked:
            raise ConnectionClosed(FORKED)
        try:
            (self._token or self._started()).run_sync_soon(function, *args)
        except trio.RunFinishedError:
            raise ConnectionClosed(CLOSED) from None

    def run(
        self, call: Call[T], begin: Callable[[Call[T], contextvars.Context], None] = begin, seconds: float = math.inf
    ) -> T:
        """Begin a call and wait for it.

        Args:
            call: What to run.
            begin: What begins it in the thread.
            seconds: How long to wait before `Call.expire`, for a call that does not look at the time itself.

        Returns:
            What it returned.

        Raises:
            ConnectionClosed: The client is closed.
            BaseException: What it raised. If this thread is interrupted, the call is canceled first.
        """
        if sys.is_finalizing():
            # The thread is not there any more.
            raise ConnectionClosed(CLOSED)
        if self.is_current:
            raise RuntimeError(
                "the thread of the event loop cannot wait for itself: hooks, and functions given as key= and "
                "dead_letter=, may only look at the message"
            )
        try:
            self.soon(begin, call, contextvars.copy_context())
            call.wait(self, seconds)
            if not call.is_done and not self.is_over:
                self.soon(call.expire)
                call.wait(self)
        finally:
            if not call.is_done:
                self._end(call)
        return call.result()

    def _end(self, call: Call[T]) -> None:
        """Cancel a call and wait for its end, but not for long; if it was never handed over, it is not begun."""
        with suppress(ConnectionClosed):
            self.soon(call.cancel)
            call.wait(self, call.patience)

    def _started(self) -> trio.lowlevel.TrioToken:
        """Start the thread, or wait for a start that is under way."""
        if self._token is None and not self.is_over:
            # A Ctrl-C in start() may leave behind a thread that never runs: so each caller starts one that might.
            threading.Thread(target=self._run, name="trio_stomp", daemon=True).start()
        while self._token is None:
            if self.is_over:
                raise ConnectionClosed(CLOSED)
            # Not an Event: see the top of this module. It takes a few milliseconds, once.
            time.sleep(0.0005)
        return self._token

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        self._ident = threading.get_ident()
        try:
            trio.run(self._serve)
        except BaseException:  # noqa: ASYNC103  # a mistake of ours, which no caller can handle
            logger.critical("the thread of the blocking clients has crashed, and they are closed", exc_info=True)
        finally:
            self.is_over = True

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        await trio.sleep_forever()
