"""Through a proxy to a broker: SOCKS5 by python-socks, HTTP CONNECT on h11. Imported only where `proxy=` is used.

The name of the broker is looked up at the proxy, which may know names that this machine does not. TLS and WebSocket
go through the tunnel and end at the broker: the proxy sees octets.

HTTP CONNECT is not left to python-socks (3.2.1 was tried): it takes one read for the whole answer of the proxy, and
where an answer comes in two pieces, hands the second one to the broker's client.
"""

from __future__ import annotations

from base64 import b64encode
from http import HTTPStatus
from math import inf
from typing import Final

import h11
import trio
from python_socks import ProxyConnectionError, ProxyError, ProxyType
from python_socks.async_.trio.v2 import Proxy as SocksProxy

from trio_stomp.transport.proxies import Proxy
from trio_stomp.transport.steps import StepFailed, reasons_of
from trio_stomp.transport.urls import Endpoint

__all__ = ["open_tunnel"]

_CHUNK_OCTETS: Final = 16 * 1024

# How a SOCKS5 proxy, in python-socks' words, says that it does not know the user (RFC 1928 and 1929).
_SOCKS_REFUSALS: Final = ("authentication", "acceptable")


async def open_tunnel(proxy: Proxy, endpoint: Endpoint) -> trio.abc.Stream:
    """Connect to a host through a proxy.

    Raises:
        StepFailed: The proxy cannot be reached, refuses, or cannot reach the host.

    Cancellation: what was opened is closed.
    """
    if proxy.scheme == "socks5":
        return await _open_socks(proxy, endpoint)
    stream = await _reach(proxy)
    is_open = False
    try:
        await _connect(stream, proxy, endpoint)
        is_open = True
    except trio.BrokenResourceError as error:
        raise StepFailed("proxy", f"the proxy {proxy} broke the link: {error.__cause__ or error}") from error
    finally:
        if not is_open:
            await trio.aclose_forcefully(stream)
    return stream


async def _open_socks(proxy: Proxy, endpoint: Endpoint) -> trio.abc.Stream:
    through = SocksProxy(ProxyType.SOCKS5, proxy.host, proxy.port, proxy.login, proxy.passcode or "", rdns=True)
    try:
        # The deadline is the caller's, for all steps together.
        opened = await through.connect(endpoint.ascii_host, endpoint.port, timeout=inf)
    except ProxyConnectionError as error:
        cause = error.__cause__
        raise _unreachable(proxy, cause if isinstance(cause, OSError) else error) from error
    except ProxyError as error:
        refused = any(word in str(error).lower() for word in _SOCKS_REFUSALS)
        raise _denied(proxy, endpoint, str(error), refused=refused) from error
    except trio.BrokenResourceError as error:
        raise StepFailed("proxy", f"the proxy {proxy} broke the link: {error.__cause__ or error}") from error
    return opened.trio_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # SSLStream is generic


async def _reach(proxy: Proxy) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(proxy.host, proxy.port)
    except OSError as error:
        raise _unreachable(proxy, error) from error


def _unreachable(proxy: Proxy, error: OSError) -> StepFailed:
    return StepFailed("proxy", f"the proxy {proxy} cannot be reached: {reasons_of(error)}")


def _denied(proxy: Proxy, endpoint: Endpoint, why: str, *, refused: bool) -> StepFailed:
    hint = "; are user and passcode of proxy= right?" if refused else ""
    reason = f"the proxy {proxy} does not connect to {endpoint.authority}: {why}{hint}"
    return StepFailed("proxy", reason, refused=refused)


async def _connect(stream: trio.abc.Stream, proxy: Proxy, endpoint: Endpoint) -> None:
    """Ask an HTTP proxy for a tunnel. Spec: RFC 9110, 9.3.6 CONNECT."""
    headers = [("Host", endpoint.ascii_authority)]
    if proxy.login is not None:
        credentials = b64encode(f"{proxy.login}:{proxy.passcode or ''}".encode()).decode()
        headers.append(("Proxy-Authorization", f"Basic {credentials}"))
    http = h11.Connection(h11.CLIENT)
    request = h11.Request(method="CONNECT", target=endpoint.ascii_authority, headers=headers)
    await stream.send_all(http.send(request))
    try:
        status = await _status(stream, http)
    except h11.RemoteProtocolError as error:
        raise StepFailed("proxy", f"the proxy {proxy} does not speak HTTP: {error}") from error
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "no known status"
        refused = status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        raise _denied(proxy, endpoint, f"{status} {phrase}", refused=refused)
    if http.trailing_data[0]:
        # STOMP, TLS and WebSocket have in common that the client speaks first.
        reason = f"behind the proxy {proxy}, something spoke before it was spoken to; is {endpoint} a STOMP port?"
        raise StepFailed("proxy", reason)


async def _status(stream: trio.abc.Stream, http: h11.Connection) -> int:
    while True:
        http.receive_data(bytes(await stream.receive_some(_CHUNK_OCTETS)))
        while (event := http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                return event.status_code
