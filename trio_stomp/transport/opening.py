"""What carries the octets of a connection, chosen by the URL: TCP, a Unix socket, a proxy; TLS over it; a WebSocket.

All of them come out as a `trio.abc.Stream`, and nothing behind this module knows which one it is. Third-party packages
are imported when they are needed and not before, so that whoever does not use them need not have them.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable

import trio

from trio_stomp.errors import LocalProtocolError
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.proxies import Proxy
from trio_stomp.transport.steps import StepFailed, Steps, reasons_of
from trio_stomp.transport.tls import open_tls
from trio_stomp.transport.urls import Endpoint, Transport

__all__ = ["open_transport"]

_Upgrade = Callable[[trio.abc.Stream, Endpoint, TransportOptions], Awaitable[trio.abc.Stream]]


async def open_transport(endpoint: Endpoint, options: TransportOptions, steps: Steps) -> trio.abc.Stream:
    """Open the stream to one host, up to where STOMP begins.

    Args:
        endpoint: The host.
        options: How to open it.
        steps: Where it is noted how far this has come.

    Raises:
        StepFailed: A step failed.
        LocalProtocolError: An extra is needed that is not installed.

    Cancellation: what was opened is closed.
    """
    upgrade = _websocket() if endpoint.transport is Transport.WEBSOCKET else None
    stream = await _carrier(endpoint, options, steps)
    is_open = False
    try:
        # TLS that was asked for is never given up: there is no way on from here without it.
        if endpoint.tls or options.tls:
            steps.current = "tls"
            context = options.tls if isinstance(options.tls, ssl.SSLContext) else ssl.create_default_context()
            stream = await open_tls(stream, endpoint, context)
        if upgrade is not None:
            steps.current = "websocket"
            stream = await upgrade(stream, endpoint, options)
        is_open = True
    finally:
        if not is_open:
            await trio.aclose_forcefully(stream)
    return stream


async def _carrier(endpoint: Endpoint, options: TransportOptions, steps: Steps) -> trio.abc.Stream:
    if options.open_stream is None and endpoint.transport is Transport.UNIX:
        return await _open_unix(endpoint.host)
    try:
        if options.open_stream is not None:
            return await options.open_stream(endpoint)
        if options.proxy is not None:
            steps.current = "proxy"
            return await _tunnel()(options.proxy, endpoint)
        return await trio.open_tcp_stream(endpoint.host, endpoint.port)
    except (socket.gaierror, UnicodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no legal name"
        raise StepFailed("dns", f"host name {endpoint.host!r} cannot be looked up: {why}") from error
    except OSError as error:
        raise StepFailed("tcp", f"{reasons_of(error)}; is a broker listening there?") from error


async def _open_unix(path: str) -> trio.abc.Stream:
    try:
        return await trio.open_unix_socket(path)
    except OSError as error:
        reason = f"{error.strerror or error}; is a broker listening there, and may this user use its socket?"
        raise StepFailed("unix", reason) from error
    except RuntimeError as error:
        raise StepFailed("unix", "this platform has no Unix sockets; use stomp://") from error


def _websocket() -> _Upgrade:
    try:
        from trio_stomp.transport.websocket import open_websocket  # noqa: PLC0415  # what it imports is an extra
    except ModuleNotFoundError as error:
        raise _missing("ws:// and wss:// URLs", "websocket", error) from None
    return open_websocket


def _tunnel() -> Callable[[Proxy, Endpoint], Awaitable[trio.abc.Stream]]:
    try:
        from trio_stomp.transport.tunnels import open_tunnel  # noqa: PLC0415  # what it imports is an extra
    except ModuleNotFoundError as error:
        raise _missing("proxy=", "proxy", error) from None
    return open_tunnel


def _missing(what: str, extra: str, error: ModuleNotFoundError) -> LocalProtocolError:
    return LocalProtocolError(f"{what} cannot do without {error.name!r}: pip install 'trio-stomp[{extra}]'")
