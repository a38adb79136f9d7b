"""A stream that misbehaves on demand: the faults of a network, by bytes and seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from trio_stomp.runtime import ByteStream
from trio_stomp.testing.signals import Signal

__all__ = ["FaultyLink", "LinkFaults"]

# A slowed link writes this many times a second, so that time passes between pieces rather than after all of them.
_PIECES_PER_SECOND = 20


@dataclass(slots=True, kw_only=True)
class LinkFaults:
    """The faults of a link. Counts are bytes since its start; None is never.

    Attributes:
        drop_at_sent: The link breaks after this many bytes were sent.
        drop_at_received: The link breaks after this many bytes were received and passed on.
        stall_writing_at: Sending waits after this many bytes were sent.
        stall_reading_at: Receiving waits after this many bytes were received.
        silent_at: After this many bytes were received, later input and all output is dropped.
        bytes_per_second: How fast it sends.
    """

    drop_at_sent: int | None = None
    drop_at_received: int | None = None
    stall_writing_at: int | None = None
    stall_reading_at: int | None = None
    silent_at: int | None = None
    bytes_per_second: float | None = None
    _changed: Signal = field(default_factory=Signal)

    def notify(self) -> None:
        """Wake the tasks that wait, because a fault has changed."""
        self._changed.notify()

    def resume(self) -> None:
        """Let a stalled, silent or slow link continue."""
        self.stall_writing_at = self.stall_reading_at = self.silent_at = self.bytes_per_second = None
        self.notify()

    async def wait_changed(self) -> None:
        """Wait for `notify`."""
        await self._changed.wait()


def _left(limit: int | None, count: int) -> float:
    return float("inf") if limit is None else max(0, limit - count)


class FaultyLink(ByteStream):
    """A stream around another one, with faults.

    Args:
        stream: The stream that carries the bytes.
        faults: Its faults; may be changed at any time, with `LinkFaults.notify`.

    Attributes:
        sent: Bytes sent.
        received: Bytes received.
        can_send_eof: Whether `send_eof` does anything.
    """

    def __init__(self, stream: ByteStream, faults: LinkFaults) -> None:
        self._stream = stream
        self.faults = faults
        self.can_send_eof = stream.can_send_eof
        self.sent = 0
        self.received = 0

    @property
    def silent(self) -> bool:
        """Whether it is half-open, so that input and output are dropped."""
        return self.faults.silent_at is not None and self.received >= self.faults.silent_at

    @property
    def resting(self) -> bool:
        """Whether it does not pass on input, so that silence does not mean that the peer is dead."""
        stall = self.faults.stall_reading_at
        return self.silent or (stall is not None and self.received >= stall)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, with the faults applied.

        Cancellation: an unknown part of them has been sent.
        """
        rest = memoryview(data)
        await anyio.lowlevel.checkpoint_if_cancelled()
        while rest:
            if self.silent:
                await anyio.lowlevel.checkpoint()
                return
            rest = await self._send_piece(rest)

    async def _send_piece(self, rest: memoryview) -> memoryview:
        faults = self.faults
        if not _left(faults.stall_writing_at, self.sent):
            await faults.wait_changed()
            return rest
        allowed = min(_left(faults.stall_writing_at, self.sent), _left(faults.drop_at_sent, self.sent), len(rest))
        rate = faults.bytes_per_second
        if rate is not None:
            allowed = min(allowed, max(1, rate // _PIECES_PER_SECOND))
        piece = rest[: int(allowed)]
        await self._stream.send_all(piece)
        self.sent += len(piece)
        if not _left(faults.drop_at_sent, self.sent):
            await self._break()
        if rate is not None:
            await anyio.sleep(len(piece) / rate)
        return rest[len(piece) :]

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes, with the faults applied.

        Cancellation: nothing has been received, or a fault has held it back and it is lost.
        """
        faults = self.faults
        while True:
            if not _left(faults.drop_at_received, self.received):
                await self._break()
            if not _left(faults.stall_reading_at, self.received):
                await faults.wait_changed()
                continue
            limits = (faults.drop_at_received, faults.stall_reading_at, None if self.silent else faults.silent_at)
            allowed = min(_left(limit, self.received) for limit in limits)
            asked = max_bytes if allowed == float("inf") else int(min(allowed, max_bytes or allowed))
            data = await self._stream.receive_some(asked)
            if not data:
                return b""
            handed_on = await self._hand_on(bytes(data))
            if handed_on:
                return handed_on

    async def _hand_on(self, data: bytes) -> bytes:
        """Return those of these bytes that get through. Faults may have been set meanwhile."""
        faults, before = self.faults, self.received
        self.received += len(data)
        if faults.silent_at is not None and before >= faults.silent_at:
            return b""
        while faults.stall_reading_at is not None and before >= faults.stall_reading_at:
            await faults.wait_changed()
        if faults.drop_at_received is not None:
            return data[: int(_left(faults.drop_at_received, before))]
        return data

    async def _break(self) -> None:
        await anyio.aclose_forcefully(self._stream)
        raise anyio.BrokenResourceError("the link was dropped by fault injection")

    async def wait_writable(self) -> None:
        """Wait until the stream below may take bytes.

        Cancellation: nothing has happened.
        """
        await self._stream.wait_writable()

    async def send_eof(self) -> None:
        """Half-close the stream, if it supports that (TLS does not) and is not silent.

        Cancellation: nothing has happened, or all.
        """
        if self.can_send_eof and not self.silent:
            await self._stream.send_eof()
        else:
            await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation: it is closed forcefully.
        """
        await self._stream.aclose()
