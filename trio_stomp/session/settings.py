"""The options of `connect`, as users pass them and as the connection uses them."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypedDict

from trio_stomp.brokers import Profile, ProfileName, profile_named
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import ALL_VERSIONS, HeartBeatOffer, Limits, Version
from trio_stomp.session.header_input import HeaderInput, header_pairs
from trio_stomp.session.hooks import Hooks
from trio_stomp.session.limits import limit_of
from trio_stomp.session.reconnect import Reconnect
from trio_stomp.transport import SMALLEST_MESSAGE_BYTES, Endpoint, Proxy, Transport, TransportOptions

# How `versions=` names the early draft of STOMP 1.0.
_DRAFT: Final = "draft"
# Frequent enough to detect a dead connection soon, rare enough to cost nothing.
_DEFAULT_OFFER: Final = HeartBeatOffer(can_ms=10_000, want_ms=10_000)

__all__ = ["ConnectOptions", "Credentials", "HeaderInput", "Settings", "header_pairs"]

Credentials = Callable[[], Awaitable[tuple[str, str]]]


class ConnectOptions(TypedDict, total=False):
    """The keyword arguments of `connect`, for programs that collect them in a dict: ``connect(url, **options)``."""

    login: str | None
    passcode: str | None
    credentials: Credentials | None
    vhost: str | None
    versions: Sequence[str]
    heart_beat: tuple[float, float]
    heart_beat_margin: float
    tls: ssl.SSLContext | bool
    limits: Limits | None
    profile: Profile | ProfileName | None
    connect_timeout: float
    disconnect_timeout: float
    timeout: float | None
    outbox_bytes: int
    reconnect: Reconnect | bool | None
    stagger: float | None
    unconfirmed_messages: int
    unconfirmed_bytes: int
    headers: HeaderInput | None
    hooks: Hooks | Sequence[Hooks]
    proxy: str | None
    websocket_headers: HeaderInput | None
    websocket_message_bytes: int | None


# No heart-beat or handshake takes this many seconds; other clients use milliseconds.
_SURELY_MILLISECONDS: Final = 1000


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise LocalProtocolError(f"{name} must be more than 0 seconds, got {value!r}")
    if _SURELY_MILLISECONDS <= value < inf:
        raise LocalProtocolError(f"{name} is in seconds, and {value!r} looks like milliseconds: use {value / 1000:g}")
    return value


def _timeout(value: object) -> float | None:
    if value is not None and value == 0:
        # Elsewhere 0 leaves time for what needs no waiting, but no broker answers at once.
        msg = f"timeout must be more than 0 seconds, or None for no limit; got {value!r}"
        raise LocalProtocolError(msg)
    return limit_of(value, None)


def _offer(value: object) -> HeartBeatOffer:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise LocalProtocolError(
            f"heart_beat must be a pair of seconds, sent and received, got {value!r}: use heart_beat=({value}, {value})"
        )
    match value:
        case (int() | float() as can, int() | float() as want):
            pass
        case _:
            raise LocalProtocolError(f"heart_beat must be a pair of seconds, such as (10, 10), got {value!r}")
    if any(_SURELY_MILLISECONDS <= each < inf for each in (can, want)):
        raise LocalProtocolError(
            f"heart_beat is in seconds, and {(can, want)!r} looks like milliseconds: "
            f"use ({can / 1000:g}, {want / 1000:g})"
        )
    return HeartBeatOffer.of_seconds(can, want)


def _reconnect(value: object) -> Reconnect | None:
    if value is None or isinstance(value, Reconnect):
        return value
    if isinstance(value, bool):
        return Reconnect() if value else None
    raise LocalProtocolError(f"reconnect must be a Reconnect, or True for its defaults, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TransportOptions):
    """The options of one client, checked and with defaults.

    Attributes:
        draft: Whether to speak the early draft of STOMP 1.0; `versions` is then 1.0 alone.
    """

    endpoints: tuple[Endpoint, ...]
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    vhost: str | None = None
    draft: bool = False
    offer: HeartBeatOffer = _DEFAULT_OFFER
    heart_beat_margin: float = 2.5
    limits: Limits = field(default_factory=Limits)
    profile: Profile | None = None
    connect_timeout: float = 10
    disconnect_timeout: float = 10
    timeout: float | None = None
    outbox_bytes: int = 1024 * 1024
    reconnect: Reconnect | None = None
    stagger: float | None = None
    unconfirmed_messages: int = 100_000
    unconfirmed_bytes: int = 64 * 1024 * 1024
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    hooks: tuple[Hooks, ...] = ()
    websocket_message_bytes: int | None = None

    @classmethod
    def of(cls, urls: str | Sequence[str] | Endpoint, options: ConnectOptions) -> Settings:
        """Check the arguments of `connect`.

        Raises:
            LocalProtocolError: An option is invalid; the message says what was expected.
        """
        listed = [] if isinstance(urls, Endpoint) else _listed(urls)
        if not listed and not isinstance(urls, Endpoint):
            msg = "connect() needs at least one broker URL"
            raise LocalProtocolError(msg)
        profile = options.get("profile")
        margin = options.get("heart_beat_margin", _DEFAULTS.heart_beat_margin)
        stagger = options.get("stagger")
        if margin < 1:
            msg = f"heart_beat_margin must be at least 1 interval, got {margin!r}"
            raise LocalProtocolError(msg)
        has_tls, vhost = bool(options.get("tls")), options.get("vhost")
        endpoints = (urls,) if isinstance(urls, Endpoint) else _endpoints(listed, has_tls=has_tls)
        versions, draft = _versions(options.get("versions", ALL_VERSIONS))
        if draft:
            _require_no_vhost(vhost, endpoints)
        return cls(
            endpoints=endpoints,
            login=options.get("login"),
            passcode=options.get("passcode"),
            credentials=options.get("credentials"),
            vhost=vhost,
            versions=versions,
            draft=draft,
            offer=_offer(options["heart_beat"]) if "heart_beat" in options else _DEFAULT_OFFER,
            heart_beat_margin=margin,
            tls=options.get("tls", False),
            limits=options.get("limits") or _DEFAULTS.limits,
            profile=profile_named(profile) if isinstance(profile, str) else profile,
            connect_timeout=_positive("connect_timeout", options.get("connect_timeout", _DEFAULTS.connect_timeout)),
            disconnect_timeout=_positive(
                "disconnect_timeout", options.get("disconnect_timeout", _DEFAULTS.disconnect_timeout)
            ),
            timeout=_timeout(options.get("timeout")),
            outbox_bytes=options.get("outbox_bytes", _DEFAULTS.outbox_bytes),
            reconnect=_reconnect(options.get("reconnect")),
            stagger=None if stagger is None else _positive("stagger", stagger),
            unconfirmed_messages=options.get("unconfirmed_messages", _DEFAULTS.unconfirmed_messages),
            unconfirmed_bytes=options.get("unconfirmed_bytes", _DEFAULTS.unconfirmed_bytes),
            headers=tuple(header_pairs(options.get("headers"))),
            hooks=_hooks(options.get("hooks", ())),
            proxy=_proxy(options.get("proxy")),
            websocket_headers=tuple(header_pairs(options.get("websocket_headers"))),
            websocket_message_bytes=_message_bytes(options.get("websocket_message_bytes")),
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
        # bytes are iterable, but a list of numbers is not what the user means.
        return [urls] if isinstance(urls, bytes | bytearray) else list(urls)
    except TypeError:
        msg = f"connect() needs a broker URL as str, or a list of them, got {type(urls).__name__}"
        raise LocalProtocolError(msg) from None


def _endpoints(urls: Sequence[object], *, has_tls: bool) -> tuple[Endpoint, ...]:
    endpoints = tuple(map(Endpoint.parse, urls))
    if has_tls and any(endpoint.transport is Transport.UNIX for endpoint in endpoints):
        # Ignoring it would give up TLS silently, and a Unix socket has no host name to verify.
        msg = (
            "tls= cannot be used with stomp+unix://, because a Unix socket has no TLS; use stomps://, or leave out tls="
        )
        raise LocalProtocolError(msg)
    return endpoints


def _message_bytes(value: int | None) -> int | None:
    if value is not None and value < SMALLEST_MESSAGE_BYTES:
        msg = f"websocket_message_bytes must be at least {SMALLEST_MESSAGE_BYTES}, got {value!r}"
        raise LocalProtocolError(msg)
    return value


def _proxy(url: str | None) -> Proxy | None:
    return None if url is None else Proxy.parse(url)


def _versions(names: Sequence[str]) -> tuple[tuple[Version, ...], bool]:
    """Return the versions to offer, and whether to speak the draft of 1.0."""
    given = () if isinstance(names, str) else tuple(names)
    if _DRAFT in given:
        if any(name != _DRAFT for name in given):
            msg = (
                f"the early draft of STOMP cannot be negotiated, so it must be the only one of versions, got {given!r}"
            )
            raise LocalProtocolError(f"{msg}; use ['draft'], or leave it out")
        return (Version.V1_0,), True
    try:
        versions = tuple(sorted({Version(name) for name in given}))
    except ValueError:
        versions = ()
    if not versions:
        msg = f"versions must be a list of {', '.join(ALL_VERSIONS)}, at least one, or ['draft']; got {names!r}"
        raise LocalProtocolError(msg)
    return versions, False


def _require_no_vhost(vhost: str | None, endpoints: Sequence[Endpoint]) -> None:
    named = next((name for name in (vhost, *(endpoint.vhost for endpoint in endpoints)) if name is not None), None)
    if named is not None:
        msg = f"the early draft of STOMP has no virtual hosts, got {named!r}; leave out vhost= and the path of the URL"
        raise LocalProtocolError(msg)
