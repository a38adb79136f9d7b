"""TLS over any stream."""

from __future__ import annotations

import ssl

import anyio

from trio_stomp.runtime import ByteStream
from trio_stomp.transport.diagnosis import tls_failure
from trio_stomp.transport.tls_stream import TlsStream
from trio_stomp.transport.urls import Endpoint

__all__ = ["open_tls"]


async def open_tls(stream: ByteStream, endpoint: Endpoint, context: ssl.SSLContext) -> TlsStream:
    """Do the TLS handshake.

    Raises:
        StepFailed: The handshake failed; nothing was sent in the clear.

    Cancellation: the stream is left for the caller to close.
    """
    secured = TlsStream(stream, context, server_hostname=endpoint.server_name)
    try:
        await secured.do_handshake()
    except anyio.BrokenResourceError as error:
        cause = error.__cause__
        raise tls_failure(cause, endpoint, secured.first_bytes) from (cause or error)
    return secured
