"""The options of `connect`: what users write, and what the connection reads."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

import trio

from trio_stomp.brokers import Profile, profile_named
from trio_stomp.client.reconnect import Reconnect
from trio_stomp.client.urls import Endpoint
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import ALL_VERSIONS, HeartBeatOffer, Limits, Version

# Often enough to notice a dead link soon, seldom enough to cost nothing.
_DEFAULT_OFFER: Final = HeartBeatOffer(can_ms=10_000, want_ms=10_000)

__all__ = ["CommonOptions", "ConnectOptions", "Credentials", "Dial", "HeaderInput", "Settings", "header_pairs"]

HeaderInput = Mapping[str, str] | Sequence[tuple[str, str]]

Credentials = Callable[[], Awaitable[tuple[str, str]]]

Dial = Callable[[Endpoint], Awaitable[trio.abc.Stream]]


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
    profile: str | Profile
    connect_timeout: float
    disconnect_timeout: float
    outbox_octets: int
    reconnect: Reconnect | None
    stagger: float | None
    unconfirmed_messages: int
    unconfirmed_octets: int
    headers: HeaderInput


class ConnectOptions(CommonOptions, total=False):
    """The keyword arguments of `connect`.

    Attributes:
        login: User name, before the one in the URL.
        passcode: Its passcode, before the one in the URL.
        credentials: Async callable that returns user and passcode; awaited for each attempt to connect.
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
    """

    credentials: Credentials


def header_pairs(headers: HeaderInput | None) -> list[tuple[str, str]]:
    """What users give as headers, as pairs in order; names and values must be text.

    Raises:
        LocalProtocolError: A name or value is not a str (numbers are not converted: 1 and True would be guesses), or a
            header is one that the calls themselves set: a receipt of the user's own would be waited for in vain.
    """
    if not headers:
        return []
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    for name, value in pairs:
        if type(name) is not str or type(value) is not str or name in _SET_BY_CALLS:
            _require_sendable(name, value)
    return pairs


def _require_sendable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        msg = f"header {name!r} must be text on both sides, got a {type(value).__name__}; use str()"
        raise LocalProtocolError(msg)
    if name in _SET_BY_CALLS:
        msg = f"header {name!r} is set by the call itself: {_SET_BY_CALLS[name]}"
        raise LocalProtocolError(msg)


_SET_BY_CALLS: Final = {
    "receipt": "use receipt=True",
    "transaction": "use the methods of client.transaction()",
}


def _positive(name: str, value: float) -> float:
    if not value > 0:
        msg = f"{name} must be more than 0 seconds, got {value!r}"
        raise LocalProtocolError(msg)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options, checked, with their defaults; made once for each `connect`.

    `open_stream` opens the stream to a host in place of TCP.
    """

    endpoints: tuple[Endpoint, ...]
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    vhost: str | None = None
    versions: tuple[Version, ...] = ALL_VERSIONS
    offer: HeartBeatOffer = _DEFAULT_OFFER
    heart_beat_margin: float = 2.5
    tls: ssl.SSLContext | bool = False
    limits: Limits = field(default_factory=Limits)
    profile: Profile | None = None
    connect_timeout: float = 10
    disconnect_timeout: float = 10
    outbox_octets: int = 1024 * 1024
    reconnect: Reconnect | None = None
    stagger: float | None = None
    open_stream: Dial | None = None
    unconfirmed_messages: int = 100_000
    unconfirmed_octets: int = 64 * 1024 * 1024
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, urls: str | Sequence[str], options: ConnectOptions) -> Settings:
        """Check what the user gave.

        Raises:
            LocalProtocolError: Something of it cannot be meant; the message says what was expected.
        """
        listed = [urls] if isinstance(urls, str) else list(urls)
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
            endpoints=tuple(map(Endpoint.parse, listed)),
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
        )


_DEFAULTS: Final = Settings(endpoints=())


def _versions(names: Sequence[str]) -> tuple[Version, ...]:
    try:
        versions = tuple(sorted({Version(name) for name in names}))
    except ValueError:
        versions = ()
    if not versions or isinstance(names, str):
        msg = f"versions must be a list of {', '.join(ALL_VERSIONS)}, at least one; got {names!r}"
        raise LocalProtocolError(msg)
    return versions
