"""Messages that are to be confirmed, on their way into the outbox: made, registered for their RECEIPT, and posted."""

from __future__ import annotations

from trio_stomp.brokers import SendOptions
from trio_stomp.client.connection import Connection
from trio_stomp.client.line import Line
from trio_stomp.client.options import HeaderInput
from trio_stomp.client.outgoing import Outgoing, outgoing, plain_outgoing
from trio_stomp.client.unconfirmed import Publication
from trio_stomp.client.window import Window
from trio_stomp.errors import StompError

__all__ = ["publish", "send_confirmed"]


async def send_confirmed(
    line: Line,
    destination: str,
    body: bytes | str,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
) -> None:
    """Send a message and wait until the broker has confirmed it.

    Cancellation: the frame was sent whole or not at all, and is not sent again.
    """
    octets = len(body)
    connection = line.at_once(octets) or await line.turn(octets)
    publication = publish(line, connection, destination, body, headers, content_type, options)
    try:
        await publication.wait()
    finally:
        publication.give_up()


def publish(
    line: Line,
    connection: Connection,
    destination: str,
    body: bytes | str,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
    window: Window | None = None,
) -> Publication:
    """Send a message that the broker is to confirm; to be called when it is the caller's turn.

    Args:
        line: In whose book it is registered.
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
    profile, observer = connection.profile, connection.observer
    # Who publishes, or reconnects, may send a message twice: it bears what it can be known by.
    naming = None if window is None and line.policy is None else profile.stable_id_header
    publication: Publication | None = None
    # Hooks are shown the headers one by one, and may add to them.
    if observer is None and not options:
        plain = plain_outgoing(destination, body, headers, content_type, profile)
        if plain is not None and (naming is None or not headers or naming not in headers):
            publication = Publication(line.unconfirmed, destination, plain, naming, window)
    if publication is None:
        out = outgoing(body, headers, content_type, profile, options)
        publication = _exact(line, connection, destination, out, naming, window)
    try:
        frame = publication.frame(connection.protocol)
    except StompError as error:
        publication.never_sent(error)
        raise
    line.unconfirmed.add(publication)
    # A reader that is held goes on while anything is awaited.
    connection.gate.notify()
    if window is None:
        connection.post_at_once(frame)
    else:
        window.add(publication.octets)
        connection.post(frame)
    return publication


def _exact(
    line: Line, connection: Connection, destination: str, out: Outgoing, naming: str | None, window: Window | None
) -> Publication:
    """A publication whose headers need a second look."""
    # The sender's own id, where it gives one: it may outlive this process.
    own_id = next((value for name, value in out.headers if name == naming), None)
    if own_id is not None:
        naming = None
    publication = Publication(line.unconfirmed, destination, out, naming, window, own_id)
    if connection.observer is not None:
        publication.show_its_name()
        publication.when_ended(connection.observer.sending(destination, out, confirmed=True))
    return publication
