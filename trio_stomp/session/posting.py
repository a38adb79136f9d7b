"""Messages that nobody waits for, on their way into the outbox: unconfirmed ones, and those of transactions."""

from __future__ import annotations

from contextlib import nullcontext

from trio_stomp.brokers import SendOptions
from trio_stomp.session.connection import Connection
from trio_stomp.session.outgoing import outgoing, plain_outgoing
from trio_stomp.session.settings import HeaderInput

__all__ = ["post_message"]


def post_message(
    connection: Connection,
    destination: str,
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
    transaction: str | None = None,
    receipt: str | None = None,
) -> None:
    """Put a SEND into the outbox of a connection; to be called when it is the caller's turn.

    Args:
        connection: The connection.
        destination: As for `Client.send`, like the next four.
        body: The body.
        headers: The headers of its sender.
        content_type: MIME type of the body.
        options: What brokers add.
        transaction: The id of the open transaction that it is part of; made by the client, like the next, so plain.
        receipt: The id of the RECEIPT to ask for.

    Raises:
        LocalProtocolError: It cannot be represented, or sent now; nothing was put there.
        NotSupported: The broker has no such option.
    """
    protocol, observer = connection.protocol, connection.observer
    # Hooks are shown the headers one by one, and may add to them.
    if observer is None:
        plain = plain_outgoing(destination, body, headers, content_type, connection.profile, options)
        if plain is not None:
            head, octets, content_length = plain
            own = b"" if transaction is None else b"\ntransaction:%b" % transaction.encode()
            if receipt is not None:
                own += b"\nreceipt:%b" % receipt.encode()
            connection.post(protocol.send_plain(head, octets, own, content_length=content_length))
            return
    out = outgoing(body, headers, content_type, connection.profile, options)
    with nullcontext() if observer is None else observer.posting(destination, out.headers, len(out.body), transaction):
        pairs = out.headers if receipt is None else [*out.headers, ("receipt", receipt)]
        connection.post(
            protocol.send(
                destination, out.body, headers=pairs, content_length=out.content_length, transaction=transaction
            )
        )
