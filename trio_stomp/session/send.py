"""Sending: the one path from what a user gives to a SEND in the outbox.

Theory of operation. A verb first waits for its turn (`Session.turn`, or `Connection.turn` in a transaction). Then it
calls one of three functions, and nothing awaits between the turn and the outbox: `post` for a message without a
confirmation, `publish` for a confirmed one, `ask` for a request. A confirmed message is a plain one with a receipt,
entered in the session's book of receipts before it is written.

A message takes one of two ways to the same bytes. Most are plain: nothing in them has to be escaped or checked one by
one. `encode` recognizes those with a few calls in C for all headers together, which makes sends and transactions
twice as fast, and publishers 1.8 times. Everything else goes through `_exact_frame`, which reports errors. Hooks see
headers one by one and may add some, so a connection with hooks uses the second way only.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from trio_stomp.brokers import (
    REPLY_PREFIXES,
    Pairs,
    Profile,
    SendOptions,
    require_bool,
    require_destination,
    require_options,
)
from trio_stomp.errors import DeliveryStatus, LocalProtocolError, NotSupportedError, StompError
from trio_stomp.printable import one_line
from trio_stomp.protocol import ClientProtocol, is_mime_type, is_utf_8_text, plain_head, text_encoding
from trio_stomp.session.body_source import BodySource, EncodeHead
from trio_stomp.session.connection import Connection
from trio_stomp.session.connection_tasks import read_once
from trio_stomp.session.failures import guarded, renewed
from trio_stomp.session.hooks import SendCallback
from trio_stomp.session.limits import Limit, limit_of
from trio_stomp.session.outgoing import HeaderInput, OutgoingMessage, Parts, header_pairs, parts_of
from trio_stomp.session.receipts import Encode, Publication, Window, unconfirmed
from trio_stomp.session.session import Session

__all__ = [
    "ask",
    "checked",
    "note_torn",
    "note_unconfirmed",
    "own_header",
    "post",
    "post_source",
    "prepare",
    "publish",
    "send_confirmed",
    "send_confirmed_at_once",
    "send_prepared",
    "send_reply",
    "send_source",
    "size_of",
]

logger: Final = logging.getLogger("trio_stomp")

# Spec: Header content-type: text in another encoding than the default names it; naming the default costs little.
_TEXT: Final = "text/plain;charset=utf-8"


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
    size = size_of(message[1])
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
    if receipt:
        require_bool("receipt", receipt)
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
    connection = session.at_once(size_of(message[1]))
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
    head, _, _, ended = _exact_frame(connection, message, own)
    connection.sent_plain = connection.sent_plain or not own
    message[1].take_turn(connection, head)
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
    # If the last message went there, it is no reply; comparing costs less than looking for the prefixes of replies.
    if own or destination == connection.plain_destination:
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
        connection.sent_plain, connection.plain_destination = True, destination
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
    # A resend, by the session or by a program that was told of the loss, may duplicate a message. So it carries an id
    # that stays: its sender's, or else this one.
    naming = profile.stable_id_header
    if headers or options:
        given = headers.get(naming) if not options and isinstance(headers, dict) else _own_id(headers, options, profile)
    if given is not None:
        own, stable_id = f"\nreceipt:{receipt_id}", given
    elif window is None and not connection.names_all:
        own = f"\nreceipt:{receipt_id}"
    else:
        own = f"\n{naming}:{stable_id}\nreceipt:{receipt_id}"
    frame, content, size, ended = encode(connection, message, own.encode())
    publication = Publication(stable_id, destination, size, receipt_id, content, window, ended)
    receipts.enter(publication)
    if connection.gate.holds:
        # The reader continues while anything is awaited.
        connection.gate.notify()
    # Not of the body: looking for an abstract class costs more than the rest of this function's checks together.
    if isinstance(content, EncodeHead):
        content.source.take_turn(connection, frame)
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
        _frame(parts[0], outgoing(parts, connection.profile), None, connection.protocol)
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


def own_header(name: str, value: str) -> bytes:
    """Encode a header that the client itself adds. Its characters must be ones that no STOMP version escapes."""
    return f"\n{name}:{value}".encode()


# --- encoding -----------------------------------------------------------------------------------------------------

# The frame, up to the body if that comes from a source; a function that encodes it for another connection, or the frame
# again if it is the same there; the length of the body; and the function that reports the end to the hooks, if any.
_Encoded = tuple[bytes, bytes | Encode, int, SendCallback | None]


def encode(connection: Connection, message: Parts[object], own: bytes = b"", *, is_request: bool = False) -> _Encoded:
    """Encode a SEND for a connection; everything that is sent goes through this.

    A message in which nothing has to be escaped takes a fraction of the time of `_exact_frame`, which looks at every
    other one closely, reports what is wrong with it, and shows it to the hooks.

    Args:
        connection: The connection.
        message: The message.
        own: Headers that the client sets, such as the transaction; see `own_header`.
        is_request: What to tell the hooks.

    Raises:
        LocalProtocolError: The message is invalid, or cannot be sent now.
        NotSupportedError: The broker does not support an option.
        TypeError: There is no such option.
    """
    destination, body, headers, content_type, options = message
    profile = connection.profile
    if not connection.takes_plain:
        return _exact_frame(connection, message, own, is_request=is_request)
    if content_type is None and isinstance(headers, dict) and type(headers.get("content-type")) is str:
        headers = headers.copy()
        content_type = headers.pop("content-type")
    if options:
        headers = _with_options(headers, options, profile)
        if headers is None:
            return _exact_frame(connection, message, own, is_request=is_request)
    content_length = True
    if type(body) is bytes:
        data = body
    elif type(body) is str and (content_type is None or is_utf_8_text(content_type)):
        try:
            data = body.encode()
        except UnicodeEncodeError:
            # A lone surrogate.
            return _exact_frame(connection, message, own, is_request=is_request)
        content_type = _TEXT if content_type is None else content_type
        content_length = data != b"" and not profile.text_without_content_length
    else:
        return _exact_frame(connection, message, own, is_request=is_request)
    head = plain_head(destination, content_type, headers)
    if head is None:
        return _exact_frame(connection, message, own, is_request=is_request)
    frame = connection.protocol.send_plain(head, data, own, content_length=content_length)
    return frame, frame, len(data), None


def _exact_frame(
    connection: Connection, message: Parts[object], own: bytes = b"", *, is_request: bool = False
) -> _Encoded:
    """Encode a message for a connection, checking its headers one by one."""
    destination, body, headers, content_type, options = message
    source = body if isinstance(body, BodySource) else None
    if source is not None and not connection.can_lend:
        raise NotSupportedError(
            "over a WebSocket a body is sent as one message, so it must be in memory: connect by stomp:// or "
            f"stomps://, or read {source.name} and send bytes"
        )
    in_memory = b"" if source is not None else body
    out = outgoing((destination, in_memory, headers, content_type, options), connection.profile)
    size = len(out.body) if source is None else source.size
    # Hooks see all headers except for these.
    hidden: dict[str, str | None] = {"transaction": None, "receipt": None}
    for line in own.decode().split("\n")[1:]:
        name, _, value = line.partition(":")
        if name in hidden:
            hidden[name] = value
        else:
            out.headers.append((name, value))
    transaction, receipt_id = hidden["transaction"], hidden["receipt"]
    ended: SendCallback | None = None
    if connection.observer is not None:
        ended = connection.observer.sending(
            destination,
            out.headers,
            size,
            transaction=transaction,
            is_request=is_request,
            confirmed=receipt_id is not None and transaction is None,
        )
    if receipt_id is not None:
        out.headers.append(("receipt", receipt_id))
    encode: Encode = partial(_frame, destination, out, transaction)
    if source is not None:
        encode = EncodeHead(destination, out.headers, transaction, source)
    try:
        frame = encode(connection.protocol)
    except StompError as error:
        if ended is not None:
            ended(None, error)
        raise
    return frame, encode, size, ended


def _own_id(headers: HeaderInput | None, options: SendOptions | None, profile: Profile) -> str | None:
    """Return the stable id that the sender of a message has set, if any. It may outlive this process."""
    naming = profile.stable_id_header
    if options and "dedup_id" in options and profile.dialect.dedup_header == naming:
        return options["dedup_id"]
    if not headers:
        return None
    if isinstance(headers, dict):
        return headers.get(naming)
    return next((value for name, value in header_pairs(headers) if name == naming), None)


@dataclass(slots=True)
class Outgoing:
    """A SEND that is being prepared.

    Attributes:
        headers: The headers of its sender, without the destination.
        body: Its body.
        content_length: Whether to add a content-length header.
    """

    headers: Pairs
    body: bytes
    content_length: bool


def outgoing(message: Parts[object], profile: Profile) -> Outgoing:
    """Encode a body by its Python type: bytes as they are, str as text, in UTF-8 or the charset of its content-type.

    Raises:
        LocalProtocolError: The destination is empty, the body is of another type, the charset lacks one of its
            characters, the content-type is not a MIME type or is given twice, or an option is invalid.
        NotSupportedError: The broker does not support an option, or would drop or damage this body.
        TypeError: There is no such option.
    """
    destination, body, headers, content_type, options = message
    require_destination(destination)
    pairs = header_pairs(headers)
    given = _content_type(pairs)
    if given is not None:
        if content_type is not None:
            msg = f"the content-type is given twice: {content_type!r} as an argument, {given!r} as a header"
            raise LocalProtocolError(msg)
        # Removed here, checked like the argument, and inserted as the first header.
        content_type = given
        pairs = [pair for pair in pairs if pair[0] != "content-type"]
    content_length = True
    if isinstance(body, str):
        charset = _charset(content_type)
        data = _encoded(body, charset)
        content_type = _TEXT if content_type is None else content_type
        # JMS brokers recognize text by the absence of this header, and decode it as UTF-8. Empty text never needs it.
        content_length = data != b"" and (not profile.text_without_content_length or charset != "utf-8")
    elif isinstance(body, bytes):
        data = body
    elif isinstance(body, bytearray):
        data = bytes(body)
    else:
        raise _wrong(body)
    if profile.bodies_are_text and (content_type is None or content_type != profile.binary_content_type):
        _require_text(data, profile)
    if content_type is not None:
        # STOMP 1.2, Header content-type: its value MUST be a MIME type.
        if not is_mime_type(content_type):
            msg = f"content_type must be a MIME type such as 'application/json', got {content_type!r}"
            raise LocalProtocolError(msg)
        pairs.insert(0, ("content-type", content_type))
    if options:
        pairs += _option_headers(options, pairs, profile)
    return Outgoing(pairs, data, content_length)


def size_of(body: object) -> int:
    """Return how many bytes a body takes that is held in memory.

    Raises:
        LocalProtocolError: It is anything else.
    """
    # Each confirmed message asks, and `type` costs less than `isinstance`.
    if type(body) is bytes or isinstance(body, (bytes, bytearray)):
        return len(body)
    if not isinstance(body, str):
        raise _wrong(body)
    return len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))


def _wrong(body: object) -> LocalProtocolError:
    return LocalProtocolError(
        f"a body must be bytes or str, got a value of type {type(body).__name__}; pass json= to send JSON, or encode "
        "it. Client.send() and Transaction.send() take files too"
    )


def _frame(destination: str, out: Outgoing, transaction: str | None, protocol: ClientProtocol) -> bytes:
    """Encode a message that is not plain, for one connection.

    Raises:
        LocalProtocolError: The STOMP version of the connection cannot represent it.
    """
    return protocol.send(
        destination, out.body, headers=out.headers, content_length=out.content_length, transaction=transaction
    )


def _content_type(pairs: Pairs) -> str | None:
    for name, value in pairs:
        if name == "content-type":
            return value
    return None


def _charset(content_type: str | None) -> str:
    try:
        return text_encoding(content_type)
    except LookupError as error:
        msg = f"the body is text, and its content-type cannot be used to encode it: {error}; send bytes instead"
        raise LocalProtocolError(msg) from None


def _encoded(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except UnicodeEncodeError as error:
        if charset.startswith("utf"):
            msg = f"the body cannot be encoded in {charset}: it holds a lone surrogate, at position {error.start}"
        else:
            why = f"the body cannot be written in {charset}, which its content-type names: {error}"
            msg = f"{why}; leave the charset out"
        raise LocalProtocolError(msg) from error


def _asked(options: SendOptions, profile: Profile) -> Pairs:
    require_options("send", options)
    return profile.dialect.send_headers(options, time.time())


def _with_options(headers: HeaderInput | None, options: SendOptions, profile: Profile) -> dict[str, str] | None:
    """Return the headers of a sender together with those of its options; None if they may collide."""
    given: dict[str, str] = {}
    if isinstance(headers, dict):
        given = headers
    elif headers:
        return None
    asked = dict(_asked(options, profile))
    return {**given, **asked} if asked.keys().isdisjoint(given) else None


def _option_headers(options: SendOptions, given: Pairs, profile: Profile) -> Pairs:
    asked = _asked(options, profile)
    twice = {name for name, _ in given} & {name for name, _ in asked}
    if twice:
        # Which of two counts depends on the broker.
        msg = f"the header {min(twice)!r} is given twice: in headers= and by an option; leave out one"
        raise LocalProtocolError(msg)
    return asked


def _require_text(data: bytes, profile: Profile) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        binary = profile.binary_content_type
        fate, way_out = (
            ("drops bodies that are not UTF-8", "connect by stomp:// or stomps://, or encode the body")
            if binary is None
            else ("damages bodies that are not UTF-8", f"pass content_type={binary!r}, or encode the body")
        )
        msg = f"over a WebSocket {profile.name} {fate} ({error.reason} at byte {error.start}); {way_out} as base64"
        raise NotSupportedError(msg) from None
