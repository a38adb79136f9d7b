"""Sending: one message or many, unconfirmed, confirmed one by one, or confirmed in a window.

A publisher keeps many messages on their way at once. The broker's RECEIPTs come in any order (RabbitMQ confirms
transient messages before persistent ones), and each frees one place in the window.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Unpack

import trio

from trio_stomp.brokers import SendOptions
from trio_stomp.client.connection import Connection
from trio_stomp.client.line import Line
from trio_stomp.client.options import HeaderInput
from trio_stomp.client.outgoing import Outgoing, OutgoingMessage, outgoing
from trio_stomp.client.unconfirmed import Publication
from trio_stomp.errors import NotConfirmed, StompError

__all__ = ["Publisher", "open_publisher", "post_message", "send_confirmed"]


def post_message(connection: Connection, destination: str, out: Outgoing) -> None:
    """Put a SEND into the outbox of a connection."""
    if connection.observer is not None:
        with connection.observer.posting(destination, out, None):
            _post(connection, destination, out)
        return
    _post(connection, destination, out)


def _post(connection: Connection, destination: str, out: Outgoing) -> None:
    connection.post(
        connection.protocol.send(destination, out.body, headers=out.headers, content_length=out.content_length)
    )


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
    publication = Publication(line.unconfirmed, destination, out)
    frame = _registered(line, connection, publication, out, named=line.policy is not None)
    connection.post_at_once(frame)
    try:
        await publication.wait()
    finally:
        publication.give_up()


def _registered(line: Line, connection: Connection, publication: Publication, out: Outgoing, *, named: bool) -> bytes:
    """Register a message for its RECEIPT; returns the frame, which must be posted at once.

    Args:
        line: Whose book it goes into.
        connection: Where it is going to be posted.
        publication: The message.
        out: What is sent.
        named: Whether it bears a stable id.
    """
    observer = connection.observer
    if named:
        publication.name_itself(connection.profile.stable_id_header, shown=observer is not None)
    if observer is not None:
        publication.when_ended(observer.sending(publication.destination, out, confirmed=True))
    try:
        frame = publication.frame(connection.protocol)
    except StompError as error:
        publication.never_sent(error)
        raise
    line.unconfirmed.add(publication)
    # A reader that is held goes on while anything is awaited.
    connection.gate.notify()
    return frame


class Publisher:
    """Sends messages and keeps count of what the broker has confirmed; see `Client.publisher`.

    Any number of tasks may send through it.

    Attributes:
        confirmed: How many messages the broker has confirmed.
        in_flight: How many messages await their RECEIPT.
    """

    def __init__(self, line: Line, max_in_flight: int, max_in_flight_octets: int) -> None:
        self._line = line
        self._max_in_flight = max_in_flight
        self._max_in_flight_octets = max_in_flight_octets
        self._failed: list[Publication] = []
        self._octets = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._somebody_waits = False
        self.confirmed = 0
        self.in_flight = 0

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
        octets = len(body)
        connection = self._line.at_once(octets) if self._has_room(octets) else None
        if connection is None:
            connection = await self._turn(octets)
        out = outgoing(body, headers, content_type, connection.profile, options)
        publication = Publication(self._line.unconfirmed, destination, out, self)
        connection.post(_registered(self._line, connection, publication, out, named=True))
        self.in_flight += 1
        self._octets += publication.octets
        return publication

    def _has_room(self, octets: int) -> bool:
        in_flight = self.in_flight
        return not in_flight or (
            in_flight < self._max_in_flight and self._octets + octets <= self._max_in_flight_octets
        )

    async def _turn(self, octets: int) -> Connection:
        """Wait for room in the window, and for this caller's turn."""
        line = self._line
        try:
            while not self._has_room(octets):
                self._somebody_waits = True
                await self._waiting.park()
            return line.at_once(octets) or await line.turn(octets)
        except StompError as error:
            if line.failure is None:
                raise
            raise self._not_confirmed() or error from error

    # --- what became of them --------------------------------------------------------------------------------------

    def confirmed_one(self, octets: int) -> None:
        """The broker has one of them, with so many octets."""
        self.confirmed += 1
        self._freed(octets)

    def failed_one(self, publication: Publication) -> None:
        """One of them was refused, or its connection is gone for good, or it was given up."""
        self._failed.append(publication)
        self._freed(publication.octets)

    def _freed(self, octets: int) -> None:
        self.in_flight -= 1
        self._octets -= octets
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
        while self.in_flight:
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
        left = [each.unconfirmed() for each in (*self._failed, *self._on_their_way()) if not each.noticed]
        return str(NotConfirmed(left)) if left else None

    def give_up(self) -> None:
        """Wait for nothing any more."""
        for publication in self._on_their_way():
            publication.give_up()

    def _on_their_way(self) -> list[Publication]:
        if not self.in_flight:
            return []
        return [each for each in self._line.unconfirmed.open_ones() if each.sender is self]


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
