"""Turns: a fair lock that wakes waiting tasks in batches.

A lock of trio's or anyio's wakes one task in each pass of the scheduler. If hundreds of tasks send at once, nearly
every frame then costs a whole pass, and a write of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from types import TracebackType
from typing import Final

from trio_stomp.runtime import Waiter, new_waiter

__all__ = ["Turns"]

# How many tasks are woken at a time.
_BATCH: Final = 64


class Turns:
    """A lock for ``async with`` that tasks acquire strictly in the order in which they asked for it.

    Acquiring a free lock and releasing it are not checkpoints. Waiting tasks are woken in batches. Trio runs the tasks
    of a batch either in this order or in reverse. In this order, all of them acquire the lock in one pass, unless one
    of them sleeps while it holds it. In reverse, only the first one does, and the others wait again.

    Attributes:
        taken: Number of tasks that hold the lock or wait for it.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._held = False  # until the first task comes
        # The tasks that wait, in order; those that are woken and have not run since are counted.
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._awake = 0

    async def __aenter__(self) -> None:
        """Wait for this task's turn.

        Cancellation: it leaves the queue.
        """
        if not self.taken:
            self.taken, self._held = 1, True
            return
        self.taken += 1
        waiter = new_waiter()
        self._queue[waiter] = None
        acquired = False
        try:
            while not acquired:
                await self._wait(waiter)
                acquired = not self._held and waiter is next(iter(self._queue))
            self._held = True
        finally:
            del self._queue[waiter]
            if not acquired:
                self.taken -= 1
                self._wake()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the next task go.

        Cancellation: no cancellation point.
        """
        self._held = False
        self.taken -= 1
        self._wake()

    async def _wait(self, waiter: Waiter) -> None:
        """Sleep until this task is woken. If no other task would wake the queue, wake the others first."""
        self._wake(but=waiter)
        try:
            await waiter.wait()
        finally:
            # On asyncio, a task may be woken and canceled in the same pass of the loop.
            self._awake -= waiter.was_woken

    def _wake(self, but: Waiter | None = None) -> None:
        """Wake the first tasks of the queue, unless one holds the lock, or some are awake and will do this."""
        if self._held or self._awake:
            return
        for waiter in islice(self._queue, _BATCH):
            if waiter is not but:
                self._awake += waiter.wake()
