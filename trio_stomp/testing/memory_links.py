"""A pair of connected streams in memory, with bounded buffers.

They wait, as sockets do, when the other side does not read. They work on each event loop; both ends belong to one.
"""

from __future__ import annotations

import operator
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import anyio.lowlevel

from trio_stomp.runtime import ByteStream
from trio_stomp.testing.signals import Signal

__all__ = ["MemoryLink", "open_memory_links"]

# About as much as a socket buffers.
_CAPACITY_BYTES = 128 * 1024


class _Pipe(Signal):
    """One direction: the bytes between a writer and a reader, which wait for changes."""

    __slots__ = ("buffer", "capacity_bytes", "ended", "reader_closed", "writer_closed")

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__()
        self.buffer = bytearray()
        self.capacity_bytes = capacity_bytes
        self.ended = False  # the writer sends no more
        self.writer_closed = False
        self.reader_closed = False


class MemoryLink(ByteStream):
    """One end of a connection in memory, from `open_memory_links`.

    One task at a time may send, and one may receive. Errors are anyio's: BrokenResourceError, ClosedResourceError and
    BusyResourceError.

    Args:
        incoming: What the other end sends.
        outgoing: What this end sends.
    """

    can_send_eof = True

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._sending = False
        self._receiving = False

    @contextmanager
    def _one_sender(self) -> Generator[None]:
        if self._sending:
            raise anyio.BusyResourceError("sending on")
        self._sending = True
        try:
            yield
        finally:
            self._sending = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; wait while the buffer is full.

        Cancellation: an unknown part of them has been sent.
        """
        with self._one_sender():
            await anyio.lowlevel.checkpoint()
            self._check_sendable()
            pipe = self._outgoing
            rest = memoryview(data)
            while rest:
                room = pipe.capacity_bytes - len(pipe.buffer)
                if room <= 0:
                    await pipe.wait()
                    self._check_sendable()
                    continue
                pipe.buffer += rest[:room]
                rest = rest[room:]
                pipe.notify()

    def _check_sendable(self) -> None:
        if self._outgoing.writer_closed or self._outgoing.ended:
            raise anyio.ClosedResourceError("this end of the link is closed")
        if self._outgoing.reader_closed:
            raise anyio.BrokenResourceError("the other end of the link is closed")

    async def wait_writable(self) -> None:
        """Wait until there is room in the buffer.

        Cancellation: nothing has happened.
        """
        with self._one_sender():
            await anyio.lowlevel.checkpoint()
            pipe = self._outgoing
            if pipe.writer_closed:
                raise anyio.ClosedResourceError("this end of the link is closed")
            while len(pipe.buffer) >= pipe.capacity_bytes and not pipe.reader_closed:
                await pipe.wait()
                self._check_sendable()

    # What trio's streams call it, for streams of a program's own around this one.
    wait_send_all_might_not_block = wait_writable

    async def send_eof(self) -> None:
        """Tell the other end that no more bytes follow.

        Cancellation: nothing has happened, or all.
        """
        with self._one_sender():
            await anyio.lowlevel.checkpoint()
            if self._outgoing.writer_closed:
                raise anyio.ClosedResourceError("this end of the link is closed")
            self._outgoing.ended = True
            self._outgoing.notify()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; an empty result is the end of the stream.

        Cancellation: nothing has been received.
        """
        if max_bytes is not None and operator.index(max_bytes) < 1:
            raise ValueError(f"max_bytes must be at least 1, got {max_bytes}")
        if self._receiving:
            raise anyio.BusyResourceError("receiving on")
        self._receiving = True
        try:
            await anyio.lowlevel.checkpoint()
            return await self._receive(max_bytes)
        finally:
            self._receiving = False

    async def _receive(self, max_bytes: int | None) -> bytes:
        pipe = self._incoming
        while True:
            if pipe.reader_closed:
                raise anyio.ClosedResourceError("this end of the link is closed")
            if pipe.buffer:
                data = bytes(pipe.buffer if max_bytes is None else pipe.buffer[:max_bytes])
                del pipe.buffer[: len(data)]
                pipe.notify()
                return data
            if pipe.ended or pipe.writer_closed:
                return b""
            await pipe.wait()

    def close(self) -> None:
        """Close this end. The other one sees the end of the stream, and cannot send any more."""
        self._outgoing.writer_closed = True
        self._incoming.reader_closed = True
        self._incoming.buffer.clear()
        self._outgoing.notify()
        self._incoming.notify()

    async def aclose(self) -> None:
        """Close this end.

        Cancellation: it is closed all the same.
        """
        self.close()
        await anyio.lowlevel.checkpoint()


def open_memory_links(*, capacity_bytes: int = _CAPACITY_BYTES) -> tuple[MemoryLink, MemoryLink]:
    """Create a connection in memory, with back-pressure.

    Args:
        capacity_bytes: How many bytes each direction buffers before `send_all` waits.

    Returns:
        Its two ends, as streams.
    """
    there, back = _Pipe(capacity_bytes), _Pipe(capacity_bytes)
    return MemoryLink(there, back), MemoryLink(back, there)
