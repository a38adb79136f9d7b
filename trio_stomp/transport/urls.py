"""Broker URLs: ``stomp://user:passcode@host:port/vhost``, and the other ways to reach a broker."""

from __future__ import annotations

import enum
import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from trio_stomp.errors import LocalProtocolError

__all__ = ["OWN_STREAM", "URL_LIST", "Endpoint", "Transport", "UrlParts"]


class Transport(enum.Enum):
    """What carries the bytes of a connection. TLS is separate: it runs over TCP, also below a WebSocket.

    Attributes:
        TCP: A TCP connection.
        WEBSOCKET: A WebSocket, over TCP.
        UNIX: A Unix domain socket.
        STREAM: A stream that the program has opened itself, for `connect_stream`.
    """

    TCP = "tcp"
    WEBSOCKET = "websocket"
    UNIX = "unix"
    STREAM = "stream"


class _Scheme(NamedTuple):
    transport: Transport
    tls: bool = False
    port: int = 0


# All brokers use port 61613 for STOMP; RabbitMQ and ActiveMQ document 61614 for STOMP over TLS. For WebSocket each has
# another port, so the default is that of the web (RFC 6455, 3).
_SCHEMES: Final = {
    "stomp": _Scheme(transport=Transport.TCP, port=61613),
    "stomps": _Scheme(transport=Transport.TCP, tls=True, port=61614),
    "ws": _Scheme(transport=Transport.WEBSOCKET, port=80),
    "wss": _Scheme(transport=Transport.WEBSOCKET, tls=True, port=443),
    "stomp+unix": _Scheme(transport=Transport.UNIX),
}

# How brokers and other clients write URLs.
URL_LIST: Final = "a list of URLs, such as ['stomp://first:61613', 'stomp://second:61613']"
_OTHER_SCHEMES: Final = {
    **dict.fromkeys(("tcp", "nio", "stomp+tcp", "stomp+nio"), "stomp://"),
    **dict.fromkeys(("ssl", "tls", "stomp+ssl", "stomp+tls", "stomp+nio+ssl"), "stomps://"),
    **dict.fromkeys(("failover", "fanout", "static"), URL_LIST),
    "http": "ws://",
    "https": "wss://",
}

# A comma between URLs or between hosts, but not one in a passcode.
_SEVERAL: Final = re.compile(r",[a-z+]+://|^[a-z+]+://(?:[^/?#]*@)?+[^/?#@]*,")
# Host and port without a scheme, maybe with a virtual host. What holds an "@" may hold a passcode, and is never shown.
_ADDRESS: Final = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}(/[A-Za-z0-9_.%-]*)?")

_EXPECTED: Final = (
    "expected stomp://[user:passcode@]host[:port][/vhost], stomps:// for TLS, ws:// or wss://host[:port]/path for "
    "WebSocket, or stomp+unix:///path"
)


# RFC 1035, 2.3.4, and what RFC 952 allows in a host name; "_" is common in the names of containers.
_LONGEST_NAME: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class UrlParts:
    """The parts of the URL of a broker or proxy, each checked.

    Errors never quote the URL, which may hold a passcode; they name the part that is wrong.

    Args:
        url: The URL.
        what: Its name in errors, such as "broker URL".
        expected: What it should look like.

    Attributes:
        scheme: In lower case.
        host: Name or address, without brackets; empty if missing.
        port: None if missing.
        login: Percent-decoded.
        passcode: Percent-decoded; never shown.
        path: As written.
        query: As written.
        has_fragment: Whether it has a ``#`` part.

    Raises:
        LocalProtocolError: It is not a URL, or a part of it is invalid.
    """

    def __init__(self, url: object, what: str, expected: str) -> None:
        if not isinstance(url, str):
            raise LocalProtocolError(f"the {what} must be a str, got {type(url).__name__}; {expected}")
        for position, character in enumerate(url):
            # urlsplit drops some of these, and treats a backslash differently from browsers.
            if not character.isprintable() or character in " \\":
                kind = {" ": "a space", "\\": "a backslash"}.get(character, "a control character")
                part = _part_at(url, position)
                advice = "remove it" if part in ("scheme", "host or port") else "it must be percent-encoded"
                msg = f"the {what} holds {kind} in its {part}: {advice}; {expected}"
                raise LocalProtocolError(msg)
        try:
            parts = urlsplit(url)
        except ValueError:
            # The message of urlsplit quotes the URL, maybe with a passcode that has a raw "/" or "[".
            msg = f"the {what} cannot be read ({expected}); are special characters percent-encoded?"
            raise LocalProtocolError(msg) from None
        try:
            port = parts.port
        except ValueError:
            port = 0
        if port == 0:
            msg = (
                f"the port of the {what} must be a number from 1 to 65535 ({expected}); "
                "are special characters of user and passcode percent-encoded?"
            )
            raise LocalProtocolError(msg)
        is_literal = parts.netloc.rpartition("@")[2].startswith("[")
        self.scheme = parts.scheme
        self.host = _host(parts.hostname or "", what, is_literal=is_literal)
        self.port = port
        self.login = None if parts.username is None else _decoded(parts.username, "user", what)
        self.passcode = None if parts.password is None else _decoded(parts.password, "passcode", what)
        self.path = parts.path
        self.query = parts.query
        self.has_fragment = bool(parts.fragment)
        self._what = what

    @property
    def decoded_path(self) -> str:
        """The path, percent-decoded.

        Raises:
            LocalProtocolError: It has a broken escape.
        """
        return _decoded(self.path, "path", self._what)


