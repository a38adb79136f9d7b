"""The ordered queue of a client: sends and acknowledgments that need no answer.

A crossing between threads costs ten times what a send costs. So such work is put into a queue, and one task does it in
the order of the calls, woken once for all that has gathered.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Final

import trio

from trio_stomp.blocking.thread import LoopThread
from trio_stomp.client import Settlement

__all__ = ["Action", "InContext", "Posted", "Queue"]

Action = Callable[[], Awaitable[object]]

# As much as the outbox of a connection holds by default.
_HIGH_WATER_BYTES: Final = 1024 * 1024


class Posted:
    """Something that was added to the queue.

    Args:
        action: What to do.
        size: How many bytes it holds.
        failures: Where its failure is kept.

    Attributes:
        done: Whether it was done, well or not.
        settles: The settlement that it gives a message.
    """

    __slots__ = ("action", "done", "failures", "settles", "size")

    def __init__(self, action: Action, size: int, failures: list[Exception]) -> None:
        self.action = action
        self.size = size
        self.failures = failures
        self.done = False
        self.settles: Settlement | None = None


class Queue:
    """The queue of a client, and the task that empties it. Any thread may add.

    The task gives each of its sleeps a number. After adding something, a caller wakes it unless that was
    done for this sleep, and then notes the number. If Ctrl-C comes in between, the next caller wakes it once more.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._lock = threading.Lock()
        self._waiting: deque[Posted] = deque()
        self._in_hand = 0
        self._done = 0
        self._size = 0
        self._sleep = 0
        self._rung = 0
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
        """Add something; does not wait."""
        with self._lock:
            self._waiting.append(posted)
            self._size += posted.size
        sleep = self._sleep
        if self._rung != sleep:
            self._thread.soon(self._bell.unpark)
            self._rung = sleep

    # --- in the loop's thread -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is added, until canceled.

        Cancellation: what was not begun is not done.
        """
        waiting = self._waiting
        while True:  # noqa: ASYNC913  # each round waits for the bell, or does something
            # Before the last look at the queue: what is added after it sees the new number, and rings.
            self._sleep += 1
            if not waiting:
                await self._bell.park()
            while waiting:
                self._in_hand = 1
                posted = waiting.popleft()
                try:
                    await posted.action()
                except Exception as error:  # noqa: BLE001  # raised by the next call of its thread
                    posted.failures.append(error)
                posted.done = True
                self._in_hand = 0
                self._done += 1
                with self._lock:
                    # A Ctrl-C in `add` may have left the size out.
                    self._size = self._size - posted.size if waiting else 0
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


class InContext:
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
