"""The options of `connect`, as users pass them and as the connection uses them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, TypedDict, cast

from trio_stomp.brokers import (
    Profile,
    ProfileName,
    is_number,
    profile_named,
    require,
    require_bool,
    require_seconds,
    require_whole,
)
from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import shown
from trio_stomp.protocol import ALL_VERSIONS, HeartBeatOffer, Limits, Version
from trio_stomp.runtime import called
from trio_stomp.session.hooks import Hooks
from trio_stomp.session.limits import limit_of
from trio_stomp.session.outgoing import HeaderInput, header_pairs
from trio_stomp.transport import SMALLEST_MESSAGE_BYTES, Endpoint, Proxy, Transport, TransportOptions

# How `versions=` names the early draft of STOMP 1.0.
_DRAFT: Final = "draft"
# Frequent enough to detect a dead connection soon, rare enough to cost nothing.
_DEFAULT_OFFER: Final = HeartBeatOffer(can_ms=10_000, want_ms=10_000)

__all__ = [
    "CommonOptions",
    "ConnectOptions",
    "Credentials",
    "Reconnect",
    "Settings",
    "check_delays",
    "full_jitter",
    "uniform",
]

Credentials = Callable[[], Awaitable[tuple[str, str]]]


def uniform() -> float:
    """Return a random number from 0 to 1."""
    # `random` would take time of each start, and cannot be imported later by a program that has no file left to open.
    return int.from_bytes(os.urandom(7)) / 2**56


def full_jitter(random: Callable[[], float], first_delay: float, max_delay: float, doublings: int) -> float:
    """Return a random delay below a bound that doubles from attempt to attempt."""
    # Beyond 2**60 the bound is max_delay in any case, and a float would overflow at some point.
    return called(random) * min(max_delay, first_delay * 2.0 ** min(doublings, 60))


def check_delays(policy: str, first_delay: object, max_delay: object) -> None:
    """Check the bounds of `full_jitter`.

    Raises:
        LocalProtocolError: One is no number or negative, or they are in the wrong order.
    """
    if not (is_number(first_delay) and is_number(max_delay) and 0 <= first_delay <= max_delay):
        msg = f"{policy}: delays must be 0 <= first_delay <= max_delay, got {first_delay!r} and {max_delay!r}"
        raise LocalProtocolError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """Connect again when the connection is lost, and restore subscriptions and unconfirmed messages.

    The delay before each attempt is a random number between zero and a bound that doubles from attempt to attempt
    ("full jitter"), so that a thousand clients do not all reconnect at once. An attempt tries every host of the list,
    in order. Delays, `attempts` and `deadline` also hold for each subscription that the broker refuses to restore.

    Attributes:
        first_delay: Bound of the delay before the first attempt, in seconds.
        max_delay: Upper limit of that bound, in seconds.
        attempts: Give up after this many attempts in a row; None: never.
        deadline: Give up when an outage has lasted this many seconds; None: never.
        stable_after: A connection that lasts this many seconds ends the outage. One that is lost earlier counts as a
            failed attempt, and delays go on growing.
        fail_back_after: While connected to a host that is not the first of the list, try the hosts before it every
            this many seconds, and move to the first that answers; None: stay until the connection is lost. A move
            awaits pending receipts and sends DISCONNECT; messages not acknowledged by then are stale, and transactions
            not committed are lost, as after a loss.
        retry_first: Also retry the first connection. By default `connect` raises if no host answers, because a wrong
            address should be seen at once.
        random: Source of the jitter: returns a random number from 0 to 1.

    Sources: M. Brooker, "Exponential Backoff and Jitter" (2015).
    """

    first_delay: float = 0.1
    max_delay: float = 30.0
    attempts: int | None = None
    deadline: float | None = None
    stable_after: float = 10.0
    fail_back_after: float | None = None
    retry_first: bool = False
    random: Callable[[], float] = field(default=uniform, repr=False)

    def __post_init__(self) -> None:
        check_delays("Reconnect", self.first_delay, self.max_delay)
        require_seconds("Reconnect: stable_after", self.stable_after)
        if self.attempts is not None:
            require_whole("Reconnect: attempts", self.attempts, or_none=", or None for no limit")
        require_bool("Reconnect: retry_first", self.retry_first)
        spans: dict[str, object] = {"deadline": self.deadline, "fail_back_after": self.fail_back_after}
        for name, seconds in spans.items():
            is_valid = seconds is None or (is_number(seconds) and seconds > 0)
            require(is_valid, f"Reconnect: {name}", "more than 0 seconds, or None", seconds)

    def delay(self, failed: int) -> float:
        """Return the seconds to wait after this many failed attempts in a row."""
        return full_jitter(self.random, self.first_delay, self.max_delay, failed)


class CommonOptions(TypedDict, total=False):
    """The keyword arguments that `connect` has in asynchronous and in synchronous code."""

    login: str | None
    passcode: str | None
    vhost: str | None
    headers: HeaderInput | None

    versions: Sequence[str]
    profile: Profile | ProfileName | None
    heart_beat: tuple[float, float]
    heart_beat_margin: float

    tls: ssl.SSLContext | bool
    proxy: str | None
    websocket_headers: HeaderInput | None
    websocket_message_bytes: int | None

    timeout: float | None
    connect_timeout: float
    disconnect_timeout: float

    reconnect: Reconnect | bool | None
    connect_attempt_delay: float | None

    limits: Limits | None
    outbox_bytes: int
    unconfirmed_messages: int
    unconfirmed_bytes: int

    hooks: Hooks | Sequence[Hooks]


class ConnectOptions(CommonOptions, total=False):
    """The keyword arguments of `connect`, for programs that collect them in a dict: ``connect(url, **options)``."""

    credentials: Credentials | None


# No heart-beat or handshake takes this many seconds; other clients use milliseconds.
_SURELY_MILLISECONDS: Final = 1000


def _seconds(name: str, value: object) -> float:
    if not is_number(value):
        raise LocalProtocolError(f"{name} must be a number of seconds, got {value!r}")
    if not value > 0:
        raise LocalProtocolError(f"{name} must be more than 0 seconds, got {value!r}")
    if _SURELY_MILLISECONDS <= value < inf:
        raise LocalProtocolError(f"{name} is in seconds, and {value!r} looks like milliseconds: use {value / 1000:g}")
    return value


def _attempt_delay(value: object) -> float | None:
    return None if value is None else _seconds("connect_attempt_delay", value)


def _at_least(least: int, name: str, value: object) -> int:
    require_whole(name, value, least)
    return cast("int", value)


def _timeout(value: object) -> float | None:
    if value is not None and value == 0:
        # Elsewhere 0 leaves time for what needs no waiting, but no broker answers at once.
        msg = f"timeout must be more than 0 seconds, or None for no limit; got {value!r}"
        raise LocalProtocolError(msg)
    return limit_of(value, None)


def _offer(value: object) -> HeartBeatOffer:
    if is_number(value):
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


def _tls(value: object) -> ssl.SSLContext | bool:
    if isinstance(value, ssl.SSLContext) and value.protocol is ssl.PROTOCOL_TLS_SERVER:
        raise LocalProtocolError(
            "tls is a context for servers: use ssl.create_default_context(cafile=...), without a purpose"
        )
    if isinstance(value, ssl.SSLContext | bool):
        return value
    use = f": use ssl.create_default_context(cafile={value!r})" if isinstance(value, str) else ""
    raise LocalProtocolError(f"tls must be an ssl.SSLContext, True or False, got {shown(value)}{use}")


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        # It may be a passcode, so it is not shown.
        raise LocalProtocolError(f"{name} must be a str, got a value of type {type(value).__name__}")
    return value


def _credentials(value: object) -> object:
    if value is not None and not callable(value):
        raise LocalProtocolError(
            "credentials must be a function that returns user name and passcode, got a value of type "
            f"{type(value).__name__}: use login= and passcode= for fixed ones"
        )
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TransportOptions):
    """The options of one client, checked and with defaults. Each has the name of the argument of `connect`.

    Attributes:
        draft: Whether to speak the early draft of STOMP 1.0; `versions` is then 1.0 alone.
    """

    endpoints: tuple[Endpoint, ...]
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    vhost: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    draft: bool = False
    profile: Profile | None = None
    heart_beat: HeartBeatOffer = _DEFAULT_OFFER
    heart_beat_margin: float = 2.5
    websocket_message_bytes: int | None = None
    timeout: float | None = None
    connect_timeout: float = 10
    disconnect_timeout: float = 10
    reconnect: Reconnect | None = None
    connect_attempt_delay: float | None = None
    limits: Limits = field(default_factory=Limits)
    outbox_bytes: int = 1024 * 1024
    unconfirmed_messages: int = 100_000
    unconfirmed_bytes: int = 64 * 1024 * 1024
    hooks: tuple[Hooks, ...] = ()

    @classmethod
    def of(cls, urls: str | Sequence[str] | Endpoint, options: Mapping[str, object]) -> Settings:
        """Check the arguments of `connect`.

        Args:
            urls: The brokers.
            options: Some of `ConnectOptions`; the others have their defaults.

        Raises:
            LocalProtocolError: An option is invalid; the message says what was expected.
        """
        checked: dict[str, object] = {
            name: _CHECKS[name](value) if name in _CHECKS else value for name, value in options.items()
        }
        if "versions" in options:
            checked["versions"], checked["draft"] = _versions(options["versions"])
        endpoints = (urls,) if isinstance(urls, Endpoint) else _endpoints(urls, has_tls=bool(options.get("tls")))
        # The types are those of `connect`, or of what checks them.
        settings = cls(endpoints=endpoints, **checked)  # type: ignore[arg-type]
        if settings.draft:
            _require_no_vhost(settings.vhost, endpoints)
        return settings


def _margin(value: object) -> float:
    if not is_number(value) or not value >= 1:
        raise LocalProtocolError(f"heart_beat_margin must be at least 1 interval, got {value!r}")
    return value


def _profile(value: object) -> Profile | None:
    if value is None or isinstance(value, Profile):
        return value
    if isinstance(value, str):
        return profile_named(value)
    raise LocalProtocolError(f"profile must be the name of a broker, or a Profile, got {value!r}")


def _limits(value: object) -> Limits:
    if value is not None and not isinstance(value, Limits):
        raise LocalProtocolError(f"limits must be Limits, got {value!r}")
    return value or Limits()


def _hooks(given: object) -> tuple[Hooks, ...]:
    listed = tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else (given,)
    return tuple(map(_checked_hooks, listed))


def _checked_hooks(hooks: object) -> Hooks:
    if not isinstance(hooks, Hooks):
        msg = f"hooks must be Hooks, or a list of them, got {hooks!r}; derive yours from trio_stomp.Hooks"
        raise LocalProtocolError(msg)
    return hooks


def _listed(urls: str | Iterable[object]) -> list[object]:
    if isinstance(urls, str):
        return [urls]
    try:
        # bytes are iterable, but a list of numbers is not what the user means.
        return [urls] if isinstance(urls, bytes | bytearray) else list(urls)
    except TypeError:
        msg = f"connect() needs a broker URL as str, or a list of them, got {type(urls).__name__}"
        raise LocalProtocolError(msg) from None


def _endpoints(urls: str | Iterable[object], *, has_tls: bool) -> tuple[Endpoint, ...]:
    endpoints = tuple(map(Endpoint.parse, _listed(urls)))
    if not endpoints:
        raise LocalProtocolError("connect() needs at least one broker URL")
    if has_tls and any(endpoint.transport is Transport.UNIX for endpoint in endpoints):
        # Ignoring it would give up TLS silently, and a Unix socket has no host name to verify.
        msg = (
            "tls= cannot be used with stomp+unix://, because a Unix socket has no TLS; use stomps://, or leave out tls="
        )
        raise LocalProtocolError(msg)
    return endpoints


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(header_pairs(cast("HeaderInput | None", value)))


def _message_bytes(value: object) -> int | None:
    return None if value is None else _at_least(SMALLEST_MESSAGE_BYTES, "websocket_message_bytes", value)


def _proxy(url: object) -> Proxy | None:
    return None if url is None else Proxy.parse(url)


def _versions(names: object) -> tuple[tuple[Version, ...], bool]:
    """Return the versions to offer, and whether to speak the draft of 1.0."""
    given = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(cast("Iterable[str]", names))
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


# What checks the value of an option, and makes of it what the connection uses.
_CHECKS: Final[Mapping[str, Callable[[object], object]]] = {
    "login": partial(_text, "login"),
    "passcode": partial(_text, "passcode"),
    "credentials": _credentials,
    "vhost": partial(_text, "vhost"),
    "headers": _pairs,
    "profile": _profile,
    "heart_beat": _offer,
    "heart_beat_margin": _margin,
    "tls": _tls,
    "proxy": _proxy,
    "websocket_headers": _pairs,
    "websocket_message_bytes": _message_bytes,
    "timeout": _timeout,
    "connect_timeout": partial(_seconds, "connect_timeout"),
    "disconnect_timeout": partial(_seconds, "disconnect_timeout"),
    "reconnect": _reconnect,
    "connect_attempt_delay": _attempt_delay,
    "limits": _limits,
    "outbox_bytes": partial(_at_least, 1, "outbox_bytes"),
    "unconfirmed_messages": partial(_at_least, 1, "unconfirmed_messages"),
    "unconfirmed_bytes": partial(_at_least, 1, "unconfirmed_bytes"),
    "hooks": _hooks,
}
