"""Leaving well: nothing that was promised is left behind. Spec: "DISCONNECT", "Connection Lingering"."""

from __future__ import annotations

import enum
import logging
from typing import Final

import trio

from trio_stomp.errors import ConnectionLost, StompError
from trio_stomp.session.connection import Connection, Stage
from trio_stomp.session.session import Session

__all__ = ["Farewell", "leave", "say_farewell"]

logger: Final = logging.getLogger("trio_stomp")

_LEFT: Final = frozenset({Stage.MOVING, Stage.MOVED})


class Farewell(enum.Enum):
    """How a DISCONNECT ended.

    Attributes:
        RECEIPT: The broker confirmed it, and with it everything sent before.
        CLOSED: The broker closed the link instead.
        TIMEOUT: Neither came in time; all octets were written.
    """

    RECEIPT = "receipt"
    CLOSED = "closed"
    TIMEOUT = "timeout"


async def leave(session: Session, within: float) -> Farewell:
    """Stop the intake, await what is unconfirmed (across reconnections), and take leave of the broker.

    Raises:
        ConnectionLost: Without ``reconnect=``: the link was lost before DISCONNECT was written. Octets were unwritten
            at the deadline.

    Cancellation: the connection is as it was; the caller closes it.
    """
    session.leave()
    deadline = trio.current_time() + within
    if session.policy is not None:
        with trio.move_on_at(deadline):
            await session.unconfirmed.wait_none()
            if session.connection.stage in _LEFT:
                # It is being left for another host, in order.
                await session.connection.ended.wait()
        if session.connection.failure is not None or session.connection.stage in _LEFT:
            # Lost, or left already, and nothing that anybody waits for: there is no one to take leave of.
            session.close()
            return Farewell.CLOSED
    return await say_farewell(session.connection, max(0.0, deadline - trio.current_time()))


async def say_farewell(connection: Connection, within: float) -> Farewell:
    """Stop the intake, await pending receipts, DISCONNECT with receipt, and wait for its answer.

    A connection that is being left for another host takes what was begun on it until DISCONNECT.

    Pending receipts come first because RabbitMQ drops those that are outstanding at a DISCONNECT.

    Raises:
        ConnectionLost: The link was lost before DISCONNECT was written, or octets were unwritten at the deadline.

    Cancellation: the connection is as it was; the caller closes it.
    """
    connection.close()
    outcome = Farewell.TIMEOUT
    with trio.move_on_after(within):
        await connection.receipts.wait_none()
        if connection.failure is not None:
            raise connection.raisable(connection.failure)
        outcome = await _disconnect(connection)
    unwritten = connection.outbox.octets
    if outcome is Farewell.TIMEOUT and unwritten:
        msg = f"{unwritten} octets could not be written within {within:g} s (disconnect_timeout)"
        error = ConnectionLost(f"{msg}: {connection.link.endpoint} does not read")
        connection.fail(error)
        raise connection.raisable(error)
    if outcome is Farewell.TIMEOUT:
        logger.warning("%s did not confirm DISCONNECT within %g s", connection.link.endpoint, within)
    connection.finish()
    return outcome


async def _disconnect(connection: Connection) -> Farewell:
    with connection.receipts.expected() as receipt:
        connection.disconnect(receipt.id)
        try:
            await receipt.wait()
        except StompError:
            # Row 1x-DISC-6: the link may close before the RECEIPT has come through.
            return Farewell.CLOSED
        return Farewell.RECEIPT
