"""The supervisor: serves a connection until it has ended, and dials the next one where the policy says so."""

from __future__ import annotations

import logging
from typing import Final

import trio

from trio_stomp.errors import StompError
from trio_stomp.session.connection import Connection
from trio_stomp.session.connection_tasks import SERVICES, guarded
from trio_stomp.session.dialing import dial_in_order
from trio_stomp.session.link import Link
from trio_stomp.session.outage import Outage
from trio_stomp.session.restoring import restore
from trio_stomp.session.session import Session
from trio_stomp.session.state import Phase, Stage

__all__ = ["supervise"]

logger: Final = logging.getLogger("trio_stomp")

# How long the courtesies of closing may take (TLS close_notify) once all is said.
_CLOSE_TIMEOUT: Final = 1.0


async def supervise(session: Session) -> None:
    """Serve one connection after the other until the session is over.

    Raises:
        StompError: There is no next connection.

    Cancellation: the present connection is closed.
    """
    first = True
    try:
        while True:
            await _serve(session, session.connection, restores=not first)
            if session.failure is not None or session.outage is None:
                return
            first = False
            link = session.next_link
            if link is None:
                link = await _dial(session, session.outage)
            if link is None:
                return
            if session.ended.is_set():
                # It stood just as its program left.
                await trio.aclose_forcefully(link.stream)
                return
            session.install(link)
    finally:
        if session.next_link is not None:
            await trio.aclose_forcefully(session.next_link.stream)


async def _dial(session: Session, outage: Outage) -> Link | None:
    """Dial the next link; None when the session is over meanwhile."""

    def note(phase: Phase, cause: StompError | None, attempt: int) -> None:
        if not session.ended.is_set():
            session.note(phase, cause, attempt=attempt, endpoint=False)

    with trio.CancelScope() as session.dialing:
        return await outage.dial(session.connection.failure, note)
    return None


async def _serve(session: Session, connection: Connection, *, restores: bool) -> None:
    """Serve a connection until it has ended, then close its stream."""
    try:
        async with trio.open_nursery() as services:
            for service in SERVICES:
                services.start_soon(guarded, service, connection)
            if restores:
                services.start_soon(guarded, restore, connection, session)
            services.start_soon(guarded, _fail_back, connection, session)
            await connection.ended.wait()
            services.cancel_scope.cancel()
    finally:
        if connection.was_left:
            with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await connection.stream.aclose()
        await trio.aclose_forcefully(connection.stream)


async def _fail_back(connection: Connection, session: Session) -> None:
    """While connected to a host that is not the first, try those before it, and move to the one that answers."""
    settings, policy = session.settings, session.policy
    preferred = settings.endpoints[: settings.endpoints.index(connection.link.endpoint)]
    if policy is None or policy.fail_back_after is None or not preferred:
        return
    while connection.stage is Stage.OPEN:
        await trio.sleep(policy.fail_back_after)
        try:
            link = await dial_in_order(settings, endpoints=preferred)
        except StompError as error:
            logger.debug("no way back yet: %s", error)
            continue
        if session.move_to(link, away_from=connection):
            logger.info("moving from %s back to %s", connection.link.endpoint, link.endpoint)
            await connection.say_farewell(trio.current_time() + settings.disconnect_timeout)
        else:
            # The program leaves, or what the last connection held is still being restored here: it is tried again.
            await trio.aclose_forcefully(link.stream)
