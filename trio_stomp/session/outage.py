"""What ends a client that reconnects, and the attempts that it makes before that.

By default such a client never gives up. This is all that ends it, apart from its own program:

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

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
from trio_stomp.session.dialing import dial_in_order
from trio_stomp.session.link import Link
from trio_stomp.session.reconnect import Reconnect
from trio_stomp.session.settings import Settings
from trio_stomp.session.state import Phase
from trio_stomp.transport import Endpoint

__all__ = ["Outage", "Progress"]

logger: Final = logging.getLogger("trio_stomp")

Progress = Callable[[Phase, StompError | None, int], None]

# How often a peer may break the protocol before another attempt is held to be in vain: one may be bad luck.
_VIOLATIONS: Final = 3

# A credentials= callable may have returned a token that expired on its way; more often than this, it is wrong.
_REFUSALS_OF_FRESH_CREDENTIALS: Final = 3

# STOMP has no codes, so an ERROR in unknown words may be a passing trouble; the same one again is an answer.
_SAME_ERRORS: Final = 2

# What changes from one refusal to the next: times, ports, ids of connections.
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


@dataclass(slots=True)
class _Host:
    """How one host has answered CONNECT in this outage.

    Attributes:
        said: What it has said last, where that was a refusal.
        times: How often it has said so in a row.
        refused: Its refusal, once it is held to be final.
    """

    said: str | None = None
    times: int = 0
    refused: ConnectFailure | None = None

    def note(self, failure: ConnectFailure, *, are_fresh: bool) -> None:
        """Take an attempt into account; `are_fresh` tells that the credentials may be others the next time."""
        said = _refusal_in(failure)
        self.times = self.times + 1 if said is not None and said == self.said else 1
        self.said = said
        limit = 1 if failure.refused else _SAME_ERRORS
        if are_fresh:
            limit = _REFUSALS_OF_FRESH_CREDENTIALS
        if said is not None and self.times >= limit:
            self.refused = failure


def _refusal_in(failure: ConnectFailure) -> str | None:
    """What a host has refused with, as far as it does not change from one time to the next."""
    if failure.refused:
        return "the credentials"
    if failure.step == "connect" and isinstance(failure.cause, BrokerError):
        return str(failure.cause).partition("\n")[0].translate(_NO_DIGITS)
    return None


class Outage:
    """The attempts to connect since the last connection that was stable, and whether another one follows.

    Args:
        policy: How long to wait, and when to give up.
        settings: Whom to dial.

    Attributes:
        attempts: How many were made in a row.
    """

    def __init__(self, policy: Reconnect, settings: Settings) -> None:
        self._policy = policy
        self._settings = settings
        self._begin(trio.current_time())

    def _begin(self, now: float) -> None:
        self._began = now
        self._hosts = {endpoint: _Host() for endpoint in self._settings.endpoints}
        self._violations = 0
        self.attempts = 0

    def lost(self, failure: StompError, connected_at: float, *, progressed: bool) -> bool:
        """A connection was lost; it ends the outage before it if it has lasted long enough.

        Args:
            failure: What it was lost by.
            connected_at: Clock time of its beginning.
            progressed: Whether anything was confirmed or settled on it.

        Returns:
            Whether that ends the client.
        """
        now = trio.current_time()
        if now - connected_at >= self._policy.stable_after:
            self._begin(now)
        if not isinstance(failure, RemoteProtocolError):
            return False
        self._violations = 1 if progressed else self._violations + 1
        return isinstance(failure, LimitExceeded) or self._violations >= _VIOLATIONS

    async def dial(self, cause: StompError | None, progress: Progress) -> Link:
        """Dial until a host answers.

        Args:
            cause: What the link was lost by.
            progress: Told of each step: phase, cause, attempts.

        Raises:
            AuthenticationError: Every host has refused, one of them the credentials.
            ConnectError: Every host has refused.
            ConnectionLost: The policy says to give up.

        Cancellation: what was opened is closed.
        """
        policy, last = self._policy, cause
        with trio.CancelScope() as scope:
            if policy.deadline is not None:
                scope.deadline = self._began + policy.deadline
            while policy.attempts is None or self.attempts < policy.attempts:
                await trio.sleep(policy.delay(self.attempts))
                self.attempts += 1
                progress(Phase.CONNECTING, last, self.attempts)
                dialed = [endpoint for endpoint in self._settings.endpoints if self._hosts[endpoint].refused is None]
                try:
                    return await dial_in_order(self._settings, endpoints=dialed)
                except ConnectError as error:
                    last = error
                logger.info("attempt %d to connect failed: %s", self.attempts, last)
                progress(Phase.LOST, last, self.attempts)
                self._note(dialed, last.failures)
        seconds = trio.current_time() - self._began
        msg = f"no connection after {self.attempts} attempts in {seconds:.1f} s, and Reconnect() says to give up"
        raise ConnectionLost(f"{msg}: {last}") from last

    def _note(self, dialed: list[Endpoint], failures: tuple[ConnectFailure, ...]) -> None:
        """Take an attempt into account that has failed at all these hosts; raises when all have refused for good."""
        for endpoint, failure in zip(dialed, failures, strict=True):
            self._hosts[endpoint].note(failure, are_fresh=self._settings.credentials is not None)
        refusals = [host.refused for host in self._hosts.values() if host.refused is not None]
        if len(refusals) == len(self._hosts):
            kind = AuthenticationError if any(refusal.refused for refusal in refusals) else ConnectError
            raise kind(refusals) from refusals[-1].cause
