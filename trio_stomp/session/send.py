"""Sending: the one path from what a user gives to a SEND in the outbox. `encoding` makes its bytes.

Theory of operation. A verb first waits for its turn (`Session.turn`, or `Connection.turn` in a transaction). Then it
calls one of three functions, and nothing awaits between the turn and the outbox: `post` for a message without a
confirmation, `publish` for a confirmed one, `ask` for a request. A confirmed message is a plain one with a receipt,
entered in the session's book of receipts before it is written.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from trio_stomp.brokers import REPLY_PREFIXES
from trio_stomp.errors import DeliveryStatus, NotSupportedError, StompError
from trio_stomp.printable import one_line
from trio_stomp.session.body_source import BodySource
from trio_stomp.session.connection import Connection
from trio_stomp.session.connection_tasks import read_once
from trio_stomp.session.encoding import encode, encode_exactly, frame_of, outgoing, own_header, stable_id_of
from trio_stomp.session.failures import guarded, renewed
from trio_stomp.session.hooks import SendCallback
from trio_stomp.session.limits import Limit, limit_of
from trio_stomp.session.outgoing import OutgoingMessage, Parts, parts_of
from trio_stomp.session.publication import Encode, EncodeHead, Publication, Window, unconfirmed
from trio_stomp.session.session import Session
from trio_stomp.session.settings import header_pairs

__all__ = [
    "Prepared",
    "ask",
    "checked",
    "note_torn",
    "note_unconfirmed",
    "post",
    "post_source",
    "prepare",
    "publish",
    "send_confirmed",
    "send_confirmed_at_once",
    "send_prepared",
    "send_reply",
    "send_source",
]

logger: Final = logging.getLogger("trio_stomp")


async def send_confirmed(
    session: Session,
    message: Parts[bytes | str],
    limit: Limit | None = None,
) -> None:
    """Send a message and wait until the broker has confirmed it.

    Args:
        session: The session.
        message: The message.
        limit: The time limit that is over all this, to note the outcome in.

    Cancellation: the frame was sent as a whole or not at all, and is not sent again.
    """
    size = len(message[1])
    connection = session.at_once(size) or await session.turn(size)
    publication = publish(connection, message)
    if limit is not None:
        note_unconfirmed(limit, publication)
    try:
        if connection.may_read:
            await guarded(read_once, connection)
        if publication.delivery is not DeliveryStatus.CONFIRMED:
            await publication.wait()
        connection.rested()
    finally:
        session.receipts.give_up(publication)


async def send_reply(session: Session, message: Parts[bytes | str], *, receipt: bool, timeout: float | None) -> None:
    """Send a reply, which is a message like any other.

    Cancellation: as `Client.send`.
    """
    async with Limit(limit_of(timeout, session.settings.timeout), f"reply() to {message[0]!r}", session) as limit:
        if receipt:
            await send_confirmed(session, message, limit)
        else:
            post(session.at_once() or await session.turn(), message)


def note_unconfirmed(limit: Limit, publication: Publication) -> None:
    """Note in the limit of a confirmed send what is known of its outcome until the RECEIPT is there."""
    limit.sent, limit.unconfirmed = 1, (unconfirmed(publication),)
    limit.outcome = f"the broker has not confirmed message {publication.id!r}, which may or may not have arrived"


def send_confirmed_at_once(
    session: Session,
    message: Parts[bytes | str],
    ended: SendCallback,
) -> Publication | None:
    """`send_confirmed` for a caller that is no task. Call it where a task would have made a checkpoint.

    Args:
        session: The session.
        message: The message.
        ended: Called with the outcome, later.

    Returns:
        The message, to give up on it; None if its turn has not come, and nothing was done.

    Raises:
        LocalProtocolError: The message is invalid; nothing was sent.
        NotSupportedError: The broker does not support an option.
    """
    connection = session.at_once(len(message[1]))
    if connection is None:
        return None
    connection.rested()
    publication = publish(connection, message)
    session.receipts.when_settled(publication, ended)
    return publication


async def send_source(session: Session, message: Parts[BodySource], limit: Limit, *, receipt: bool) -> None:
    """Send a message whose body comes from a source; with `receipt`, wait until the broker has confirmed it.

    The outcome is noted in `limit`.

    Cancellation: nothing was sent, or the connection has ended, or the broker has the message.
    """
    source = message[1]
    if not receipt:
        connection = session.at_once() or await session.turn()
        ended = post_source(connection, message)
        error: StompError | None = None
        is_written = False
        try:
            is_written = await source.write()
            error = connection.failure
        except StompError as raised:
            error = raised
            raise
        finally:
            note_torn(limit, source)
            if ended is not None:
                ended(DeliveryStatus.SENT if is_written else None, None if is_written else error)
        if not is_written and error is not None:
            raise renewed(error)
        return
    connection = session.at_once(source.size) or await session.turn(source.size)
    publication = publish(connection, message)
    try:
        # If the connection ends first, the book of receipts decides what happens next.
        await source.write()
        note_unconfirmed(limit, publication)
        await publication.wait()
    finally:
        note_torn(limit, source)
        session.receipts.give_up(publication)
        # It may be read for another connection.
        source.stop()


def note_torn(limit: Limit, source: BodySource) -> None:
    """Note in a time limit that a body has ended in the middle of its frame, if it has."""
    if source.is_torn:
        limit.outcome = "its body had been sent in part, so the connection has ended, and the message has not arrived"


def post_source(connection: Connection, message: Parts[BodySource], own: bytes = b"") -> SendCallback | None:
    """`post` a message whose body comes from a source; `BodySource.write` sends it.

    Returns:
        The function that reports the end to the hooks, if there are any.
    """
    head, _, _, ended = encode_exactly(connection, message, own)
    connection.sent_plain = connection.sent_plain or not own
    connection.lend(head, message[1])
    return ended


def post(
    connection: Connection,
    message: Parts[object],
    own: bytes = b"",
) -> None:
    """Put a SEND into the outbox of a connection. Call it when it is the caller's turn.

    Args:
        connection: The connection.
        message: The message.
        own: Headers that the client sets, such as the transaction; see `own_header`.

    Raises:
        LocalProtocolError: The message is invalid, or cannot be sent now; nothing was sent.
        NotSupportedError: The broker does not support an option.
    """
    receipts, receipt_id, destination = connection.receipts, "", message[0]
    if own:
        pass
    # Others than str are refused below. Each message would pay for the call that asks for the type.
    elif destination.__class__ is str and destination.startswith(REPLY_PREFIXES) and connection.profile.confirms:
        if destination in receipts.gone:
            logger.warning("a reply to %s was not sent, because its requester has gone", one_line(destination))
            return
        # So that a refusal is known to be about the reply, and ends nothing else.
        receipt_id = receipts.new_id()
        own = own_header("receipt", receipt_id)
    else:
        connection.sent_plain = True
    frame, _, _, ended = encode(connection, message, own)
    if receipt_id:
        receipts.expect_reply(receipt_id, destination)
    connection.post(frame)
    if ended is not None:
        ended(DeliveryStatus.SENT, None)


def publish(
    connection: Connection,
    message: Parts[object],
    window: Window | None = None,
) -> Publication:
    """`post` a message with a receipt and a stable id, and enter it in the book of the session.

    Args:
        connection: The connection.
        message: The message.
        window: The window of its publisher; None if its sender waits for this message alone.

    Raises:
        LocalProtocolError: The message is invalid, or cannot be sent now; nothing was sent.
        NotSupportedError: The broker does not support an option.
    """
    destination, _, headers, _, options = message
    profile, receipts = connection.profile, connection.receipts
    if not profile.confirms:
        msg = f"{profile.name} sends no RECEIPT, so it cannot confirm a message; use send() without receipt=True"
        raise NotSupportedError(msg)
    if receipts.gone and destination in receipts.gone:
        raise renewed(receipts.gone[destination])
    receipt_id = receipts.new_id()
    stable_id, given = f"{receipts.prefix}{receipt_id}", None
    # A resend, by the session or by a program that was told of the loss, may duplicate a message. So each carries a
    # stable id: its sender's, or else this one.
    naming = profile.stable_id_header
    if headers or options:
        given = (
            headers.get(naming)
            if not options and isinstance(headers, dict)
            else stable_id_of(headers, options, profile)
        )
    if given is None:
        own = f"\n{naming}:{stable_id}\nreceipt:{receipt_id}"
    else:
        own, stable_id = f"\nreceipt:{receipt_id}", given
    frame, content, size, ended = encode(connection, message, own.encode())
    publication = Publication(stable_id, destination, size, receipt_id, content, window, ended)
    receipts.enter(publication)
    if connection.gate.holds:
        # The reader continues while anything is awaited.
        connection.gate.notify()
    # Not of the body: looking for an abstract class costs more than the rest of this function's checks together.
    if isinstance(content, EncodeHead):
        connection.lend(frame, content.source)
    # If others are awaited too, more messages are about to come, and the writer sends them together.
    elif window is None and len(receipts.messages) == 1:
        connection.post_at_once(frame)
    else:
        connection.post(frame)
    return publication


class Prepared:
    """A message that was encoded in one thread, to be sent from another.

    Args:
        connection: The connection that it was encoded for.
        frame: Its frame.
        content: What makes the same frame for another connection.
    """

    __slots__ = ("connection", "content", "frame")

    def __init__(self, connection: Connection, frame: bytes, content: bytes | Encode) -> None:
        self.connection = connection
        self.frame = frame
        self.content = content


def prepare(
    session: Session,
    message: Parts[object],
) -> Prepared | None:
    """Encode a message that `send_prepared` sends later. May be called in any thread.

    Returns:
        None if there is no connection now, or hooks that must see the message when it is sent, or if it is a reply.

    Raises:
        LocalProtocolError: It cannot be represented.
        NotSupportedError: The broker has no such option.
    """
    connection = session.usable
    if connection is None or connection.observer is not None or str(message[0]).startswith(REPLY_PREFIXES):
        return None
    frame, content, _, _ = encode(connection, message)
    return Prepared(connection, frame, content)


async def send_prepared(session: Session, prepared: Prepared) -> None:
    """Send a message that `prepare` has encoded.

    Cancellation: the frame was sent whole or not at all.
    """
    connection = session.at_once() or await session.turn()
    frame, content = prepared.frame, prepared.content
    if connection is not prepared.connection:
        frame = content if isinstance(content, bytes) else content(connection.protocol)
    connection.sent_plain = True
    connection.post(frame)


def checked(session: Session, message: OutgoingMessage) -> OutgoingMessage | None:
    """Check a message that is sent later, and copy what its owner could change. May be called in any thread.

    Returns:
        The copy; None if it cannot be copied, or if there is no connection now to check it for.

    Raises:
        LocalProtocolError: It cannot be represented.
        NotSupportedError: The broker has no such option.
    """
    connection, headers = session.usable, message.headers
    if connection is None or not _is_immutable(message.body):
        return None
    if headers is not None:
        headers = dict(headers) if isinstance(headers, dict) else tuple(header_pairs(headers))
    copied = replace(message, headers=headers)
    parts = parts_of(copied)
    if connection.observer is None:
        encode(connection, parts)
    else:
        # The hooks see it when it is sent.
        frame_of(parts[0], outgoing(parts, connection.profile), None, connection.protocol)
    return copied


def _is_immutable(body: object) -> bool:
    # A bytearray is sent too, though no annotation says so.
    return isinstance(body, (bytes, str))


def ask(connection: Connection, message: Parts[object], reply_to: str, correlation_id: str) -> SendCallback | None:
    """`post` a request; return the function that reports its end to the hooks, if there are any."""
    destination, body, headers, content_type, options = message
    headers = [*header_pairs(headers), ("reply-to", reply_to), ("correlation-id", correlation_id)]
    frame, _, _, ended = encode(connection, (destination, body, headers, content_type, options), is_request=True)
    connection.post(frame)
    return ended
