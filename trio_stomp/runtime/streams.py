"""Streams of the program as streams of the client."""

from __future__ import annotations

from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel

from trio_stomp.runtime.interface import ByteStream

__all__ = ["AnyioStream"]

_CHUNK_BYTES: Final = 64 * 1024


class AnyioStream(ByteStream):
    """A byte stream of anyio.

    Args:
        stream: The stream.
    """

    __slots__ = ("stream",)

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self.stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        await self.stream.send(bytes(data))

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; empty means the end of the stream."""
        try:
            return await self.stream.receive(_CHUNK_BYTES if max_bytes is None else max_bytes)
        except anyio.EndOfStream:
            return b""

    async def wait_writable(self) -> None:
        """Return at once: anyio cannot tell."""
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the stream."""
        await self.stream.aclose()
