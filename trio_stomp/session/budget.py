"""A budget: how many messages, and how many bytes, may be unconfirmed at once, and who waits until there are fewer.

A session has one for all messages that await their RECEIPT, and each publisher has one for its own, its `Window`. A
sender that finds one free (`is_free`) sends at once. Any other one awaits `acquire`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from trio_stomp.runtime import new_wait_queue
from trio_stomp.session.turns import Turns

__all__ = ["Budget"]

T = TypeVar("T")

# Below every count of messages.
_NEVER: Final = -1
# Waking a sender costs more than sending a message, and brokers that confirm one by one would wake it for each. So it
# sleeps until this fraction of the budget is free, but not longer than a moment, since no more RECEIPTs may come.
_GOOD_PART: Final = 4
_MOMENT: Final = 0.002


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
        return not self._order.taken and self.has_room(size)

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
