"""Connecting through a proxy: SOCKS5 with python-socks, HTTP CONNECT with h11.

The proxy resolves the broker's name, so names that are unknown on this machine work. TLS and WebSocket run through the
tunnel and end at the broker: the proxy only sees bytes.

python-socks can do HTTP CONNECT too, but it expects the proxy's answer in a single read (seen in 3.2.1). When the
answer comes in two pieces, the second one ends up in the STOMP stream.

Both packages come with the extra ``proxy`` and are imported when a tunnel is opened.
"""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, cast

import anyio

from trio_stomp.errors import LocalProtocolError
from trio_stomp.runtime import ByteStream, is_trio, socket_stream
from trio_stomp.transport.diagnosis import StepFailed
from trio_stomp.transport.tcp import Address, look_up, open_tcp
from trio_stomp.transport.urls import Endpoint, UrlParts

if TYPE_CHECKING:
    import h11

__all__ = ["Proxy", "open_tunnel"]

_CHUNK_BYTES: Final = 16 * 1024

_SCHEMES: Final = ("socks5", "http")

# RFC 1929: the length of each is one byte.
_LONGEST_BYTES: Final = 255

_EXPECTED: Final = "expected socks5://[user:passcode@]host:port, or http:// for HTTP CONNECT"

# Parts of the messages with which python-socks reports a refused user (RFC 1928 and 1929).
_SOCKS_REFUSALS: Final = ("authentication", "acceptable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy.

    Attributes:
        scheme: ``socks5`` or ``http``.
        host: Its name or address.
        port: Its port.
        login: The user to authenticate as.
        passcode: That user's passcode; never shown.
    """

    scheme: str
    host: str
    port: int
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: object) -> Proxy:
        """Read a URL.

        Raises:
            LocalProtocolError: Not a valid proxy URL. The message never shows the URL, which may hold a passcode.
        """
        parts = UrlParts(url, "proxy URL", _EXPECTED)
        if parts.scheme not in _SCHEMES:
            raise LocalProtocolError(f"the proxy URL has scheme {parts.scheme!r}; {_EXPECTED}")
        # Proxies have no default port.
        if not parts.host or parts.port is None:
            raise LocalProtocolError(f"the proxy URL must name host and port; {_EXPECTED}")
        if parts.path not in ("", "/") or parts.query or parts.has_fragment:
            raise LocalProtocolError(f"the proxy URL has more than host and port; {_EXPECTED}")
        login, passcode = parts.login, parts.passcode
        if parts.scheme == "http" and ":" in (login or ""):
            # Spec: RFC 7617, 2.
            raise LocalProtocolError("the user of an HTTP proxy cannot hold a colon; the proxy URL has one as %3A")
        if parts.scheme == "socks5" and not (_is_sendable(login) and _is_sendable(passcode)):
            raise LocalProtocolError(
                f"user and passcode of a SOCKS5 proxy must be ASCII, of 1 to {_LONGEST_BYTES} bytes each"
            )
        if parts.scheme == "socks5" and (login is None) != (passcode is None):
            raise LocalProtocolError("a SOCKS5 proxy needs both user and passcode, or neither; the URL has only one")
        return cls(scheme=parts.scheme, host=parts.host, port=parts.port, login=login, passcode=passcode)

    def __str__(self) -> str:
        """The address without user and passcode, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def _is_sendable(text: str | None) -> bool:
    return text is None or (text.isascii() and 0 < len(text) <= _LONGEST_BYTES)


async def open_tunnel(proxy: Proxy, endpoint: Endpoint) -> ByteStream:
    """Connect to a host through a proxy.

    Raises:
        StepFailed: The proxy cannot be reached, refuses, or cannot reach the host.
        ModuleNotFoundError: The extra ``proxy`` is not installed.

    Cancellation: what was opened is closed.
    """
    try:
        return await (_open_socks if proxy.scheme == "socks5" else _open_http)(proxy, endpoint)
    except anyio.BrokenResourceError as error:
        raise StepFailed("proxy", f"the proxy {proxy} broke the link: {error.__cause__ or error}") from error


async def _open_socks(proxy: Proxy, endpoint: Endpoint) -> ByteStream:
    from python_socks import ProxyConnectionError, ProxyError, ProxyType  # noqa: PLC0415  # an extra
    from python_socks.async_.asyncio import Proxy as AsyncioProxy  # noqa: PLC0415  # an extra
    from python_socks.async_.trio import Proxy as TrioProxy  # noqa: PLC0415  # an extra

    chosen = TrioProxy if is_trio() else AsyncioProxy
    through = chosen(ProxyType.SOCKS5, proxy.host, proxy.port, proxy.login, proxy.passcode or "", rdns=True)
    try:
        # The caller has a deadline for all steps together.
        opened = await through.connect(endpoint.ascii_host, endpoint.port, timeout=inf)
        return await socket_stream(cast(socket.socket, opened))  # on trio, one of trio's
    except ProxyConnectionError as error:
        cause = error.__cause__
        raise _unreachable(proxy, [cause if isinstance(cause, OSError) else error]) from error
    except ProxyError as error:
        refused = any(word in str(error).lower() for word in _SOCKS_REFUSALS)
        raise _denied(proxy, endpoint, str(error), refused=refused) from error
    except OSError as error:
        raise StepFailed("proxy", f"the proxy {proxy} broke the link: {error}") from error


async def _open_http(proxy: Proxy, endpoint: Endpoint) -> ByteStream:
    """Ask an HTTP proxy for a tunnel. Spec: RFC 9110, 9.3.6 CONNECT."""
    import h11  # noqa: PLC0415  # an extra

    failed: dict[Address, StepFailed] = {}
    try:
        opened = await open_tcp(await look_up(proxy.host, proxy.port), failed)
    except StepFailed as error:
        raise StepFailed("proxy", f"the proxy {proxy} cannot be reached: {error.reason}") from error.__cause__
    if opened is None:
        causes = [each.__cause__ for each in failed.values() if isinstance(each.__cause__, OSError)]
        raise _unreachable(proxy, causes) from causes[0]
    stream = opened[1]
    is_open = False
    try:
        await _connect(stream, h11.Connection(h11.CLIENT), proxy, endpoint)
        is_open = True
    except h11.RemoteProtocolError as error:
        raise StepFailed("proxy", f"the proxy {proxy} does not speak HTTP: {error}") from error
    finally:
        if not is_open:
            await anyio.aclose_forcefully(stream)
    return stream


async def _connect(stream: ByteStream, http: h11.Connection, proxy: Proxy, endpoint: Endpoint) -> None:
    from http import HTTPStatus  # noqa: PLC0415  # as little else needs it

    import h11  # noqa: PLC0415  # an extra

    headers = [("Host", endpoint.ascii_authority)]
    if proxy.login is not None:
        credentials = b64encode(f"{proxy.login}:{proxy.passcode or ''}".encode()).decode()
        headers.append(("Proxy-Authorization", f"Basic {credentials}"))
    await stream.send_all(http.send(h11.Request(method="CONNECT", target=endpoint.ascii_authority, headers=headers)))
    event = http.next_event()
    # Interim responses (1xx) come before the one that counts.
    while not isinstance(event, h11.Response):
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(_CHUNK_BYTES)))
        event = http.next_event()
    status = event.status_code
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "unknown status"
        refused = status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        raise _denied(proxy, endpoint, f"{status} {phrase}", refused=refused)
    if http.trailing_data[0]:
        # In STOMP, TLS and WebSocket alike, the client speaks first.
        what = f"the server behind the proxy {proxy} sent data before the client did"
        raise StepFailed("proxy", what, f"is {endpoint} a STOMP port?")


def _unreachable(proxy: Proxy, errors: Iterable[OSError]) -> StepFailed:
    """The failure at a proxy, from those at each of its addresses."""
    reasons = sorted({str(each) if each.errno is None else os.strerror(each.errno) for each in errors})
    return StepFailed("proxy", f"the proxy {proxy} cannot be reached: {', '.join(reasons)}")


def _denied(proxy: Proxy, endpoint: Endpoint, why: str, *, refused: bool) -> StepFailed:
    hint = "are user and passcode of proxy= right?" if refused else ""
    reason = f"the proxy {proxy} does not connect to {endpoint.authority}: {why}"
    return StepFailed("proxy", reason, hint, refused=refused)
