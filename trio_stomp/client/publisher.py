"""Confirmed sending: messages one by one, or many in a window.

A publisher keeps many messages on their way at once. The broker's RECEIPTs come in any order (RabbitMQ confirms
transient messages before persistent ones), and each frees one place in the window.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final, Unpack

import trio

from trio_stomp.brokers import SendOptions
from trio_stomp.client.connection import Connection
from trio_stomp.client.line import Line
from trio_stomp.client.options import HeaderInput
from trio_stomp.client.outgoing import Outgoing, OutgoingMessage, outgoing
from trio_stomp.client.unconfirmed import Publication
from trio_stomp.errors import Delivery, NotConfirmed, StompError

__all__ = ["Publisher", "open_publisher", "send_confirmed"]

_CONFIRMED: Final = Delivery.CONFIRMED


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
    out = outgoing(body, headers, content_type, connection.profile, options)
    publication = _publication(line, connection, destination, out, stable_id=line.policy is not None)
    line.unconfirmed.post(publication, connection, at_once=True)
    try:
        await publication.wait()
    finally:
        if not publication.is_settled:
            publication.give_up()


def _publication(
    line: Line,
    connection: Connection,
    destination: str,
    out: Outgoing,
    *,
    stable_id: bool,
    publisher: Publisher | None = None,
) -> Publication:
    book = line.unconfirmed
    publication_id = book.new_id()
    if stable_id:
        pairs = connection.profile.stable_id(publication_id)
        # The sender's own id, where it gives one: it may outlive this process.
        wanted = pairs[0][0]
        own = [value for name, value in out.headers if name == wanted]
        if own:
            publication_id = own[0]
        elif connection.observer is None:
            out.own_headers = pairs
        else:
            # Hooks are shown the headers, and this one belongs to them.
            out.headers += pairs
    on_settled = None if publisher is None else publisher.settled
    publication = Publication(publication_id, destination, out, book, on_settled)
    if connection.observer is not None:
        publication.ended = connection.observer.sending(destination, out, confirmed=True)
    return publication


class Publisher:
    """Sends messages and keeps count of what the broker has confirmed; see `Client.publisher`.

    Any number of tasks may send through it.

    Attributes:
        confirmed: How many messages the broker has confirmed.
    """

    def __init__(self, line: Line, max_in_flight: int, max_in_flight_octets: int) -> None:
        self._line = line
        self._max_in_flight = max_in_flight
        self._max_in_flight_octets = max_in_flight_octets
        self._in_flight: dict[Publication, None] = {}
        self._failed: list[Publication] = []
        self._octets = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._somebody_waits = False
        self.confirmed = 0

    @property
    def in_flight(self) -> int:
        """How many messages await their RECEIPT."""
        return len(self._in_flight)

    async def send(
        self,
        destination: str,
        body: bytes | str,
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Publication:
        """Send a message; waits only while the window is full, or while there is no connection.

        Args:
            destination: Where to; the broker gives it its meaning.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            headers: More headers; a list of pairs may repeat names.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            **options: What brokers add, such as ``persistent=True`` and ``ttl=60``; see `SendOptions`.

        Returns:
            The Publication: what is known of the message; its `Publication.wait` waits for the RECEIPT.

        Raises:
            NotConfirmed: The link is gone for good; it names every message that was not confirmed.
            LocalProtocolError: A header cannot be represented, or is one that an argument sets.
            NotSupported: The broker has no such option.

        Cancellation: the frame was sent whole or not at all.

        Spec: SEND; Header receipt.
        """
        return await self._send(destination, body, headers, content_type, options)

    async def send_many(self, messages: Iterable[OutgoingMessage]) -> list[Publication]:
        """`send` for many, in one call.

        Returns:
            The Publication of each, in order.

        Raises:
            NotConfirmed: The link is gone for good; it names every message that was not confirmed.
            LocalProtocolError: A header cannot be represented; the messages before that one were sent.

        Cancellation: a first part of them was sent, each whole.
        """
        return [
            await self._send(each.destination, each.body, each.headers, each.content_type, each.options)
            for each in messages
        ]

    async def _send(
        self,
        destination: str,
        body: bytes | str,
        headers: HeaderInput | None,
        content_type: str | None,
        options: SendOptions | None,
    ) -> Publication:
        line, octets = self._line, len(body)
        try:
            while self._is_full(octets):
                self._somebody_waits = True
                await self._waiting.park()
            connection = line.at_once(octets) or await line.turn(octets)
        except StompError as error:
            if line.failure is None:
                raise
            raise self._not_confirmed() or error from error
        out = outgoing(body, headers, content_type, connection.profile, options)
        publication = _publication(line, connection, destination, out, stable_id=True, publisher=self)
        line.unconfirmed.post(publication, connection)
        self._in_flight[publication] = None
        self._octets += publication.octets
        return publication

    def _is_full(self, octets: int) -> bool:
        over = self._octets + octets > self._max_in_flight_octets
        return bool(self._in_flight) and (len(self._in_flight) >= self._max_in_flight or over)

    def settled(self, publication: Publication) -> None:
        """The broker has answered for a message, or never will."""
        del self._in_flight[publication]
        self._octets -= publication.octets
        if publication.delivery is _CONFIRMED:
            self.confirmed += 1
        else:
            self._failed.append(publication)
        if self._somebody_waits:
            self._somebody_waits = False
            self._waiting.unpark_all()

    async def wait_confirmed(self) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does it.

        Raises:
            NotConfirmed: Some were not; it names each, once.

        Cancellation: nothing changes; they are still on their way.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._in_flight:
            self._somebody_waits = True
            await self._waiting.park()
        error = self._not_confirmed()
        if error is not None:
            raise error

    def _not_confirmed(self) -> NotConfirmed | None:
        """All that failed and that nobody has seen fail."""
        failed = [each for each in self._failed if not each.noticed]
        self._failed.clear()
        if not failed:
            return None
        error = NotConfirmed([each.unconfirmed() for each in failed])
        error.__cause__ = failed[0].error
        for each in failed:
            each.noticed = True
            if each.error is not None:
                self._line.was_raised(each.error)
        return error

    def unseen(self) -> str | None:
        """What is not confirmed and nobody has been told of, for people."""
        left = [each.unconfirmed() for each in (*self._failed, *self._in_flight) if not each.noticed]
        return str(NotConfirmed(left)) if left else None

    def give_up(self) -> None:
        """Wait for nothing any more."""
        for publication in list(self._in_flight):
            publication.give_up()


@asynccontextmanager
async def open_publisher(line: Line, max_in_flight: int, max_in_flight_octets: int) -> AsyncGenerator[Publisher]:
    """Keep a publisher for the length of a block."""
    publisher = Publisher(line, max_in_flight, max_in_flight_octets)
    try:
        yield publisher
        await publisher.wait_confirmed()
    except Exception as error:
        # The block's own exception goes its way; that messages are unconfirmed besides must not be lost with it.
        note = publisher.unseen()
        if note is not None:
            error.add_note(note)
        raise
    finally:
        publisher.give_up()
