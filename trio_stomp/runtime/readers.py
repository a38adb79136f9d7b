"""Turns of the readers of all connections of a program.

Trio runs all tasks that are ready before any task that these wake. So if a thousand connections have input, a thousand
chunks would be decoded before the first consumer runs. All these messages are in memory at once, and Python's garbage
collector visits them again and again. Therefore readers wait as soon as a portion was read, until its consumers ran.

Gain: `make bench ARGS="--only connections"`.
"""

from __future__ import annotations

from typing import Final

import trio

__all__ = ["Readers"]

# One full read. CPython's garbage collector starts after 700 new objects, and 64 KiB of short messages make fewer.
_PORTION_BYTES: Final = 64 * 1024


class Readers:
    """The readers of one `trio.run`."""

    def __init__(self) -> None:
        self._portion = 0
        self._first: object = None
        self._waiting = trio.lowlevel.ParkingLot()

    @classmethod
    def of_this_run(cls) -> Readers:
        """Return those of the current `trio.run`."""
        try:
            return _READERS.get()
        except LookupError:
            readers = cls()
            _READERS.set(readers)
            return readers

    def may_read(self, reader: object) -> bool:
        """Whether a reader may read now. If not, await `turn` first."""
        if self._portion >= _PORTION_BYTES:
            if self._waiting or reader is not self._first:
                return False
            # It has waited for input since it began this portion, so consumers have run.
            self._portion = 0
        return True

    def count(self, reader: object, size: int) -> None:
        """Count what a reader has read."""
        if not self._portion:
            self._first = reader
        self._portion += size

    async def turn(self) -> None:
        """Wait until consumers have run, and the readers that came earlier.

        Cancellation: it no longer waits.
        """
        if not self._waiting:
            trio.lowlevel.spawn_system_task(self._admit)
        await self._waiting.park()

    async def _admit(self) -> None:
        """Let waiting readers go on: one after each full portion, and more as long as they read less than that."""
        await trio.lowlevel.checkpoint()
        count = 1
        while self._waiting:
            count = 1 if self._portion >= _PORTION_BYTES else 2 * count
            self._portion = 0
            self._waiting.unpark(count=count)
            # The readers run in the next pass of the scheduler, and their consumers in the one after it.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()


_READERS: Final = trio.lowlevel.RunVar[Readers]("trio_stomp.readers")
