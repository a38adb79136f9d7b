"""Restoring subscriptions on the next connection, and retrying those that the broker refuses for a while.

Theory of operation. A queue may not be there when the client is connected again: its home node is down, or a mirror is
being promoted. So a subscription that a broker had accepted before is not given up when it is refused; it waits, and
`retry_refused` tries it again with the delays of the policy. Everything else on the connection goes on meanwhile.

Many brokers close the connection after an ERROR, and RabbitMQ's ERRORs name no frame. So at most one such subscription
is tried at a time, by which it is known what an ERROR is about. The connection that follows restores the others at
once, and leaves this one out until its next attempt is due.

Where the broker closes the connection without an ERROR, `Suspicion` notes which subscriptions may be the reason. They
are restored last, in groups of 1, 2, 4 and so on, so that a close is soon about one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import anyio

from trio_stomp.errors import LocalProtocolError, NotSupportedError, StompError
from trio_stomp.runtime import move_on_at

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection
    from trio_stomp.session.receipts import Receipt
    from trio_stomp.session.session import Session
    from trio_stomp.session.subscription_state import Registration

__all__ = ["retry_refused", "subscribe_again"]

# A broker that sends no RECEIPT for SUBSCRIBE has accepted one that was sent alone when it says nothing for this long.
# Where there are many, the second number is for all together.
_SILENCE_SECONDS: Final = 0.25
_ALL_SECONDS: Final = 5.0


async def subscribe_again(connection: Connection, session: Session) -> None:
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


async def retry_refused(connection: Connection, session: Session) -> None:
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
