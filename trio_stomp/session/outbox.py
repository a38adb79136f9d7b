"""The outbox: whole frames that wait to be written, in order, bounded in bytes.

Verbs append without awaiting, and the writer takes everything at once. So a canceled verb has sent its frame as a whole
or not at all, and a frame can only be torn if the connection breaks.
"""

from __future__ import annotations

import trio

__all__ = ["Outbox"]


class Outbox:
    """The frames that one connection has yet to write.

    Args:
        high_water_bytes: Above this, senders wait for room.

    Attributes:
        high_water_bytes: That bound.
        waiting_bytes: How much waits to be written, including what the writer has taken.
    """

    def __init__(self, high_water_bytes: int) -> None:
        self.high_water_bytes = high_water_bytes
        self._frames: list[bytes] = []
        self._in_hand = 0
        self.waiting_bytes = 0
        self.closed = False
        self._writer = trio.lowlevel.ParkingLot()
        self._writer_waits = False
        self._waiting_for_room = trio.lowlevel.ParkingLot()
        self._waiting_for_empty = trio.lowlevel.ParkingLot()

    @property
    def is_full(self) -> bool:
        """Whether senders must wait."""
        return self.waiting_bytes > self.high_water_bytes and not self.closed

    @property
    def waiting_for_room(self) -> int:
        """Number of tasks that wait for room."""
        return len(self._waiting_for_room)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and the writer sleeps, so that another task may write a whole frame to the stream."""
        return self._writer_waits

    def append(self, frame: bytes, *, written: int = 0) -> None:
        """Add a whole frame. Never waits; senders keep the bound by waiting before.

        Args:
            frame: The frame.
            written: How many bytes of it are written already, by a task that found the outbox idle.
        """
        if written:
            if written == len(frame):
                return
            frame = frame[written:]
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        if self._writer_waits:
            self._writer_waits = False
            self._writer.unpark()

    async def wait_for_room(self) -> None:
        """Wait until the outbox is not full.

        Cancellation: nothing was added.
        """
        while self.is_full:
            await self._waiting_for_room.park()

    async def take(self) -> bytes:
        """Wait for something to write and take all of it.

        Cancellation: nothing was taken.
        """
        while not self._frames:
            self._writer_waits = True
            await self._writer.park()
        data = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
        self._frames.clear()
        self._in_hand = len(data)
        return data

    def written(self) -> None:
        """Count what was taken last as written."""
        self.waiting_bytes -= self._in_hand
        if not self.is_full:
            self._waiting_for_room.unpark_all()
        if not self.waiting_bytes:
            self._waiting_for_empty.unpark_all()

    async def wait_empty(self) -> None:
        """Wait until all is written, or the outbox is closed.

        Cancellation: nothing changes.
        """
        while self.waiting_bytes and not self.closed:
            await self._waiting_for_empty.park()

    def close(self) -> None:
        """Wake all waiting tasks, because the connection is gone."""
        self.closed = True
        self._waiting_for_room.unpark_all()
        self._waiting_for_empty.unpark_all()
