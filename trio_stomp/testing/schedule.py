"""Delayed messages."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Final

import anyio

from trio_stomp.runtime import current_time, move_on_at

__all__ = ["Schedule"]

_NEVER: Final = float("inf")


class Schedule:
    """Actions in the order in which they are due, by the clock of the event loop. Each broker runs one."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._earlier: anyio.Event | None = None

    def add(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action."""
        heapq.heappush(self._due, (current_time() + seconds, next(self._numbers), action))
        if self._earlier is not None:
            self._earlier.set()

    def run_due(self) -> bool:
        """Run what is due; return whether there was anything."""
        done = False
        while self._due and self._due[0][0] <= current_time():
            heapq.heappop(self._due)[2]()
            done = True
        return done

    async def run(self, changed: Callable[[], None]) -> None:
        """Run what is due, until canceled.

        Args:
            changed: Called after each action.

        Cancellation: later actions do not run.
        """
        while True:
            self._earlier = anyio.Event()
            with move_on_at(self._due[0][0] if self._due else _NEVER):
                await self._earlier.wait()
            if self.run_due():
                changed()
