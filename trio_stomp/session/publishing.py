"""Messages that are to be confirmed, on their way into the outbox: made, registered for their RECEIPT, and posted."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from trio_stomp.brokers import SendOptions
from trio_stomp.errors import NotSupported, StompError
from trio_stomp.session.connection import Connection
from trio_stomp.session.hooks import SendEnd
from trio_stomp.session.outgoing import Outgoing, encode, outgoing, plain_outgoing
from trio_stomp.session.session import Session
from trio_stomp.session.settings import HeaderInput
from trio_stomp.session.unconfirmed import Publication, Unconfirmed
from trio_stomp.session.window import Window

__all__ = ["publish", "send_confirmed"]


async def send_confirmed(
    session: Session,
    destination: str,
    body: Sized,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
) -> None:
    """Send a message and wait until the broker has confirmed it.

    Cancellation: the frame was sent whole or not at all, and is not sent again.
    """
    octets = len(body)
    connection = session.at_once(octets) or await session.turn(octets)
    publication = publish(session, connection, destination, body, headers, content_type, options)
    try:
        await publication.wait()
        connection.rested()
    finally:
        publication.give_up()


def publish(
    session: Session,
    connection: Connection,
    destination: str,
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
    window: Window[Publication] | None = None,
) -> Publication:
    """Send a message that the broker is to confirm; to be called when it is the caller's turn.

    Args:
        session: In whose book it is registered.
        connection: The connection.
        destination: As for `Client.send`, like the next four.
        body: The body.
        headers: The headers of its sender.
        content_type: MIME type of the body.
        options: What brokers add.
        window: Where it is counted; without one, its sender waits for it alone.

    Raises:
        LocalProtocolError: It cannot be represented, or sent now; nothing was sent.
        NotSupported: The broker has no such option.
    """
    book, profile = session.unconfirmed, connection.profile
    if not profile.confirms:
        msg = (
            f"{profile.name} sends no RECEIPT, so a message cannot be confirmed; send it by send() without receipt=True"
        )
        raise NotSupported(msg)
    # Who publishes, or reconnects, may send a message twice: it bears what it can be known by.
    naming = None if window is None and session.policy is None else profile.stable_id_header
    plain = None
    # Hooks are shown the headers one by one, and may add to them. An id among the options is found among the headers.
    if connection.observer is None and not (options and "dedup_id" in options):
        plain = plain_outgoing(destination, body, headers, content_type, profile, options)
    receipt_id = book.new_receipt_id()
    if plain is None:
        out = outgoing(body, headers, content_type, profile, options)
        publication, frame = _exact(book, connection, receipt_id, destination, out, naming, window)
    else:
        head, octets, content_length = plain
        own_id = None if naming is None or not headers else _own_id(headers, naming)
        if naming is None or own_id is not None:
            own_lines = f"\nreceipt:{receipt_id}"
        else:
            own_lines = f"{connection.stable_id_line}{receipt_id}\nreceipt:{receipt_id}"
        frame = connection.protocol.send_plain(head, octets, own_lines.encode(), content_length=content_length)
        publication = Publication(book, receipt_id, destination, len(octets), frame, window)
        if own_id is not None:
            publication.is_known(own_id, None)
    if connection.gate.holds:
        # It goes on while anything is awaited.
        connection.gate.notify()
    # While others are awaited too, more is about to come, and the writer puts that into one piece.
    if window is None and len(book.open) == 1:
        connection.post_at_once(frame)
    else:
        connection.post(frame)
    return publication


def _exact(
    book: Unconfirmed,
    connection: Connection,
    receipt_id: str,
    destination: str,
    out: Outgoing,
    naming: str | None,
    window: Window[Publication] | None,
) -> tuple[Publication, bytes]:
    """A publication whose headers need a second look, and its frame."""
    own_id = None if naming is None else _own_id(out.headers, naming)
    if naming is not None and own_id is None:
        out.headers.append((naming, f"{book.prefix}{receipt_id}"))
    ended: SendEnd | None = None
    if connection.observer is not None:
        ended = connection.observer.sending(destination, out.headers, len(out.body), confirmed=True)
    out.headers.append(("receipt", receipt_id))
    try:
        frame = encode(connection.protocol, destination, out)
    except StompError as error:
        if ended is not None:
            ended(None, error)
        raise
    publication = Publication(book, receipt_id, destination, len(out.body), out, window)
    publication.is_known(own_id, ended)
    return publication, frame


def _own_id(headers: HeaderInput, naming: str) -> str | None:
    """The stable id that the sender of a message gives it, where it gives one: that may outlive this process."""
    if isinstance(headers, dict):
        return headers.get(naming)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return next((value for name, value in pairs if name == naming), None)
