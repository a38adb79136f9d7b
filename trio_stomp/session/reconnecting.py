"""One connection after the other: serve it, dial the next one, and restore subscriptions and unconfirmed messages.

Theory of operation. `supervise` is the one background task of a client. It runs the tasks of a connection until that
has ended. If the session continues, it dials the next link, or takes the one that the session moves to, and runs the
tasks of the next connection, which then include `_restore`.

Subscriptions are restored first, so that no reply to a message that is sent again is missed; then unconfirmed messages,
in order. Verbs send nothing new before both are done. So a client always sends in the order of its calls, even across
reconnections.

A queue may not be there when the client is connected again: its home node is down, or a mirror is being promoted. So a
subscription that a broker had accepted before is not given up when it is refused; it waits, and `_retry_refused` tries
it again with the delays of the policy. Everything else on the connection goes on meanwhile.

Many brokers close the connection after an ERROR, and RabbitMQ's ERRORs name no frame. So at most one such subscription
is tried at a time, by which it is known what an ERROR is about. The connection that follows restores the others at
once, and leaves this one out until its next attempt is due.

Where the broker closes the connection without an ERROR, `Suspicion` notes which subscriptions may be the reason. They
are restored last, in groups of 1, 2, 4 and so on, so that a close is soon about one alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import anyio

from trio_stomp.errors import (
    ConnectError,
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    NotSupportedError,
    StompError,
)
from trio_stomp.printable import safe_str
from trio_stomp.runtime import current_time, move_on_at
from trio_stomp.session.body_source import BodySource, source_of
from trio_stomp.session.connection_tasks import SERVICES
from trio_stomp.session.dialing import Link, dial_in_order
from trio_stomp.session.failures import guarded
from trio_stomp.session.reconnect import Outage
from trio_stomp.session.state import Phase

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection
    from trio_stomp.session.receipts import Publication, Receipt
    from trio_stomp.session.session import Session
    from trio_stomp.session.settings import Settings
    from trio_stomp.session.subscription_state import Registration

__all__ = ["dial_again", "first_link", "supervise"]

logger: Final = logging.getLogger("trio_stomp")

# How long a graceful close of the stream may take (TLS close_notify) after DISCONNECT.
_CLOSE_TIMEOUT: Final = 1.0

# A broker that sends no RECEIPT for SUBSCRIBE has accepted one that was sent alone when it says nothing for this long.
# Where there are many, the second number is for all together.
_SILENCE_SECONDS: Final = 0.25
_ALL_SECONDS: Final = 5.0


async def supervise(session: Session) -> None:
    """Serve one connection after the other until the session is over; never raises.

    Cancellation: the current connection is closed.
    """
    await guarded(_serve_all, session)


async def _serve_all(session: Session) -> None:
    """`supervise`.

    Raises:
        StompError: There is no next connection.

    Cancellation: as `supervise`.
    """
    try:
        await _serve(session, session.connection, restores=False)
        while (link := await _next_link(session)) is not None:
            session.install(link)
            await _serve(session, session.connection, restores=True)
    finally:
        if session.next_link is not None:
            with anyio.CancelScope(shield=True):  # as in `_serve`
                await anyio.aclose_forcefully(session.next_link.stream)


async def _serve(session: Session, connection: Connection, *, restores: bool) -> None:
    """Serve a connection until it has ended, then close its stream."""
    try:
        async with anyio.create_task_group() as tasks:
            for service in SERVICES:
                tasks.start_soon(guarded, service, connection)
            if restores:
                tasks.start_soon(guarded, _restore, connection, session)
                tasks.start_soon(guarded, _retry_refused, connection, session)
            tasks.start_soon(guarded, _fail_back, connection, session)
            await connection.ended.wait()
            tasks.cancel_scope.cancel()
    finally:
        if connection.was_left:
            with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await connection.stream.aclose()
        # In a canceled task, a `Cancelled` from here would replace a KeyboardInterrupt, which then is lost.
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(connection.stream)


# --- links ------------------------------------------------------------------------------------------------------------


async def first_link(settings: Settings) -> Link:
    """Dial for a new client; with `Reconnect.retry_first`, until a host answers.

    Raises:
        ConnectError: No host could be connected to.
        ConnectionLost: A limit of the policy is reached.

    Cancellation: what was opened is closed.
    """
    policy = settings.reconnect
    if policy is None or not policy.retry_first:
        return await dial_in_order(settings)
    outage = Outage(policy, settings)
    link = await dial_again(outage)
    if outage.attempts > 1:
        logger.info("connected to %s at attempt %d", link.endpoint, outage.attempts)
    return link


async def _next_link(session: Session) -> Link | None:
    """Return the next link, or None when the session is over."""
    outage = session.outage
    if session.failure is not None or outage is None:
        return None
    if session.next_link is not None:
        return session.next_link

    def progress(phase: Phase, cause: StompError | None) -> None:
        if not session.ended.is_set():
            session.note(phase, cause, attempt=outage.attempts, endpoint=False)
        if phase is Phase.LOST:
            session.suspicion.attempt_failed()

    link: Link | None = None
    with anyio.CancelScope() as session.dialing:
        link = await dial_again(outage, session.connection.failure, progress)
    if link is not None and session.ended.is_set():
        # The program has left just as the connection was made.
        await anyio.aclose_forcefully(link.stream)
        return None
    return link


async def dial_again(
    outage: Outage,
    cause: StompError | None = None,
    progress: Callable[[Phase, StompError | None], None] = lambda _phase, _cause: None,
) -> Link:
    """Dial until a host answers.

    Args:
        outage: The attempts so far, and when to give up.
        cause: Why the last link was lost.
        progress: Called at each step, with the failure before it.

    Raises:
        AuthenticationError: Every host has refused, one of them the credentials.
        ConnectError: Every host has refused.
        ConnectionLost: A limit of the policy is reached.

    Cancellation: what was opened is closed.
    """
    last = cause
    with anyio.CancelScope(deadline=outage.deadline):
        while outage.has_attempts_left:
            await anyio.sleep(outage.delay())
            hosts = outage.begin_attempt()
            progress(Phase.CONNECTING, last)
            try:
                return await dial_in_order(outage.settings, endpoints=hosts)
            except ConnectError as error:
                last = error
            level = outage.log_level_of_attempt(last.failures)
            logger.log(level, "attempt %d to connect failed: %s", outage.attempts, last)
            progress(Phase.LOST, last)
            outage.attempt_failed(hosts, last.failures)
    raise outage.given_up(last) from last


async def _fail_back(connection: Connection, session: Session) -> None:
    """While connected to a host that is not the first, try those before it, and move to the first that answers."""
    settings, policy = session.settings, session.policy
    preferred = settings.endpoints[: settings.endpoints.index(connection.link.endpoint)]
    if policy is None or policy.fail_back_after is None or not preferred:
        return
    while connection.is_open:
        await anyio.sleep(policy.fail_back_after)
        try:
            link = await dial_in_order(settings, endpoints=preferred)
        except StompError as error:
            logger.debug("no preferred host answers yet: %s", error)
            continue
        if session.move_to(link, away_from=connection):
            logger.info("moving from %s back to %s", connection.link.endpoint, link.endpoint)
            await connection.disconnect(current_time() + settings.disconnect_timeout)
        else:
            # The program leaves, or this connection is still being restored; in that case, try again later.
            await anyio.aclose_forcefully(link.stream)


# --- restoring --------------------------------------------------------------------------------------------------------


async def _restore(connection: Connection, session: Session) -> None:
    """Restore subscriptions and unconfirmed messages, then let verbs use the connection.

    Cancellation: no verb uses the connection.
    """
    try:
        await _subscribe_again(connection, session)
        await _send_again(connection, session)
    except ConnectionClosed:
        # The program leaves: only DISCONNECT may still be sent.
        return
    if connection.failure is None:
        session.restored()


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def _subscribe_again(connection: Connection, session: Session) -> None:
    """Subscribe to everything at once, because there may be thousands; after a close, carefully to some."""
    registrations = list(session.registrations)
    suspected = [each for each in registrations if each.is_suspected]
    one_by_one = session.unexplained is not None
    if not connection.profile.answers_subscribe:
        # Only its silence tells which of them it has accepted.
        one_by_one |= bool(suspected) or session.suspicion.is_careful
    await _subscribe_to(
        connection, session, [each for each in registrations if not each.is_suspected], one_by_one=one_by_one
    )
    if suspected:
        await anyio.sleep(session.suspicion.pause)
    size = 1
    while suspected:
        await _subscribe_to(connection, session, suspected[:size], one_by_one=one_by_one)
        suspected, size = suspected[size:], 2 * size


async def _subscribe_to(
    connection: Connection, session: Session, registrations: Sequence[Registration], *, one_by_one: bool
) -> None:
    """Subscribe, and wait until the broker has answered, if it does."""
    pending: list[tuple[Registration, Receipt]] = []
    for registration in registrations:
        await connection.turn()
        if registration.is_over or registration.refusals is not None:
            continue
        if one_by_one:
            await _subscribe_alone(connection, session, registration)
            continue
        receipt = _subscribe(connection, session, registration)
        if receipt is not None:
            pending.append((registration, receipt))
            _suspect_only(session, pending)
    while pending:
        _suspect_only(session, pending)
        await _answered(session, *pending.pop(0))
    session.suspect = None


def _suspect_only(session: Session, pending: list[tuple[Registration, Receipt]]) -> None:
    """Where one subscription alone is unanswered, an ERROR is about it."""
    registration, receipt = pending[0]
    # One that was not accepted before would fail for good, so it must be certain: after an ERROR, it is sent alone.
    session.suspect = receipt.when_refused if len(pending) == 1 and registration.was_accepted else None


async def _retry_refused(connection: Connection, session: Session) -> None:
    """Try refused subscriptions again when they are due, one at a time."""
    while await _is_usable(connection, session):
        waiting = [each for each in session.registrations if each.waits_for_retry]
        for each in waiting:
            if each.refusals is not None:
                each.refusals.arm()
        registration = min(waiting, key=_due, default=None)
        with move_on_at(inf if registration is None else _due(registration)):
            # Another one may be due earlier.
            await session.refused_one.park()
            continue
        if registration is None or not registration.waits_for_retry:
            continue
        if registration.refusals is not None and registration.refusals.is_over:
            session.give_up(registration)
            continue
        if await _is_usable(connection, session) and not registration.is_over:
            await _subscribe_alone(connection, session, registration)


async def _is_usable(connection: Connection, session: Session) -> bool:
    try:
        return await session.turn() is connection
    except StompError:
        # The program leaves.
        return False


def _due(registration: Registration) -> float:
    return inf if registration.refusals is None else registration.refusals.retry_at


async def _subscribe_alone(connection: Connection, session: Session, registration: Registration) -> None:
    receipt = _subscribe(connection, session, registration)
    if registration.is_over:
        return
    if session.unexplained is not None or registration.was_accepted:
        session.suspect = partial(session.subscription_refused, registration)
    try:
        if receipt is not None:
            await _answered(session, registration, receipt)
        else:
            # The broker does not answer a SUBSCRIBE that it accepts.
            await anyio.sleep(min(_SILENCE_SECONDS, _ALL_SECONDS / len(session.registrations)))
            session.subscription_accepted(registration)
    finally:
        session.suspect = None


def _subscribe(connection: Connection, session: Session, registration: Registration) -> Receipt | None:
    """Send SUBSCRIBE; return the receipt to wait for, if the broker sends one."""
    try:
        receipt = registration.subscribe_on(connection)
    except (NotSupportedError, LocalProtocolError) as error:
        # The new connection is to another broker, which does not support it.
        registration.refused(error)
        return None
    if receipt is not None:
        receipt.when_refused = partial(session.subscription_refused, registration)
    return receipt


async def _answered(session: Session, registration: Registration, receipt: Receipt) -> None:
    try:
        await receipt.wait()
    except StompError:
        if not receipt.was_refused:
            raise
    else:
        session.subscription_accepted(registration)


# --- unconfirmed messages ---------------------------------------------------------------------------------------------


async def _send_again(connection: Connection, session: Session) -> None:
    """Send all unconfirmed messages at once; after an unexplained ERROR, one by one; carefully, more and more."""
    receipts, suspicion = session.receipts, session.suspicion
    if suspicion.is_careful and receipts.messages:
        await anyio.sleep(suspicion.pause)
    batch: list[Publication] = []
    size = 1
    for message in list(receipts.messages.values()):
        await connection.turn()
        # Its sender may have been canceled meanwhile.
        if message.is_settled:
            continue
        try:
            frame = receipts.send_again(message, connection.protocol)
        except LocalProtocolError as error:
            # The new connection uses an older version of STOMP, which cannot represent it.
            receipts.lose(message, error)
            continue
        suspicion.sending(message, frame)
        if session.unexplained is not None:
            # Before it is written: the broker may refuse a large body before all of it is written.
            session.suspect = partial(receipts.reject, message)
        source = source_of(message)
        if source is None:
            connection.post(frame)
        else:
            await _read_again(connection, source, frame, partial(receipts.lose, message), session.unexplained)
        batch.append(message)
        if session.unexplained is not None or (suspicion.is_careful and len(batch) == size):
            await _wait_settled(batch, session)
            size = 2 * size
            batch = []
    if suspicion.is_careful:
        await _wait_settled(batch, session)


async def _wait_settled(messages: Sequence[Publication], session: Session) -> None:
    for message in messages:
        # The limit of the program is not for what goes on in the background.
        await message.wait_settled(timeout=inf)
    session.suspect = None
    session.suspicion.settled()


async def _read_again(
    connection: Connection,
    source: BodySource,
    head: bytes,
    lose: Callable[[StompError], None],
    unexplained: StompError | None,
) -> None:
    """Send a message whose body is read once more. If that is impossible, `lose` it."""
    if not source.can_repeat:
        why = "" if unexplained is None else f" (the broker had sent an ERROR: {unexplained})"
        failure: StompError = ConnectionLost(
            f"the connection was lost before the broker had confirmed the message{why}, and {source.name} cannot be "
            "read again; it may or may not have arrived"
        )
        failure.__cause__ = unexplained
        lose(failure)
        return
    source.take_turn(connection, head)
    try:
        await source.write()
    except Exception as error:  # noqa: BLE001  # a file object of the user's may raise anything
        failure = LocalProtocolError(
            f"{source.name} cannot be sent again after the loss of a connection: {safe_str(error)}"
        )
        failure.__cause__ = error
        lose(failure)
