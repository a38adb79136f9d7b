"""Work for the trio thread that is done in order, without waiting for it: plain sends and acknowledgments.

A crossing between threads costs ten times what a send costs. So such work is put into a queue, and one task does it in
the order of the calls, woken once for all that has gathered. The queue is bounded in bytes.

Each object that can fail without being asked (a client, a transaction, a publisher) has a lane of its own, a branch of
the lane of its client. What fails there is kept, and raised by its next call or when it is left.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Final, TypeVar

import trio

from trio_stomp.bridge.calls import Bridge
from trio_stomp.bridge.trio_thread import stop_daemon_at_exit
from trio_stomp.errors import StompError

__all__ = ["Lane", "Posted"]

T = TypeVar("T")
Action = Callable[[], Awaitable[object]]

# As much as the outbox of a connection holds by default.
_HIGH_WATER_BYTES: Final = 1024 * 1024
# A block that is left by an exception, or by Ctrl-C, waits this many seconds for what it has sent and acknowledged.
_HASTE: Final = 1.0
# What an action weighs besides its body: about the size of an ACK, and of its objects.
_ACTION_BYTES: Final = 256


class Posted:
    """Something that was added to a lane.

    Args:
        action: What to do.
        size: How many bytes it holds.
        errors: Where its failure is kept.

    Attributes:
        done: Whether it was done, well or not.
    """

    __slots__ = ("action", "done", "errors", "size")

    def __init__(self, action: Action, size: int, errors: list[StompError]) -> None:
        self.action = action
        self.size = size
        self.errors = errors
        self.done = False


class _Queue:
    """The queue of a client, and the task that empties it. Any thread may add."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._lock = threading.Lock()
        self._waiting: deque[Posted] = deque()
        self._in_hand = 0
        self._done = 0
        self._size = 0
        self._asleep = True
        self._bell = trio.lowlevel.ParkingLot()
        self._progress = trio.lowlevel.ParkingLot()

    @property
    def is_empty(self) -> bool:
        """Whether all that was added is done."""
        return not self._waiting and not self._in_hand

    def has_room(self, size: int) -> bool:
        """Whether something may be added; a single large thing always may."""
        return self._size + size <= _HIGH_WATER_BYTES or self.is_empty

    def add(self, posted: Posted) -> None:
        """Add something; does not wait.

        Raises:
            ConnectionClosed: The client is closed.
        """
        self.bridge.check()
        with self._lock:
            self._size += posted.size
            self._waiting.append(posted)
        if self._asleep:
            # A Ctrl-C right here loses the wake-up. Every call makes up for it.
            self._asleep = False
            self.bridge.soon(self._bell.unpark)

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is added, until canceled.

        Cancellation: what was not begun is not done.
        """
        waiting = self._waiting
        while True:  # noqa: ASYNC913  # each round waits for the bell, or does something
            self._asleep = True
            if not waiting:
                await self._bell.park()
            self._asleep = False
            while waiting:
                self._in_hand = 1
                posted = waiting.popleft()
                try:
                    await posted.action()
                except StompError as error:
                    posted.errors.append(error)
                posted.done = True
                self._in_hand = 0
                self._done += 1
                with self._lock:
                    self._size -= posted.size
                if self._progress:
                    self._progress.unpark_all()

    async def wait_done(self) -> None:
        """Wait until all that was added so far is done.

        Cancellation: nothing changes.
        """
        newest = self._done + self._in_hand + len(self._waiting)
        self._bell.unpark()
        while self._done < newest:
            await self._progress.park()

    async def wait_room(self) -> None:
        """Wait until half of the queue is free, so that not each of the next calls has to wait again.

        Cancellation: nothing changes.
        """
        self._bell.unpark()
        while self._size > _HIGH_WATER_BYTES // 2 and not self.is_empty:
            await self._progress.park()


class Lane:
    """A way into the trio thread for one object, in order, on the queue of its client.

    Args:
        bridge: The bridge of the client.
        keeps_context: Whether what is added sees the context variables of its caller. Hooks need them, for traces.
        queue: The queue of another lane, to be shared; see `branch`.
    """

    def __init__(self, bridge: Bridge, *, keeps_context: bool = False, queue: _Queue | None = None) -> None:
        self.bridge = bridge
        self._keeps_context = keeps_context
        self._errors: list[StompError] = []
        if queue is None:
            queue = _Queue(bridge)
            bridge.serve(queue.run)
        self._queue = queue

    def branch(self) -> Lane:
        """Return a lane on the same queue, with failures of its own."""
        return Lane(self.bridge, keeps_context=self._keeps_context, queue=self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether all that was added is done."""
        return self._queue.is_empty

    def post(self, action: Action, size: int = 0) -> Posted:
        """Have something done after everything that was added before; waits only while too much waits already.

        Args:
            action: An async function, called in the trio thread.
            size: How many bytes it holds.

        Returns:
            What tells whether it is done.

        Raises:
            StompError: Something that was added before has failed.
            ConnectionClosed: The client is closed.
        """
        if not self._queue.has_room(size + _ACTION_BYTES):
            self.bridge.call(self._queue.wait_room)
        if self._errors:
            self.raise_failure()
        if self._keeps_context:
            action = partial(_InContext, contextvars.copy_context(), action)
        posted = Posted(action, size + _ACTION_BYTES, self._errors)
        self._queue.add(posted)
        return posted

    def in_turn(
        self, function: Callable[[], Awaitable[T]], *, raises_earlier: bool = True
    ) -> Callable[[], Awaitable[T]]:
        """Return a function that does something after all that was added before; to be run by `Bridge`.

        Args:
            function: What to do.
            raises_earlier: Raise what was added before and has failed, instead of doing it.
        """

        async def run() -> T:
            if not self._queue.is_empty:
                await self._queue.wait_done()
            error = self.take_failure() if raises_earlier else None
            if error is not None:
                raise error
            return await function()

        return run

    def raise_failure(self) -> None:
        """Raise what was added and has failed, once.

        Raises:
            StompError: That.
        """
        error = self.take_failure()
        if error is not None:
            stop_daemon_at_exit()
            raise error

    def take_failure(self) -> StompError | None:
        """Return what was added and has failed first, once."""
        if not self._errors:
            return None
        error = self._errors[0]
        self._errors.clear()
        error.add_note("an earlier call that did not wait, such as send() or ack(), has failed")
        return error

    def add_failure_to(self, error: Exception) -> None:
        """Add what was added and has failed to the exception of a block, as a note."""
        failure = self.take_failure()
        if failure is not None and failure is not error:
            error.add_note(f"besides, an earlier call that did not wait has failed: {failure}")

    def call(self, function: Callable[[], Awaitable[T]], *, raises_earlier: bool = True) -> T:
        """Do something after all that was added before, and wait for it; see `in_turn`.

        Raises:
            StompError: What was added before has failed, or this has.
        """
        return self.bridge.call(self.in_turn(function, raises_earlier=raises_earlier))

    def catch_up(self) -> None:
        """Wait until all that was added is done.

        Raises:
            StompError: Something of it has failed.
        """
        if not self.is_empty:
            self.bridge.call(self.wait_done)
        self.raise_failure()

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def wait_done(self) -> None:
        """Wait until all that was added so far is done.

        Cancellation: nothing changes.
        """
        await self._queue.wait_done()

    async def wait_shortly(self) -> None:
        """`wait_done`, but not for long.

        Cancellation: nothing changes.
        """
        with trio.move_on_after(_HASTE):
            await self._queue.wait_done()


class _InContext:
    """An awaitable that runs each step of an async function in a context.

    A task has one context, and the task of the queue works for all callers.
    """

    def __init__(self, context: contextvars.Context, function: Action) -> None:
        self._context = context
        self._function = function

    def __await__(self) -> Generator[object, object, None]:
        run = self._context.run
        steps: Generator[object, object, object] = run(lambda: self._function().__await__())
        step: Callable[[], object] = partial(steps.send, None)
        while True:
            try:
                wanted = run(step)
            except StopIteration:
                return
            try:
                step = partial(steps.send, (yield wanted))
            except BaseException as error:  # noqa: BLE001, ASYNC103  # thrown on, into the action
                step = partial(steps.throw, error)
