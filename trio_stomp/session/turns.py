"""Tasks that go one at a time, in the order in which they came."""

from __future__ import annotations

from types import TracebackType

import trio

__all__ = ["Turns"]


class Turns:
    """A lock for ``async with`` that is fair, and that tells how many tasks hold it or wait for it.

    Trio wakes tasks in no particular order, so tasks that wait for the same room must queue, or they would overtake
    each other. A free lock is taken without a checkpoint, which a `trio.StrictFIFOLock` cannot do by itself, and is
    released without one.

    Attributes:
        taken: How many tasks hold it or wait for it.
    """

    def __init__(self) -> None:
        self._lock = trio.StrictFIFOLock()
        self.taken = 0

    async def __aenter__(self) -> None:
        """Wait for this task's turn.

        Cancellation: its place in line is given up.
        """
        self.taken += 1
        if not self._lock.locked():
            self._lock.acquire_nowait()
            return
        acquired = False
        try:
            await self._lock.acquire()
            acquired = True
        finally:
            self.taken -= not acquired

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the next task go.

        Cancellation: no cancellation point.
        """
        self.taken -= 1
        self._lock.release()
