"""Bringing a new connection to where the old one was: subscriptions first, then what was unconfirmed, in order.

Subscriptions come first so that nobody misses the answer to a message that is sent again. Nothing new is sent before
both are done, so the order in which a client sends is the order of its calls, whatever happens to its links.
"""

from __future__ import annotations

import logging
from typing import Final

from trio_stomp.errors import LocalProtocolError, NotSupported, StompError
from trio_stomp.session.connection import Connection
from trio_stomp.session.receipts import Receipt
from trio_stomp.session.session import Session
from trio_stomp.session.subscription_state import Registration

__all__ = ["restore"]

logger: Final = logging.getLogger("trio_stomp")


async def restore(connection: Connection, session: Session) -> None:
    """Subscribe and send again, then let everybody use the connection.

    Cancellation: the connection is not used by anybody.
    """
    await _subscribe_again(connection, session)
    await _send_again(connection, session)
    if connection.failure is None:
        session.restored()


async def _subscribe_again(connection: Connection, session: Session) -> None:
    """Pipelined, because a thousand subscriptions should not cost a thousand round trips.

    One by one after an unexplained ERROR.
    """
    waiting: list[tuple[Registration, Receipt]] = []
    for registration in list(session.registrations):
        await connection.turn()
        if registration.is_over:
            continue
        try:
            receipt = registration.subscribe_on(connection)
        except (NotSupported, LocalProtocolError) as error:
            # The broker that is connected to now is another one, and cannot do it.
            registration.refused(error)
            continue
        if receipt is None:
            continue
        if session.unexplained is not None:
            session.suspect = registration
            await _stand(connection, registration, receipt)
            session.suspect = None
        else:
            waiting.append((registration, receipt))
    for registration, receipt in waiting:
        await _stand(connection, registration, receipt)


async def _stand(connection: Connection, registration: Registration, receipt: Receipt) -> None:
    try:
        await receipt.wait()
    except StompError as error:
        if not receipt.was_refused:
            raise
        logger.warning("%s was refused after a reconnection: %s", registration.options.name, error)
        registration.never_stood(connection)
        registration.refused(error)


async def _send_again(connection: Connection, session: Session) -> None:
    for publication in session.unconfirmed.open_ones():
        await connection.turn()
        # Its sender may have been cancelled meanwhile.
        if not session.unconfirmed.is_open(publication):
            continue
        try:
            frame = publication.frame(connection.protocol)
        except LocalProtocolError as error:
            # The broker that is connected to now speaks an older version, in which it cannot be written.
            publication.lost(error)
            continue
        session.unconfirmed.resent += 1
        connection.post(frame)
        if session.unexplained is not None:
            session.suspect = publication
            await publication.wait_settled()
            session.suspect = None
