"""When a client reconnects, and when it gives up: the policy, and the attempts that it counts.

By default such a client never gives up. Only this ends it, apart from its own program:

====================================================  ==================================  ==========================
what happens                                          it ends                             with
====================================================  ==================================  ==========================
the broker sends more than the limits allow           at once: it would send that again   that ``LimitExceeded``
a broker sends what is no STOMP, or cannot be         the third time without progress     that
decoded                                               in between                          ``RemoteProtocolError``
every host refuses the credentials                    the first time; with                ``AuthenticationError``
                                                      ``credentials=``, the third time
every host answers CONNECT with an ERROR, in words    the second time in a row with the   ``ConnectError``, or
that are not known to be about the credentials        same words; with ``credentials=``,  ``AuthenticationError``
                                                      the third                           where one is about them
an option of the program cannot be sent to a broker   at once                             that
                                                                                          ``LocalProtocolError``
``Reconnect(attempts=)`` or ``deadline=`` is reached  then                                ``ConnectionLost``
====================================================  ==================================  ==========================

A host that has refused is not dialed again in the same outage, but it ends nothing while another host may still come
back. Everything else is an attempt that failed, and another one follows: a host that cannot be reached, one that does
not answer, a lost connection, ``credentials=`` that raised.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    ConnectFailure,
    ConnectionLost,
    LimitExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    StompError,
)
from trio_stomp.transport import Endpoint

if TYPE_CHECKING:
    from trio_stomp.session.settings import Settings

__all__ = ["Outage", "Reconnect"]

# How often a peer may break the protocol before further attempts are useless: one violation may be bad luck.
_VIOLATIONS: Final = 3

# An outage may last for hours, with an attempt every few seconds.
_WARN_SECONDS: Final = 60

# A credentials= function may have returned a token that expired in transit. After this many refusals, it is wrong.
_REFUSALS_OF_FRESH_CREDENTIALS: Final = 3

# STOMP has no error codes, so an ERROR with unknown text may be temporary. The same text again is final.
_SAME_ERRORS: Final = 2

# Digits differ between refusals: times, ports, ids of connections.
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """Connect again when the connection is lost, and restore subscriptions and unconfirmed messages.

    The delay before each attempt is a random number between zero and a bound that doubles from attempt to attempt
    ("full jitter"), so that a thousand clients do not all reconnect at once. An attempt tries every host of the list,
    in order.

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
        chance: Source of the jitter: returns a random number from 0 to 1.

    Sources: M. Brooker, "Exponential Backoff and Jitter" (2015).
    """

    first_delay: float = 0.1
    max_delay: float = 30.0
    attempts: int | None = None
    deadline: float | None = None
    stable_after: float = 10.0
    fail_back_after: float | None = None
    retry_first: bool = False
    chance: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("first_delay", self.first_delay), ("stable_after", self.stable_after)):
            if not value >= 0:
                msg = f"Reconnect: {name} must be 0 seconds or more, got {value!r}"
                raise LocalProtocolError(msg)
        if not self.max_delay >= self.first_delay:
            msg = f"Reconnect: max_delay must be at least first_delay ({self.first_delay!r}), got {self.max_delay!r}"
            raise LocalProtocolError(msg)
        if self.attempts is not None and self.attempts < 1:
            msg = f"Reconnect: attempts must be at least 1, or None for no limit, got {self.attempts!r}"
            raise LocalProtocolError(msg)
        for name, seconds in (("deadline", self.deadline), ("fail_back_after", self.fail_back_after)):
            if seconds is not None and not seconds > 0:
                msg = f"Reconnect: {name} must be more than 0 seconds, or None, got {seconds!r}"
                raise LocalProtocolError(msg)

    def delay(self, failed: int) -> float:
        """Return the seconds to wait after this many failed attempts in a row."""
        # Beyond 2**60 the bound is max_delay in any case, and a float would overflow at some point.
        return self.chance() * min(self.max_delay, self.first_delay * 2.0 ** min(failed, 60))


@dataclass(slots=True)
class _Host:
    """How one host has answered CONNECT in this outage.

    Attributes:
        said: Its last refusal, or None if its last answer was not a refusal.
        times: How often it has given the same answer in a row.
        refused: Its refusal, once that is considered final.
    """

    said: str | None = None
    times: int = 0
    refused: ConnectFailure | None = None

    def note(self, failure: ConnectFailure, *, are_fresh: bool) -> None:
        """Record a failed attempt. If `are_fresh`, the credentials may differ the next time."""
        said = _refusal_in(failure)
        self.times = self.times + 1 if said is not None and said == self.said else 1
        self.said = said
        limit = 1 if failure.refused else _SAME_ERRORS
        if are_fresh:
            limit = _REFUSALS_OF_FRESH_CREDENTIALS
        if said is not None and self.times >= limit:
            self.refused = failure


def _refusal_in(failure: ConnectFailure) -> str | None:
    """Return the refusal of a host, without what changes each time; None if it has not refused."""
    if failure.refused:
        return "the credentials"
    if failure.step == "connect" and isinstance(failure.cause, BrokerError):
        return str(failure.cause).translate(_NO_DIGITS)
    return None


class Outage:
    """The attempts to connect since the last stable connection.

    Args:
        policy: How long to wait, and when to give up.
        settings: Which hosts to dial, and how.

    Attributes:
        settings: Which hosts to dial, and how.
        attempts: Number of attempts in a row.
    """

    def __init__(self, policy: Reconnect, settings: Settings) -> None:
        self._policy = policy
        self.settings = settings
        self._warned_at: dict[str, float] = {}
        self._begin(trio.current_time())

    def _begin(self, now: float) -> None:
        self._began = now
        self._hosts = {endpoint: _Host() for endpoint in self.settings.endpoints}
        self._violations = 0
        self.attempts = 0

    def lost(self, failure: StompError, connected_at: float, *, progressed: bool) -> bool:
        """Record that a connection was lost. If it lasted long enough, it has ended the outage before it.

        Args:
            failure: Why it was lost.
            connected_at: Clock time at which it was made.
            progressed: Whether anything was confirmed or settled on it.

        Returns:
            Whether the client gives up.
        """
        now = trio.current_time()
        if now - connected_at >= self._policy.stable_after:
            self._begin(now)
        if not isinstance(failure, RemoteProtocolError):
            return False
        self._violations = 1 if progressed else self._violations + 1
        return isinstance(failure, LimitExceeded) or self._violations >= _VIOLATIONS

    def log_level(self, event: str) -> int:
        """Return the level at which to log an event: WARNING at most once a minute, INFO in between."""
        now = trio.current_time()
        if now - self._warned_at.get(event, -math.inf) < _WARN_SECONDS:
            return logging.INFO
        self._warned_at[event] = now
        return logging.WARNING

    @property
    def deadline(self) -> float:
        """Clock time at which to give up."""
        return math.inf if self._policy.deadline is None else self._began + self._policy.deadline

    @property
    def has_attempts_left(self) -> bool:
        """Whether the policy allows another attempt."""
        return self._policy.attempts is None or self.attempts < self._policy.attempts

    def delay(self) -> float:
        """Seconds to wait before the next attempt."""
        return self._policy.delay(self.attempts)

    def begin_attempt(self) -> list[Endpoint]:
        """Count an attempt; return the hosts to dial, in order."""
        self.attempts += 1
        return [endpoint for endpoint in self.settings.endpoints if self._hosts[endpoint].refused is None]

    def attempt_failed(self, dialed: Sequence[Endpoint], failures: Sequence[ConnectFailure]) -> None:
        """Record an attempt that failed at all these hosts.

        Raises:
            AuthenticationError: Every host has refused for good, one of them the credentials.
            ConnectError: Every host has refused for good.
        """
        for endpoint, failure in zip(dialed, failures, strict=True):
            self._hosts[endpoint].note(failure, are_fresh=self.settings.credentials is not None)
        refusals = [host.refused for host in self._hosts.values() if host.refused is not None]
        if len(refusals) == len(self._hosts):
            kind = AuthenticationError if any(refusal.refused for refusal in refusals) else ConnectError
            raise kind(refusals) from refusals[-1].cause

    def given_up(self, last: StompError | None) -> ConnectionLost:
        """Return the failure to end a client with when it gives up."""
        seconds = trio.current_time() - self._began
        return ConnectionLost(
            f"no connection after {self.attempts} attempts in {seconds:.1f} s, where Reconnect() is set to give up: "
            f"{last}"
        )
