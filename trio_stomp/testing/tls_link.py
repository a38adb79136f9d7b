"""TLS, the broker's side."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import anyio.abc
from anyio.streams.tls import TLSAttribute, TLSStream

from trio_stomp.runtime import ByteStream

__all__ = ["TlsLink", "is_tls"]

_CHUNK_BYTES = 64 * 1024


class TlsLink(ByteStream):
    """The server's side of TLS. The first call does the handshake, so that the time limits of the broker include it.

    Args:
        transport: What carries it.
        context: TLS context of the server.
    """

    def __init__(self, transport: ByteStream, context: ssl.SSLContext) -> None:
        self._transport = transport
        self._context = context
        self._tls: TLSStream | None = None
        self._opening = anyio.Lock()

    async def _open(self) -> TLSStream:
        """Do the handshake, once."""
        async with self._opening:
            if self._tls is None:
                self._tls = await TLSStream.wrap(
                    _AnyioStream(self._transport), server_side=True, ssl_context=self._context
                )
        return self._tls

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes.

        Cancellation: an unknown part of them has been sent, and no more can be sent.
        """
        with _as_broken():
            tls = self._tls or await self._open()
            await tls.send(bytes(data))

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; an empty result is the end, after a closing handshake.

        Cancellation: nothing has been received.
        """
        with _as_broken():
            tls = self._tls or await self._open()
            try:
                return await tls.receive(_CHUNK_BYTES if max_bytes is None else max_bytes)
            except anyio.EndOfStream:
                return b""

    async def wait_writable(self) -> None:
        """Wait until the stream below may take bytes.

        Cancellation: nothing has happened.
        """
        await self._transport.wait_writable()

    async def aclose(self) -> None:
        """Close the stream, with a closing handshake if there was one to open it.

        Cancellation: it is closed at once.
        """
        if self._tls is None:
            await self._transport.aclose()
            return
        with _as_broken():
            await self._tls.aclose()


@contextmanager
def _as_broken() -> Generator[None]:
    """Raise what the `ssl` module and the system raise as anyio's error."""
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise anyio.BrokenResourceError(str(error)) from error


class _AnyioStream(anyio.abc.ByteStream):
    """A stream of ours, as anyio's TLS takes it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def send(self, item: bytes) -> None:
        """Send bytes.

        Cancellation: an unknown part of them has been sent.
        """
        await self._stream.send_all(item)

    async def receive(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        """Receive at least one byte.

        Raises:
            EndOfStream: There are no more.

        Cancellation: nothing has been received.
        """
        data = await self._stream.receive_some(max_bytes)
        if not data:
            raise anyio.EndOfStream
        return bytes(data)

    async def send_eof(self) -> None:
        """Send the end.

        Cancellation: nothing has happened, or all.
        """
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation: it is closed all the same.
        """
        await self._stream.aclose()


def is_tls(stream: object) -> bool:
    """Whether a stream is TLS: the broker's own, anyio's or trio's."""
    if isinstance(stream, anyio.abc.ByteStream):
        return stream.extra(TLSAttribute.ssl_object, None) is not None  # noqa: S610  # not of Django
    # Trio's SSLStream, without importing trio.
    return isinstance(stream, TlsLink) or hasattr(stream, "do_handshake")
