"""What waits to be written: whole frames, in order, bounded in bytes.

Verbs append without awaiting, the writer takes all that has gathered in one piece. So a cancelled verb has sent its
whole frame or nothing, and a torn frame can only come from a torn link.
"""

from __future__ import annotations

import trio

__all__ = ["Outbox"]


class Outbox:
    """The frames that one connection has still to write.

    Args:
        high_water_bytes: Above this, whoever wants to add waits for room.

    Attributes:
        high_water_bytes: That bound.
        octets: How much waits, what the writer has in hand included.
    """

    def __init__(self, high_water_bytes: int) -> None:
        self.high_water_bytes = high_water_bytes
        self._frames: list[bytes] = []
        self._in_hand = 0
        self.octets = 0
        self.closed = False
        self._writer = trio.lowlevel.ParkingLot()
        self._writer_waits = False
        self._waiting_for_room = trio.lowlevel.ParkingLot()
        self._waiting_for_empty = trio.lowlevel.ParkingLot()

    @property
    def is_full(self) -> bool:
        """Whether whoever wants to add must wait."""
        return self.octets > self.high_water_bytes and not self.closed

    @property
    def waiting_for_room(self) -> int:
        """How many tasks wait for room."""
        return len(self._waiting_for_room)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and the writer sleeps, so that anybody else may write whole frames."""
        return self._writer_waits

    def append(self, frame: bytes, *, written: int = 0) -> None:
        """Add a whole frame; never waits, and never refuses one: the bound is kept by waiting before.

        Args:
            frame: The frame.
            written: How many bytes of it are written already, by somebody who found the outbox idle.
        """
        if written:
            if written == len(frame):
                return
            frame = frame[written:]
        self._frames.append(frame)
        self.octets += len(frame)
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
        octets = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
        self._frames.clear()
        self._in_hand = len(octets)
        return octets

    def written(self) -> None:
        """What was taken last is with the operating system."""
        self.octets -= self._in_hand
        self._in_hand = 0
        if not self.is_full:
            self._waiting_for_room.unpark_all()
        if not self.octets:
            self._waiting_for_empty.unpark_all()

    async def wait_empty(self) -> None:
        """Wait until all is written, or the outbox is closed.

        Cancellation: nothing changes.
        """
        while self.octets and not self.closed:
            await self._waiting_for_empty.park()

    def close(self) -> None:
        """The link is gone: whoever waits goes on and finds out."""
        self.closed = True
        self._waiting_for_room.unpark_all()
        self._waiting_for_empty.unpark_all()
