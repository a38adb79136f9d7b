"""A link made of nothing: two ends in memory, and every way in which a link can fail, on trio and on asyncio.

A `Wire` has two ends, which are streams, and two lanes, one for each direction. A lane records every byte, holds no
more than its capacity (so that a peer that does not read stops the sender, as TCP does), can be held (bytes stay under
way) and can be cut after its n-th byte. Nothing in here knows STOMP.
"""

from __future__ import annotations

import enum

import anyio.lowlevel

from tests.kit.streams import Changes, KitBrokenError, KitBusyError, KitClosedError, KitStream

__all__ = ["Ending", "Lane", "Wire", "WireEnd"]

# What the kernel may keep of a link in one direction; small enough to be filled by a test.
_CAPACITY_BYTES = 64 * 1024


class Ending(enum.Enum):
    """How a cut link looks to its two ends. What had been carried before can still be read in both.

    EOF: reading gives the end; what is written vanishes, as it does until the other kernel answers. RESET: reading
    and writing break.
    """

    EOF = "eof"
    RESET = "reset"


class Lane:
    """One direction of a wire.

    Attributes:
        data: All that the sender has handed over, the lost part included.
        carried: How many of them were put through to the receiver's side.
        capacity_bytes: How many may be under way.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._under_way = bytearray()
        self._held = False
        self._cut_after: int | None = None
        self._ending = Ending.EOF
        self._changed = Changes()
        self._sending = False
        self.data = bytearray()
        self.carried = 0
        self.capacity_bytes = _CAPACITY_BYTES

    # --- faults ---------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Let nothing arrive: the receiver does not read, or the bytes are stuck on their way."""
        self._held = True

    def release(self) -> None:
        """End `hold`."""
        self._held = False
        self._changed.tell()

    def cut_after(self, count: int, ending: Ending) -> None:
        """Cut the whole link once this lane has put through so many bytes in all."""
        self._cut_after = count
        self._ending = ending
        if count <= self.carried:
            self._wire.cut(ending)

    def wake(self) -> None:
        """Something has changed for those who wait at this lane."""
        self._changed.tell()

    # --- the two sides --------------------------------------------------------------------------------------------

    async def send(self, sender: WireEnd, data: bytes | bytearray | memoryview) -> None:
        """Carry all of `data`, waiting for room.

        Cancellation: any part of it may have been carried, as with every stream.
        """
        if self._sending:
            raise KitBusyError
        self._sending = True
        try:
            await anyio.lowlevel.checkpoint()
            rest = bytes(data)
            while True:
                sender.check_open()
                if self._wire.ending is Ending.RESET:
                    msg = "the link was reset"
                    raise KitBrokenError(msg)
                rest = rest[self.put(rest) :]
                if not rest:
                    return
                await self._changed.wait()
        finally:
            self._sending = False

    def put(self, data: bytes) -> int:
        """Carry what there is room for, at once; returns how many bytes."""
        room = len(data) if self._wire.ending else self.capacity_bytes - len(self._under_way)
        self._carry(data[:room])
        return min(room, len(data))

    def _carry(self, piece: bytes) -> None:
        self.data += piece
        if self._wire.ending is not None:
            return
        if self._cut_after is not None:
            piece = piece[: self._cut_after - self.carried]
        self._under_way += piece
        self.carried += len(piece)
        if piece:
            self._changed.tell()
        if self.carried == self._cut_after:
            self._wire.cut(self._ending)

    async def receive(self, receiver: WireEnd, max_bytes: int) -> bytes:
        """Take what has come.

        Cancellation: nothing was taken.
        """
        await anyio.lowlevel.checkpoint()
        while self._held or not self._under_way:
            receiver.check_open()
            if not self._held and self._wire.ending is Ending.RESET:
                msg = "the link was reset"
                raise KitBrokenError(msg)
            if not self._held and self._wire.ending is Ending.EOF:
                return b""
            await self._changed.wait()
        receiver.check_open()
        taken = bytes(self._under_way[:max_bytes])
        del self._under_way[:max_bytes]
        self._changed.tell()
        return taken


class Wire:
    """A link between a client and a server.

    Attributes:
        to_server: The lane from the client to the server.
        to_client: The lane from the server to the client.
        client: The client's end.
        server: The server's end.
        ending: How the link was cut, or None.
    """

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.to_server = Lane(self)
        self.to_client = Lane(self)
        self.client = WireEnd(self, sends=self.to_server, receives=self.to_client)
        self.server = WireEnd(self, sends=self.to_client, receives=self.to_server)

    def cut(self, ending: Ending) -> None:
        """Cut the link now, in both directions."""
        if self.ending is None:
            self.ending = ending
        self.to_server.wake()
        self.to_client.wake()


class WireEnd(KitStream):
    """One end of a wire; closing it cuts the link with EOF, as closing a socket does."""

    def __init__(self, wire: Wire, *, sends: Lane, receives: Lane) -> None:
        self._wire = wire
        self._sends = sends
        self._receives = receives
        self.closed = False

    def check_open(self) -> None:
        """Raise when this end was closed by its own side."""
        if self.closed:
            msg = "this end of the wire was closed by its own side"
            raise KitClosedError(msg)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.check_open()
        await self._sends.send(self, data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self.check_open()
        return await self._receives.receive(self, max_bytes or _CAPACITY_BYTES)

    async def aclose(self) -> None:
        self.closed = True
        self._wire.cut(Ending.EOF)
        await anyio.lowlevel.checkpoint()
