"""What the streams of the kit are made of, on trio and on asyncio."""

from __future__ import annotations

from typing import Protocol

import anyio
import anyio.lowlevel
import trio

from trio_stomp import runtime

__all__ = ["BROKEN", "ByteStream", "Changes", "KitBrokenError", "KitBusyError", "KitClosedError", "KitStream", "abort"]


class ByteStream(Protocol):
    """What the kit asks of a stream: trio's have it, those of the kit, and those of the library."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray: ...

    async def send_all(self, data: bytes | bytearray | memoryview) -> None: ...

    async def aclose(self) -> None: ...


class KitStream(runtime.ByteStream, trio.abc.Stream):
    """A stream for the library, and for tests that know trio's."""

    async def wait_send_all_might_not_block(self) -> None:
        await anyio.lowlevel.checkpoint()


# Whichever of the two a test or the library looks for.


class KitBrokenError(anyio.BrokenResourceError, trio.BrokenResourceError):
    """The link is gone."""


class KitClosedError(anyio.ClosedResourceError, trio.ClosedResourceError):
    """This end was closed by its own side."""


class KitBusyError(anyio.BusyResourceError, trio.BusyResourceError):
    """Two tasks use one end at once."""

    def __init__(self) -> None:
        super().__init__("writing to")


# What a stream of either kind raises when it has ended.
BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, trio.BrokenResourceError, trio.ClosedResourceError)


class Changes:
    """Something that may change, and those who wait for it."""

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    async def wait(self) -> None:
        """Wait for the next change."""
        if self._next is None:
            self._next = anyio.Event()
        await self._next.wait()

    def tell(self) -> None:
        """It has changed."""
        change, self._next = self._next, None
        if change is not None:
            change.set()


async def abort(stream: ByteStream) -> None:
    """Close a stream without waiting for anything."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()
