"""Byte streams of anyio as streams of trio."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.abc
import trio

__all__ = ["AnyioStream", "as_trio_stream"]

_CHUNK_BYTES: Final = 64 * 1024


@contextmanager
def _errors_of_trio() -> Generator[None]:
    """Convert anyio's errors to trio's, with the original cause."""
    try:
        yield
    except anyio.BrokenResourceError as error:
        raise trio.BrokenResourceError(str(error) or "the link is broken") from (error.__cause__ or error)
    except anyio.ClosedResourceError as error:
        raise trio.ClosedResourceError("this stream is closed") from error
    except anyio.BusyResourceError as error:
        raise trio.BusyResourceError("another task is using this stream") from error


class AnyioStream(trio.abc.Stream):
    """A byte stream of anyio, on its trio backend, as a stream of trio.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes.

        Cancellation: an unknown part of them has been sent.
        """
        with _errors_of_trio():
            await self._stream.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: anyio cannot tell, and "might" allows that."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; empty means the end of the stream.

        Cancellation: nothing has been received.
        """
        with _errors_of_trio():
            try:
                return await self._stream.receive(_CHUNK_BYTES if max_bytes is None else max_bytes)
            except anyio.EndOfStream:
                return b""

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation: it is closed all the same.
        """
        await self._stream.aclose()


def as_trio_stream(stream: trio.abc.Stream | anyio.abc.ByteStream) -> trio.abc.Stream:
    """A stream from the user, as a stream of trio."""
    return stream if isinstance(stream, trio.abc.Stream) else AnyioStream(stream)
