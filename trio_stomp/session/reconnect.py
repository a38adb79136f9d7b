"""When a client reconnects, and when it gives up: the attempts that its policy (`Reconnect`) counts.

By default such a client never gives up. Only this ends it, apart from its own program:

====================================================  ==================================  ==========================
what happens                                          it ends                             with
====================================================  ==================================  ==========================
the broker sends more than the limits allow           at once: it would send that again   that ``LimitExceeded``
a broker sends what is no STOMP, or cannot be         the third time without progress     that
decoded                                               in between                          ``RemoteProtocolError``
every host refuses the credentials, the virtual       at once; with ``credentials=``,     ``ConnectError``, or
host or the versions, in words that are known         when it returns what was refused    ``AuthenticationError``
                                                      before                              if one is about the first
an option of the program cannot be sent to a broker   at once                             that
                                                                                          ``LocalProtocolError``
``Reconnect(attempts=)`` or ``deadline=`` is reached  then                                ``ConnectionLost``
====================================================  ==================================  ==========================

A host that has refused like that is not dialed again in the same outage (with ``credentials=`` it is, because they may
have changed), but it ends nothing while another host may still come back. Everything else is an attempt that failed,
and another one follows: a host that cannot be reached, one that does not answer, one that answers CONNECT with any
other ERROR ("starting", "limit reached"), a lost connection, ``credentials=`` that raised.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trio_stomp.brokers import is_final_refusal
from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    ConnectFailure,
    ConnectionLost,
    LimitExceeded,
    RemoteProtocolError,
    StompError,
)
from trio_stomp.runtime import called, completed, current_time
from trio_stomp.session.settings import Reconnect, Settings
from trio_stomp.transport import Endpoint

__all__ = ["Outage", "Refusals"]

# How often a peer may break the protocol before further attempts are useless: one violation may be bad luck.
_VIOLATIONS: Final = 3

# An outage may last for hours, with an attempt every few seconds.
_WARN_SECONDS: Final = 60

# Digits differ between refusals of the same kind: times, ports, ids of connections.
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


class Refusals:
    """The refusals in a row of one subscription that a broker had accepted before.

    Args:
        policy: How long to wait, and when to give up.

    Attributes:
        count: Their number.
        error: The last one.
        retry_at: Clock time at which to subscribe again, or to give up; infinite until `arm`.
    """

    def __init__(self, policy: Reconnect) -> None:
        self._policy = policy
        self._deadline = current_time() + (math.inf if policy.deadline is None else policy.deadline)
        self.count = 0
        self.error: StompError | None = None
        self.retry_at = math.inf
        self._delay = 0.0

    def add(self, error: StompError) -> None:
        """Count a refusal."""
        self.count += 1
        self.error = error
        self._delay = self._policy.delay(self.count)
        self.retry_at = math.inf

    def arm(self) -> None:
        """Let the delay begin, because a connection is in use.

        If it began while there is none, the next one might end at once by the same refusal, to the harm of the others.
        """
        if self.retry_at == math.inf:
            self.retry_at = min(current_time() + self._delay, self._deadline)

    @property
    def is_over(self) -> bool:
        """Whether the policy allows no further attempt."""
        attempts = self._policy.attempts
        return current_time() >= self._deadline or (attempts is not None and self.count >= attempts)


def _is_final(failure: ConnectFailure) -> bool:
    """Whether a host has refused in words that mean that it will refuse the same CONNECT again."""
    error = failure.cause
    return failure.refused or (isinstance(error, BrokerError) and is_final_refusal(error.message, error.body))


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
        self._credentials = settings.credentials
        self.settings = settings if settings.credentials is None else replace(settings, credentials=self._ask)
        self._warned_at: dict[str, float] = {}
        self._begin(current_time())

    def _begin(self, now: float) -> None:
        self._began = now
        # The hosts that have refused for good.
        self._refused: dict[Endpoint, ConnectFailure] = {}
        # What credentials= has returned last, what it had returned when a host refused that, and whether it has
        # returned anything else in this attempt.
        self._given: object = None
        self._rejected: object = None
        self._has_new = False
        self._last_words: tuple[str, ...] = ()
        # How often in a row the broker has ended a connection because it refused to restore a subscription.
        self._restorations = 0
        self._violations = 0
        self.attempts = 0

    async def _ask(self) -> tuple[str, str]:
        """Call credentials=, and compare what it returns with what was refused."""
        if self._credentials is None:
            raise AssertionError(self)
        given = await completed(called(self._credentials))
        self._has_new = self._has_new or given != self._rejected
        self._given = given
        return given

    def refused_to_restore(self, *, was_in_use: bool) -> None:
        """Record that a connection has ended because of a subscription, which will be retried by itself.

        The connection was good, so this is no failed attempt, and the others need not wait long for the next one. Only
        where the broker refuses one subscription after the other while they are restored, delays grow.
        """
        restorations = 0 if was_in_use else self._restorations + 1
        self._begin(current_time())
        self._restorations = restorations

    def lost(self, failure: StompError, connected_at: float, *, progressed: bool) -> bool:
        """Record that a connection was lost. If it lasted long enough, it has ended the outage before it.

        Args:
            failure: Why it was lost.
            connected_at: Clock time at which it was made.
            progressed: Whether anything was confirmed or settled on it.

        Returns:
            Whether the client gives up.
        """
        now = current_time()
        if now - connected_at >= self._policy.stable_after:
            self._begin(now)
        if not isinstance(failure, RemoteProtocolError):
            return False
        self._violations = 1 if progressed else self._violations + 1
        return isinstance(failure, LimitExceeded) or self._violations >= _VIOLATIONS

    def log_level_of_attempt(self, failures: Sequence[ConnectFailure]) -> int:
        """Return the level at which to log a failed attempt: a refusal is a WARNING once, until its text changes."""
        words = tuple(str(each.cause) for each in failures if isinstance(each.cause, BrokerError))
        if not words:
            return self.log_level("attempt")
        before, self._last_words = self._last_words, words
        is_new = [each.translate(_NO_DIGITS) for each in words] != [each.translate(_NO_DIGITS) for each in before]
        return logging.WARNING if is_new else logging.DEBUG

    def log_level(self, event: str) -> int:
        """Return the level at which to log an event: WARNING at most once a minute, INFO in between."""
        now = current_time()
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
        return self._policy.delay(self.attempts + self._restorations)

    def begin_attempt(self) -> list[Endpoint]:
        """Count an attempt; return the hosts to dial, in order."""
        self.attempts += 1
        self._has_new = False
        if self._credentials is not None:
            self._refused.clear()
        return [endpoint for endpoint in self.settings.endpoints if endpoint not in self._refused]

    def attempt_failed(self, dialed: Sequence[Endpoint], failures: Sequence[ConnectFailure]) -> None:
        """Record an attempt that failed at all these hosts.

        Raises:
            AuthenticationError: Every host has refused for good, one of them the credentials.
            ConnectError: Every host has refused for good.
        """
        final = {endpoint: each for endpoint, each in zip(dialed, failures, strict=True) if _is_final(each)}
        if final and self._has_new:
            # A token may expire in transit: what credentials= returns next is tried, unless it is the same again.
            self._rejected = self._given
            return
        self._refused.update(final)
        refusals = [self._refused[endpoint] for endpoint in self.settings.endpoints if endpoint in self._refused]
        if len(refusals) == len(self.settings.endpoints):
            kind = AuthenticationError if any(refusal.refused for refusal in refusals) else ConnectError
            raise kind(refusals) from refusals[-1].cause

    def given_up(self, last: StompError | None) -> ConnectionLost:
        """Return the failure to end a client with when it gives up."""
        seconds = current_time() - self._began
        text = f"no connection after {self.attempts} attempts in {seconds:.1f} s, where Reconnect() is set to give up: "
        text += "no host has answered" if last is None else str(last)
        if self._last_words and self._last_words[-1] not in text:
            # What the broker has said before it could not be reached at all is often the reason.
            text += f"; before that, the broker had refused: {self._last_words[-1]}"
        return ConnectionLost(text)
