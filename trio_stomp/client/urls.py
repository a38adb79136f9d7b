"""Broker URLs: ``stomp://user:passcode@host:port/vhost``, and the other ways to reach a broker."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from trio_stomp.errors import LocalProtocolError

__all__ = ["Endpoint", "Transport"]


class Transport(enum.Enum):
    """What carries the octets of a connection; TLS may go over TCP, below a WebSocket too.

    Attributes:
        TCP: A TCP connection.
        WEBSOCKET: A WebSocket, over TCP.
        UNIX: A Unix domain socket.
    """

    TCP = "tcp"
    WEBSOCKET = "websocket"
    UNIX = "unix"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheme:
    transport: Transport
    tls: bool = False
    port: int = 0


# 61613 is the port of STOMP at every broker; 61614 is what RabbitMQ and ActiveMQ document for STOMP over TLS. The
# brokers have each another port for WebSocket, so a URL without one means what it means on the web (RFC 6455, 3).
_SCHEMES: Final = {
    "stomp": _Scheme(transport=Transport.TCP, port=61613),
    "stomps": _Scheme(transport=Transport.TCP, tls=True, port=61614),
    "ws": _Scheme(transport=Transport.WEBSOCKET, port=80),
    "wss": _Scheme(transport=Transport.WEBSOCKET, tls=True, port=443),
    "stomp+unix": _Scheme(transport=Transport.UNIX),
}

_EXPECTED: Final = (
    "expected stomp://[user:passcode@]host[:port][/vhost], stomps:// for TLS, ws:// or wss://host[:port]/path for "
    "WebSocket, or stomp+unix:///path"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One broker address.

    Attributes:
        host: Name or address; the path of a Unix socket.
        port: TCP port.
        tls: Whether the URL asks for TLS.
        login: The user named in the URL.
        passcode: The passcode in the URL; never shown.
        vhost: The virtual host named by the path, with ``stomp`` and ``stomps``.
        transport: What carries the octets.
        resource: Path and query of a WebSocket; never shown as a whole, because a query may hold a token.
    """

    host: str
    port: int
    tls: bool
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    vhost: str | None = None
    transport: Transport = Transport.TCP
    resource: str = field(default="/", repr=False)

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read a URL.

        With ``stomp`` and ``stomps`` the path is the virtual host: ``/test`` is ``test`` and ``/%2Ftest`` is
        ``/test``, as in AMQP URLs. With ``ws`` and ``wss`` path and query belong to the WebSocket, and with
        ``stomp+unix`` the path is the socket's. Special characters of user and passcode are percent-encoded.

        Raises:
            LocalProtocolError: It is no such URL. The message never shows the URL, which may hold a passcode.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # urlsplit's own message quotes what it could not read: a passcode with a raw "/" or "[" may be in it.
            msg = f"the broker URL cannot be read ({_EXPECTED}); are special characters percent-encoded?"
            raise LocalProtocolError(msg) from None
        scheme = _SCHEMES.get(parts.scheme)
        if scheme is None:
            raise LocalProtocolError(f"the broker URL has scheme {parts.scheme!r}; {_EXPECTED}")
        _check(parts, scheme.transport)
        is_websocket = scheme.transport is Transport.WEBSOCKET
        vhost = unquote(parts.path.removeprefix("/")) if scheme.transport is Transport.TCP else ""
        return cls(
            host=parts.hostname or unquote(parts.path),
            port=scheme.port if port is None else port,
            tls=scheme.tls,
            login=None if parts.username is None else unquote(parts.username),
            passcode=None if parts.password is None else unquote(parts.password),
            vhost=vhost or None,
            transport=scheme.transport,
            resource=(parts.path or "/") + (f"?{parts.query}" if parts.query else "") if is_websocket else "/",
        )

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        """The address without user, passcode and query, for messages."""
        if self.transport is Transport.UNIX:
            return f"stomp+unix://{self.host}"
        if self.transport is Transport.WEBSOCKET:
            return f"{'wss' if self.tls else 'ws'}://{self.authority}{self.resource.partition('?')[0]}"
        return f"{'stomps' if self.tls else 'stomp'}://{self.authority}"


def _check(parts: SplitResult, transport: Transport) -> None:
    """Refuse what a URL of this kind cannot have."""
    if transport is Transport.UNIX:
        if parts.hostname or parts.port is not None or not parts.path.startswith("/") or parts.path == "/":
            msg = f"the broker URL names no Unix socket by its absolute path, or a host besides; {_EXPECTED}"
            raise LocalProtocolError(msg)
    elif not parts.hostname:
        raise LocalProtocolError(f"the broker URL names no host; {_EXPECTED}")
    if parts.fragment or (parts.query and transport is not Transport.WEBSOCKET):
        msg = f"the broker URL has a '?' or '#' part; {_EXPECTED}; options are arguments of connect()"
        raise LocalProtocolError(msg)
    if transport is Transport.WEBSOCKET and not _is_resource(parts.path + parts.query):
        msg = f"path and query of the broker URL must be ASCII without spaces, the rest percent-encoded; {_EXPECTED}"
        raise LocalProtocolError(msg)


def _is_resource(text: str) -> bool:
    # It becomes part of the first line of an HTTP request.
    return text.isascii() and text.isprintable() and " " not in text