def _part_at(url: str, position: int) -> str:
    start = url.find("://") + 3
    end = min((found for found in (url.find(mark, start) for mark in "/?#") if found >= 0), default=len(url))
    if position < start:
        return "scheme"
    if position >= end:
        return "path or query"
    return "user or passcode" if position < url.rfind("@", start, end) else "host or port"


def _decoded(text: str, part: str, what: str) -> str:
    """A part with percent-escapes decoded; `unquote` alone would keep broken ones, or guess."""
    if _BROKEN_ESCAPE.search(text):
        raise LocalProtocolError(f"the {part} of the {what} has a '%' without two hex digits after it; write %25")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise LocalProtocolError(f"the percent-escapes in the {part} of the {what} are not UTF-8") from None


def _host(host: str, what: str, *, is_literal: bool) -> str:
    if is_literal:
        # RFC 6874: the "%" before a zone is written %25; systems show it as "%".
        host = host.replace("%25", "%", 1)
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise LocalProtocolError(f"the host of the {what} has brackets, but is not an IPv6 address") from None
        return host
    try:
        name = host if host.isascii() or len(host) > _LONGEST_NAME else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise LocalProtocolError(f"the host of the {what} is not a legal name: IDNA does not allow it") from None
    labels = name.removesuffix(".").split(".")
    if host and not (len(name) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, labels))):
        msg = (
            f"the host of the {what} is not a legal name: labels of 1 to 63 letters, digits, '-' and '_' with dots "
            f"between them, {_LONGEST_NAME} characters at most, or an address, IPv6 in brackets"
        )
        raise LocalProtocolError(msg)
    return host


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One broker address.

    Attributes:
        host: Name or address; the path of a Unix socket; empty for a stream.
        port: TCP port; 0 for a Unix socket or a stream.
        tls: Whether the URL asks for TLS.
        login: The user named in the URL.
        passcode: The passcode in the URL; never shown.
        vhost: The virtual host named by the path, with ``stomp`` and ``stomps``.
        transport: What carries the bytes.
        resource: Path and query of a WebSocket. The query is never shown, because it may hold a token.
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
    def parse(cls, url: object) -> Endpoint:
        """Read a URL.

        With ``stomp`` and ``stomps`` the path is the virtual host: ``/test`` is ``test`` and ``/%2Ftest`` is
        ``/test``, as in AMQP URLs. With ``ws`` and ``wss`` path and query belong to the WebSocket, and with
        ``stomp+unix`` the path is the socket's. Special characters of user and passcode are percent-encoded.

        Raises:
            LocalProtocolError: Not a valid broker URL. The message never shows the URL, which may hold a passcode.
        """
        if isinstance(url, str):
            _refuse_other_forms(url)
        parts = UrlParts(url, "broker URL", _EXPECTED)
        scheme = _SCHEMES.get(parts.scheme)
        if not parts.scheme:
            msg = f"the broker URL has no scheme; put stomp:// before the host, or stomps:// for TLS; {_EXPECTED}"
            raise LocalProtocolError(msg if url else f"the broker URL is empty; {_EXPECTED}")
        if scheme is None:
            raise LocalProtocolError(f"the broker URL has scheme {parts.scheme!r}; {_EXPECTED}")
        _check(parts, scheme.transport)
        is_websocket = scheme.transport is Transport.WEBSOCKET
        vhost = parts.decoded_path.removeprefix("/") if scheme.transport is Transport.TCP else ""
        return cls(
            host=parts.host or parts.decoded_path,
            port=parts.port or scheme.port,
            tls=scheme.tls,
            login=parts.login,
            passcode=parts.passcode,
            vhost=vhost or None,
            transport=scheme.transport,
            resource=(parts.path or "/") + (f"?{parts.query}" if parts.query else "") if is_websocket else "/",
        )

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def ascii_host(self) -> str:
        """The host as protocols send it: a name in IDNA form, an address without its zone (RFC 6874, 3)."""
        return self.host.partition("%")[0].encode("idna").decode("ascii")

    @property
    def query(self) -> list[tuple[str, str]]:
        """The fields in the query of a WebSocket's URL, which may hold tokens."""
        return parse_qsl(self.resource.partition("?")[2])

    @property
    def server_name(self) -> str:
        """The name that the server itself has, in TLS and as a virtual host: `ascii_host` without a final dot.

        The dot is notation of DNS: "broker.example." is not looked up in the search list of the resolver. In SNI the
        name is "without a trailing dot"; Host in HTTP is the name in the URL, dot included.
        Spec: RFC 6066, 3 Server Name Indication; RFC 9110, 7.2 Host.
        """
        return self.ascii_host.removesuffix(".")

    @property
    def ascii_authority(self) -> str:
        """Host and port as HTTP sends them."""
        host = f"[{self.ascii_host}]" if ":" in self.host else self.ascii_host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        """The address without user, passcode and query, for messages."""
        if self.transport is Transport.STREAM:
            return "the program's own stream"
        if self.transport is Transport.UNIX:
            return f"stomp+unix://{self.host}"
        if self.transport is Transport.WEBSOCKET:
            return f"{'wss' if self.tls else 'ws'}://{self.authority}{self.resource.partition('?')[0]}"
        return f"{'stomps' if self.tls else 'stomp'}://{self.authority}"


