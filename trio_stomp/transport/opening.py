"""Open the stream that a URL asks for: TCP, a Unix socket or a proxy; TLS over it; a WebSocket over that.

The result is always a `ByteStream`; the rest of the library does not depend on the kind. Third-party packages are
imported when they are needed, so an extra that is not used need not be installed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable

import anyio

from trio_stomp.errors import LocalProtocolError
from trio_stomp.runtime import ByteStream, as_byte_stream, connect, socket_stream
from trio_stomp.transport.diagnosis import StepFailed, Steps, tls_failure
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.proxy import Proxy, open_tunnel
from trio_stomp.transport.tcp import Address, failure_of_all, look_up, open_tcp, tcp_failure
from trio_stomp.transport.tls_stream import TlsStream
from trio_stomp.transport.urls import Endpoint, Transport

__all__ = ["has_addresses", "open_transport"]

_Upgrade = Callable[[ByteStream, Endpoint, TransportOptions], Awaitable[ByteStream]]


def has_addresses(endpoint: Endpoint, options: TransportOptions) -> bool:
    """Whether the host is looked up here and may have several addresses.

    Raises:
        LocalProtocolError: It needs an extra that is not installed.
    """
    if endpoint.transport is Transport.WEBSOCKET:
        _websocket()
    return options.open_stream is None and options.proxy is None and endpoint.transport is not Transport.UNIX


async def open_transport(
    endpoint: Endpoint,
    options: TransportOptions,
    steps: Steps,
    *,
    carrier: Callable[[], Awaitable[ByteStream]] | None = None,
) -> ByteStream:
    """Open the stream to one host, up to where STOMP begins.

    Args:
        endpoint: The host.
        options: How to open it.
        steps: Notes how far this has come.
        carrier: Opens what carries TLS and WebSocket. Default: as the URL and the options ask for.

    Raises:
        StepFailed: A step failed.
        LocalProtocolError: It needs an extra that is not installed.

    Cancellation: what was opened is closed.
    """
    upgrade = _websocket() if endpoint.transport is Transport.WEBSOCKET else None
    stream = await (_carrier(endpoint, options, steps) if carrier is None else carrier())
    is_open = False
    try:
        if options.uses_tls(endpoint):
            steps.current = "tls"
            context = options.tls if isinstance(options.tls, ssl.SSLContext) else ssl.create_default_context()
            stream = await _open_tls(stream, endpoint, context)
        if upgrade is not None:
            steps.current = "websocket"
            stream = await upgrade(stream, endpoint, options)
        is_open = True
    finally:
        if not is_open:
            await anyio.aclose_forcefully(stream)
    return stream


async def _carrier(endpoint: Endpoint, options: TransportOptions, steps: Steps) -> ByteStream:
    if options.open_stream is None and endpoint.transport is Transport.UNIX:
        return await _open_unix(endpoint.host)
    try:
        if options.open_stream is not None:
            return as_byte_stream(await options.open_stream(endpoint))
        if options.proxy is not None:
            steps.current = "proxy"
            return await _open_tunnel(options.proxy, endpoint)
    except OSError as error:
        raise tcp_failure(error) from error
    failed: dict[Address, StepFailed] = {}
    opened = await open_tcp(await look_up(endpoint.host, endpoint.port), failed)
    if opened is None:
        raise failure_of_all(failed)
    return opened[1]


async def _open_unix(path: str) -> ByteStream:
    if not hasattr(socket, "AF_UNIX"):
        raise StepFailed("unix", "this platform has no Unix sockets", "use stomp://")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    is_open = False
    try:
        sock.setblocking(False)  # noqa: FBT003  # its only form
        await connect(sock, path)
        stream = await socket_stream(sock)
        is_open = True
    except OSError as error:
        hint = "is a broker listening there, and may this user use its socket?"
        raise StepFailed("unix", error.strerror or str(error), hint) from error
    finally:
        if not is_open:
            sock.close()
    return stream


async def _open_tls(stream: ByteStream, endpoint: Endpoint, context: ssl.SSLContext) -> TlsStream:
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


def _websocket() -> _Upgrade:
    try:
        from trio_stomp.transport.websocket import open_websocket  # noqa: PLC0415  # what it imports is an extra
    except ModuleNotFoundError as error:
        raise LocalProtocolError(
            f"a ws:// or wss:// URL requires {error.name}. Run: pip install 'trio-stomp[websocket]'"
        ) from None
    return open_websocket


async def _open_tunnel(proxy: Proxy, endpoint: Endpoint) -> ByteStream:
    try:
        return await open_tunnel(proxy, endpoint)
    except ModuleNotFoundError as error:
        raise LocalProtocolError(f"proxy= requires {error.name}. Run: pip install 'trio-stomp[proxy]'") from None
