"""The options of `connect`: what users write, and what the connection reads."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from trio_stomp.brokers import Profile, ProfileName, profile_named, require_known
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import ALL_VERSIONS, HeartBeatOffer, Limits, Version
from trio_stomp.session.header_input import HeaderInput, header_pairs
from trio_stomp.session.hooks import Hooks
from trio_stomp.session.reconnect import Reconnect
from trio_stomp.transport import SMALLEST_MESSAGE_OCTETS, Endpoint, Proxy, Transport, TransportOptions

# Often enough to notice a dead link soon, seldom enough to cost nothing.
_DEFAULT_OFFER: Final = HeartBeatOffer(can_ms=10_000, want_ms=10_000)

__all__ = ["CommonOptions", "ConnectOptions", "Credentials", "HeaderInput", "Settings", "header_pairs"]

Credentials = Callable[[], Awaitable[tuple[str, str]]]


class CommonOptions(TypedDict, total=False):
    """What `connect` takes of asynchronous and of synchronous code alike; see `ConnectOptions`."""

    login: str
    passcode: str
    vhost: str
    versions: Sequence[str]
    heart_beat: tuple[float, float]
    heart_beat_margin: float
    tls: ssl.SSLContext | bool
    limits: Limits
    profile: Profile | ProfileName
    connect_timeout: float
    disconnect_timeout: float
    outbox_octets: int
    reconnect: Reconnect | None
    stagger: float | None
    unconfirmed_messages: int
    unconfirmed_octets: int
    headers: HeaderInput
    hooks: Hooks | Sequence[Hooks]
    proxy: str | None
    websocket_headers: HeaderInput
    websocket_message_octets: int | None


class ConnectOptions(CommonOptions, total=False):
    """The keyword arguments of `connect`.

    Attributes:
        login: User name, before the one in the URL.
        passcode: Its passcode, before the one in the URL.
        credentials: Async callable that returns user and passcode; awaited for each attempt to connect. If it raises,
            that attempt has failed.
        vhost: Virtual host, before the one in the URL. Default ``/``, which is what RabbitMQ calls its own default and
            what other brokers ignore.
        versions: Versions of STOMP to offer, as ``["1.2", "1.1"]``. Default: all.
        heart_beat: Seconds between heart-beats: what this client can send and what it wants to receive; 0 switches a
            direction off. Default ``(10, 10)``. Brokers count in whole seconds, so offer at least 1.
        heart_beat_margin: After how many intervals of silence the broker is held to be dead. Default 2.5: brokers let
            the first gap grow to two.
        tls: A context to use TLS with, ``True`` for Python's default one, as ``stomps://`` does. TLS that was asked
            for is never given up.
        limits: Bounds on what the broker may send.
        profile: The broker, by short name or as a Profile, where its ``server`` header does not tell.
        connect_timeout: Seconds for each host: DNS, TCP, TLS and CONNECT together. Default 10.
        disconnect_timeout: Seconds for leaving well: pending receipts, DISCONNECT and its RECEIPT. Default 10.
        outbox_octets: How much may wait to be written before `send` and its like wait. Default 1 MiB.
        reconnect: Connect again when the link is lost, by this policy. Default: a loss ends the client.
        stagger: Dial the next host of the list, too, when those before it have not answered after so many seconds; the
            first to be connected is used. Default: one host after the other.
        unconfirmed_messages: How many messages may await their RECEIPT, all publishers and tasks together, before the
            next one waits. Default 100,000.
        unconfirmed_octets: How much their bodies may come to. Default 64 MiB.
        headers: More headers for CONNECT, such as ``client-id``.
        hooks: What is told of connections, sends, deliveries and acknowledgments as they happen; one or several.
        proxy: Where to connect through: ``socks5://user:passcode@host:port``, or ``http://`` for HTTP CONNECT. Needs
            the extra ``proxy``. Names are looked up there; Unix sockets do without it.
        websocket_headers: More headers for the HTTP request that opens a WebSocket, such as ``Authorization``.
        websocket_message_octets: The longest WebSocket message to send; a longer STOMP frame goes in several. Only for
            a broker that puts them together again, as Spring does. Default: 8192 for Spring, which is Tomcat's
            buffer; one message for each frame everywhere else.
    """

    credentials: Credentials


def _positive(name: str, value: float) -> float:
    if not value > 0:
        msg = f"{name} must be more than 0 seconds, got {value!r}"
        raise LocalProtocolError(msg)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TransportOptions):
    """The options, checked, with their defaults; made once for each `connect`."""

    endpoints: tuple[Endpoint, ...]
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    vhost: str | None = None
    offer: HeartBeatOffer = _DEFAULT_OFFER
    heart_beat_margin: float = 2.5
    limits: Limits = field(default_factory=Limits)
    profile: Profile | None = None
    connect_timeout: float = 10
    disconnect_timeout: float = 10
    outbox_octets: int = 1024 * 1024
    reconnect: Reconnect | None = None
    stagger: float | None = None
    unconfirmed_messages: int = 100_000
    unconfirmed_octets: int = 64 * 1024 * 1024
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    hooks: tuple[Hooks, ...] = ()
    websocket_message_octets: int | None = None

    @classmethod
    def of(cls, urls: str | Sequence[str], options: ConnectOptions) -> Settings:
        """Check what the user gave.

        Raises:
            TypeError: There is no such option.
            LocalProtocolError: Something of it cannot be meant; the message says what was expected.
        """
        require_known("connect()", options, ConnectOptions.__optional_keys__)
        listed = _listed(urls)
        if not listed:
            msg = "connect() needs at least one broker URL"
            raise LocalProtocolError(msg)
        profile = options.get("profile")
        can, want = options.get("heart_beat", (10, 10))
        margin = options.get("heart_beat_margin", _DEFAULTS.heart_beat_margin)
        stagger = options.get("stagger")
        if margin < 1:
            msg = f"heart_beat_margin must be at least 1 interval, got {margin!r}"
            raise LocalProtocolError(msg)
        return cls(
            endpoints=_endpoints(listed, has_tls=bool(options.get("tls"))),
            login=options.get("login"),
            passcode=options.get("passcode"),
            credentials=options.get("credentials"),
            vhost=options.get("vhost"),
            versions=_versions(options.get("versions", ALL_VERSIONS)),
            offer=HeartBeatOffer.of_seconds(can, want),
            heart_beat_margin=margin,
            tls=options.get("tls", False),
            limits=options.get("limits", _DEFAULTS.limits),
            profile=profile_named(profile) if isinstance(profile, str) else profile,
            connect_timeout=_positive("connect_timeout", options.get("connect_timeout", _DEFAULTS.connect_timeout)),
            disconnect_timeout=_positive(
                "disconnect_timeout", options.get("disconnect_timeout", _DEFAULTS.disconnect_timeout)
            ),
            outbox_octets=options.get("outbox_octets", _DEFAULTS.outbox_octets),
            reconnect=options.get("reconnect"),
            stagger=None if stagger is None else _positive("stagger", stagger),
            unconfirmed_messages=options.get("unconfirmed_messages", _DEFAULTS.unconfirmed_messages),
            unconfirmed_octets=options.get("unconfirmed_octets", _DEFAULTS.unconfirmed_octets),
            headers=tuple(header_pairs(options.get("headers"))),
            hooks=_hooks(options.get("hooks", ())),
            proxy=_proxy(options.get("proxy")),
            websocket_headers=tuple(header_pairs(options.get("websocket_headers"))),
            websocket_message_octets=_message_octets(options.get("websocket_message_octets")),
        )


_DEFAULTS: Final = Settings(endpoints=())


def _hooks(given: Hooks | Sequence[Hooks]) -> tuple[Hooks, ...]:
    listed = (given,) if isinstance(given, Hooks) else tuple(given)
    for hooks in listed:
        _require_hooks(hooks)
    return listed


def _require_hooks(hooks: object) -> None:
    if not isinstance(hooks, Hooks):
        msg = f"hooks must be Hooks, or a list of them, got {hooks!r}; derive yours from trio_stomp.Hooks"
        raise LocalProtocolError(msg)


def _listed(urls: str | Iterable[object]) -> list[object]:
    if isinstance(urls, str):
        return [urls]
    try:
        # bytes are a list of numbers, and meant as a URL.
        return [urls] if isinstance(urls, bytes | bytearray) else list(urls)
    except TypeError:
        msg = f"connect() needs a broker URL as str, or a list of them, got {type(urls).__name__}"
        raise LocalProtocolError(msg) from None


def _endpoints(urls: Sequence[object], *, has_tls: bool) -> tuple[Endpoint, ...]:
    endpoints = tuple(map(Endpoint.parse, urls))
    if has_tls and any(endpoint.transport is Transport.UNIX for endpoint in endpoints):
        # Ignored, it would be TLS given up; obeyed, there is no host name to verify.
        msg = "stomp+unix:// does not go with tls=: a Unix socket has no TLS; use stomps://, or leave out tls="
        raise LocalProtocolError(msg)
    return endpoints


def _message_octets(value: int | None) -> int | None:
    if value is not None and value < SMALLEST_MESSAGE_OCTETS:
        msg = f"websocket_message_octets must be at least {SMALLEST_MESSAGE_OCTETS}, got {value!r}"
        raise LocalProtocolError(msg)
    return value


def _proxy(url: str | None) -> Proxy | None:
    return None if url is None else Proxy.parse(url)


def _versions(names: Sequence[str]) -> tuple[Version, ...]:
    try:
        versions = tuple(sorted({Version(name) for name in names}))
    except ValueError:
        versions = ()
    if not versions or isinstance(names, str):
        msg = f"versions must be a list of {', '.join(ALL_VERSIONS)}, at least one; got {names!r}"
        raise LocalProtocolError(msg)
    return versions