# It has no URL: its other end is up to the program.
OWN_STREAM: Final = Endpoint(host="", port=0, tls=False, transport=Transport.STREAM)


def _refuse_other_forms(url: str) -> None:
    """Refuse what other clients take in place of a URL, and say what to write.

    Raises:
        LocalProtocolError: It is one of those.
    """
    if _ADDRESS.fullmatch(url):
        raise LocalProtocolError(f"the broker URL has no scheme; write stomp://{url}, or stomps:// for TLS")
    scheme = url.partition(":")[0].lower()
    if scheme in _OTHER_SCHEMES:
        raise LocalProtocolError(f"the broker URL has scheme {scheme!r}; write {_OTHER_SCHEMES[scheme]}; {_EXPECTED}")
    if _SEVERAL.search(url.partition("?")[0]):
        raise LocalProtocolError(f"the broker URL holds several URLs; write {URL_LIST}")


def _check(parts: UrlParts, transport: Transport) -> None:
    """Refuse parts that a URL of this kind cannot have."""
    if transport is Transport.UNIX:
        if parts.host or parts.port is not None or not parts.path.startswith("/") or parts.path == "/":
            msg = f"the broker URL must have the absolute path of a Unix socket, and no host; {_EXPECTED}"
            raise LocalProtocolError(msg)
        if "\0" in parts.decoded_path:
            raise LocalProtocolError("the path of the broker URL contains NUL (%00), which a Unix socket cannot have")
    elif not parts.host:
        raise LocalProtocolError(f"the broker URL names no host; {_EXPECTED}")
    if parts.has_fragment or (parts.query and transport is not Transport.WEBSOCKET):
        msg = f"the broker URL has a '?' or '#' part; {_EXPECTED}; options are arguments of connect()"
        raise LocalProtocolError(msg)
    if transport is Transport.WEBSOCKET and not _is_resource(parts.path + parts.query):
        msg = f"path and query of the broker URL must be ASCII without spaces, the rest percent-encoded; {_EXPECTED}"
        raise LocalProtocolError(msg)


def _is_resource(text: str) -> bool:
    # It becomes part of the first line of an HTTP request.
    return text.isascii() and text.isprintable() and " " not in text
