"""Giving back late deliveries: the service that refuses, by number, what met an UNSUBSCRIBE (RabbitMQ)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import trio

from trio_stomp.brokers import delivery_id, outlives_subscribers
from trio_stomp.errors import StompError
from trio_stomp.protocol import AckMode, Command, Headers, Version
from trio_stomp.session.buffer import Overflow
from trio_stomp.session.connection import Connection, Stage
from trio_stomp.session.late_deliveries import Left
from trio_stomp.session.subscription_state import Registration, SubscriptionOptions

__all__ = ["give_back_late"]

logger: Final = logging.getLogger("trio_stomp")

# How long a helper waits for the one message that its credit allows. Once it holds that one, nothing more is on its way
# to it, and it can be left without making another late delivery.
_PATIENCE: Final = 0.2


async def give_back_late(connection: Connection) -> None:
    """Refuse late deliveries, through any open subscription of the connection, or a short-lived one of its own."""
    if not connection.profile.numbers_deliveries:
        return
    late, outbox = connection.late, connection.outbox
    while connection.stage is Stage.OPEN:
        if not late.numbers:
            await late.wait_change()
            continue
        if connection.protocol.version is Version.V1_0:
            count = late.forget_numbers()
            logger.warning("%d late messages stay locked until this connection ends: no NACK in 1.0", count)
            continue
        if outbox.is_full:
            await outbox.wait_for_room()
            continue
        through = next(_settling(connection), None)
        if through is not None:
            _refuse(connection, through)
        elif late.last is not None and outlives_subscribers(late.last.destination):
            await _refuse_by_helper(connection, late.last)
        else:
            await late.wait_change()


def _settling(connection: Connection) -> Iterator[str]:
    """The ids of the open subscriptions whose messages are settled one by one."""
    return (id_ for id_ in connection.registered if not connection.inboxes[id_].keeps_after_loss)


def _refuse(connection: Connection, through: str) -> None:
    """Refuse late deliveries until none is left, or the outbox is full."""
    session, numbers = connection.link.connected.session or "", connection.late.numbers
    while numbers and not connection.outbox.is_full:
        name = delivery_id(through, session, numbers.popleft())
        message = Headers({"message-id": name, "ack": name})
        connection.post(connection.protocol.acknowledge(Command.NACK, message, through))


async def _refuse_by_helper(connection: Connection, left: Left) -> None:
    options = SubscriptionOptions(
        id=connection.late.new_helper_id(),
        # What it was allowed to subscribe to a moment ago; any other destination might be refused.
        destination=left.destination,
        ack=AckMode.CLIENT_INDIVIDUAL,
        prefetch=1,
        overflow=Overflow.WAIT,
        headers=left.headers,
    )
    helper = Registration(options, lambda _error: None)
    try:
        await helper.open_on(connection)
        _refuse(connection, options.id)
        with trio.move_on_after(_PATIENCE):
            await helper.inbox.wait_count(1)
    except StompError as error:
        # RabbitMQ ends the connection when it refuses a SUBSCRIBE, and that unlocks them too.
        logger.debug("%d late messages were not given back: %s", connection.late.forget_numbers(), error)
    finally:
        helper.close()
