"""A budget: how many messages, and how many bytes, may be unconfirmed at once, and who waits until there are fewer.

A session has one for all messages that await their RECEIPT, and each publisher has one for its own, its `Window`. A
sender that finds one free (`is_free`) sends at once. Any other one awaits `acquire`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import islice
from types import TracebackType
from typing import Final, TypeVar

import anyio

from trio_stomp.runtime import Waiter, new_wait_queue, new_waiter

__all__ = ["Budget", "Turns"]

T = TypeVar("T")

# Below every count of messages.
_NEVER: Final = -1
# Waking a sender costs more than sending a message, and brokers that confirm one by one would wake it for each. So it
# sleeps until this fraction of the budget is free, but not longer than a moment, since no more RECEIPTs may come.
_GOOD_PART: Final = 4
_MOMENT: Final = 0.002
# How many tasks are woken at a time.
_BATCH: Final = 64


class Turns:
    """A lock for ``async with`` that tasks acquire strictly in the order in which they asked for it.

    A lock of trio's or anyio's wakes one task in each pass of the scheduler. If hundreds of tasks send at once, nearly
    every frame then costs a whole pass, and a write of its own.

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


class Budget:
    """Counts messages between `acquire` and `release`.

    Args:
        max_messages: Maximum number of messages.
        max_bytes: Maximum size of their bodies together. A larger message is sent alone.

    Attributes:
        messages: Number of messages now. Their senders add them here.
        bytes: Size of their bodies.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._waiting = new_wait_queue()
        # The count of messages at which waiting tasks are woken.
        self._wake_at = _NEVER
        # Where senders queue.
        self._order = Turns()
        self.messages = 0
        self.bytes = 0

    def is_free(self, size: int) -> bool:
        """Whether a sender may add one more message at once: it fits, and no other sender waits."""
        # As `has_room`, which is not called: each confirmed message asks this twice.
        messages = self.messages
        return not self._order.taken and (
            not messages or (messages < self._max_messages and self.bytes + size <= self._max_bytes)
        )

    def has_room(self, size: int) -> bool:
        """Whether one more message fits, if no other sender waits."""
        messages = self.messages
        return not messages or (messages < self._max_messages and self.bytes + size <= self._max_bytes)

    async def acquire(self, size: int, then: Callable[[], Awaitable[T]]) -> T:
        """Wait until one more message fits, and then for something else; return the result of that.

        Senders proceed in the order in which they called. None gets past before this returns, and the caller adds its
        message at once.

        Cancellation: nothing changes.
        """
        async with self._order:
            await self._wait_until_it_fits(size)
            return await then()

    def release(self, count: int, size: int) -> None:
        """Remove messages from the count."""
        self.messages -= count
        self.bytes -= size
        if self.messages <= self._wake_at:
            # Once for a whole chunk of input: waiting tasks run when the reader has finished it.
            self._wake_at = _NEVER
            self._waiting.unpark_all()

    async def wait_empty(self) -> None:
        """Wait until there are no messages.

        Cancellation: nothing changes.
        """
        while self.messages:
            await self._wait_for(0)

    async def _wait_until_it_fits(self, size: int) -> None:
        """Wait until one more message fits, and a moment longer for more of them to go."""
        if self.has_room(size):
            return
        while not self.has_room(size):
            # The next message that goes wakes this task, however few are left then.
            await self._wait_for(self.messages)
        enough = self._max_messages - self._max_messages // _GOOD_PART
        if self.messages > enough:
            with anyio.move_on_after(_MOMENT):
                await self._wait_for(enough)

    async def _wait_for(self, messages: int) -> None:
        self._wake_at = max(self._wake_at, messages)
        await self._waiting.park()
