"""TLS over any stream."""

from __future__ import annotations

import ssl

import trio

from trio_stomp.transport.diagnosis import HINT_BYTES, tls_failure
from trio_stomp.transport.urls import Endpoint

__all__ = ["open_tls"]


async def open_tls(stream: trio.abc.Stream, endpoint: Endpoint, context: ssl.SSLContext) -> trio.abc.Stream:
    """Do the TLS handshake.

    Raises:
        StepFailed: The handshake failed; nothing was sent in the clear.

    Cancellation: the stream is left for the caller to close.
    """
    first = _FirstBytes(stream)
    secured: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(first, context, server_hostname=endpoint.server_name)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        raise tls_failure(cause, endpoint, first.seen) from (cause or error)
    # After the handshake, nothing needs the wrapper.
    secured.transport_stream = stream
    return secured


class _FirstBytes(trio.abc.Stream):
    """A stream that remembers the first bytes it received.

    Attributes:
        seen: Those bytes.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.seen = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        self.seen += data[: HINT_BYTES - len(self.seen)]
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()
