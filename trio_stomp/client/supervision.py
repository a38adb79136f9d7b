"""The supervisor: serves a connection until it has ended, and dials the next one where the policy says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from trio_stomp.client.connection import Connection
from trio_stomp.client.dialing import dial_in_order
from trio_stomp.client.farewell import say_farewell
from trio_stomp.client.line import Line
from trio_stomp.client.link import Link
from trio_stomp.client.options import Settings
from trio_stomp.client.reconnect import Reconnect
from trio_stomp.client.restoring import restore
from trio_stomp.client.services import SERVICES, guarded
from trio_stomp.client.state import Phase
from trio_stomp.errors import AuthenticationError, ConnectError, ConnectionLost, StompError

__all__ = ["Outage", "supervise"]

logger: Final = logging.getLogger("trio_stomp")

# How long the courtesies of closing may take (TLS close_notify) once all is said.
_CLOSE_TIMEOUT: Final = 1.0

# A callback may have returned credentials that expired on the way; more often than this, they are wrong.
_REFUSALS: Final = 3

Progress = Callable[[Phase, StompError | None, int], None]


class Outage:
    """The attempts to connect since the last connection that was stable.

    Args:
        policy: How long to wait, and when to give up.
        settings: Whom to dial.

    Attributes:
        attempts: How many were made in a row.
    """

    def __init__(self, policy: Reconnect, settings: Settings) -> None:
        self._policy = policy
        self._settings = settings
        self._refusals = 0
        self._began = trio.current_time()
        self.attempts = 0

    def lost(self, connected_at: float) -> None:
        """A connection was lost; it ends the outage before it if it has lasted long enough."""
        now = trio.current_time()
        if now - connected_at >= self._policy.stable_after:
            self.attempts = 0
            self._refusals = 0
            self._began = now

    async def dial(self, cause: StompError | None, progress: Progress) -> Link:
        """Dial until a host answers.

        Args:
            cause: What the link was lost by.
            progress: Told of each step: phase, cause, attempts.

        Raises:
            AuthenticationError: The credentials were refused.
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
                try:
                    return await dial_in_order(self._settings)
                except ConnectError as error:
                    self._count_refusal(error)
                    last = error
                    logger.info("attempt %d to connect failed: %s", self.attempts, error)
                    progress(Phase.LOST, error, self.attempts)
        seconds = trio.current_time() - self._began
        msg = f"no connection after {self.attempts} attempts in {seconds:.1f} s, and Reconnect() says to give up"
        raise ConnectionLost(f"{msg}: {last}") from last

    def _count_refusal(self, error: ConnectError) -> None:
        """Refused credentials are final, unless a callback makes new ones: then for a few times they are not."""
        if isinstance(error, AuthenticationError):
            self._refusals += 1
            if self._settings.credentials is None or self._refusals >= _REFUSALS:
                raise error


async def supervise(line: Line) -> None:
    """Serve one connection after the other until the line is over.

    Raises:
        StompError: There is no next connection.

    Cancellation: the present connection is closed.
    """
    outage = None if line.policy is None else Outage(line.policy, line.settings)
    first = True
    try:
        while True:
            began = trio.current_time()
            await _serve(line, line.connection, restores=not first)
            if line.failure is not None or outage is None:
                return
            first = False
            link = line.moving_to
            if link is None:
                outage.lost(began)
                link = await _dial(line, outage)
            if link is None:
                return
            if line.ended.is_set():
                # It stood just as its program left.
                await trio.aclose_forcefully(link.stream)
                return
            line.install(link)
    finally:
        if line.moving_to is not None:
            await trio.aclose_forcefully(line.moving_to.stream)


async def _dial(line: Line, outage: Outage) -> Link | None:
    """Dial the next link; None when the line is over meanwhile."""

    def note(phase: Phase, cause: StompError | None, attempt: int) -> None:
        line.note(phase, cause, attempt=attempt, endpoint=False)

    with trio.CancelScope() as line.dialing:
        return await outage.dial(line.connection.failure, note)
    return None


async def _serve(line: Line, connection: Connection, *, restores: bool) -> None:
    """Serve a connection until it has ended, then close its stream."""
    try:
        async with trio.open_nursery() as services:
            for service in SERVICES:
                services.start_soon(guarded, service, connection)
            if restores:
                services.start_soon(guarded, restore, connection, line)
            services.start_soon(guarded, _fail_back, connection, line)
            await connection.ended.wait()
            services.cancel_scope.cancel()
    finally:
        if connection.said_farewell:
            with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await connection.stream.aclose()
        await trio.aclose_forcefully(connection.stream)


async def _fail_back(connection: Connection, line: Line) -> None:
    """While connected to a host that is not the first, try those before it, and move to the one that answers."""
    settings, policy = line.settings, line.policy
    preferred = settings.endpoints[: settings.endpoints.index(connection.link.endpoint)]
    if policy is None or policy.fail_back_after is None or not preferred:
        return
    while True:
        await trio.sleep(policy.fail_back_after)
        try:
            link = await dial_in_order(settings, endpoints=preferred)
        except ConnectError as error:
            logger.debug("no way back yet: %s", error)
            continue
        if not line.move_to(link, away_from=connection):
            await trio.aclose_forcefully(link.stream)
            return
        logger.info("moving from %s back to %s", connection.link.endpoint, link.endpoint)
        await say_farewell(connection, settings.disconnect_timeout)
        return
