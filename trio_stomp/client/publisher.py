"""Confirmed sending in a window: many messages await their RECEIPT at once.

The broker's RECEIPTs come in any order (RabbitMQ confirms transient messages before persistent ones), and each frees
one place in the window.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.errors import StompError, UnconfirmedError, UnconfirmedMessage
from trio_stomp.runtime import iterated
from trio_stomp.session import (
    Connection,
    HeaderInput,
    OutgoingMessage,
    Publication,
    Session,
    Window,
    mark_raised,
    publish,
)

__all__ = ["Publisher", "open_publisher"]


class Publisher:
    """Sends messages and collects their confirmations; see `Client.publisher`.

    Any number of tasks may send through one publisher.
    """

    def __init__(self, session: Session, window: Window) -> None:
        self._session = session
        self._window = window

    def __repr__(self) -> str:
        return f"<Publisher: {self.confirmed} confirmed, {self.in_flight} in flight>"

    @property
    def confirmed(self) -> int:
        """Number of messages that the broker has confirmed."""
        return self._window.confirmed

    @property
    def in_flight(self) -> int:
        """Number of messages that await their RECEIPT."""
        return self._window.in_flight

    async def send(
        self,
        destination: str,
        body: bytes | str,
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
    ) -> Publication:
        """Send a message. Waits only while the window is full, or while there is no connection.

        Args:
            destination: Where to send it, such as ``/queue/orders``. What it means depends on the broker.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            headers: More headers: a mapping, or a list of pairs if a name occurs twice.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.

        Returns:
            The Publication: the outcome of this message. `Publication.wait` waits for its RECEIPT.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            LocalProtocolError: A header is invalid, or an argument sets it already.
            NotSupportedError: The broker does not support an option.

        Cancellation: the frame was sent as a whole or not at all.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        size, window = len(body), self._window
        has_room = not window.order.taken and window.has_room(size)
        connection = (has_room and self._session.at_once(size)) or await self._turn(size)
        return publish(connection, destination, body, headers, content_type, options, window)

    async def send_many(self, messages: Iterable[OutgoingMessage]) -> list[Publication]:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Returns:
            The Publication of each message, in order.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            LocalProtocolError: A header is invalid; the messages before this one were sent.

        Cancellation: the first of them may have been sent, each frame as a whole.
        """
        session, window = self._session, self._window
        publications: list[Publication] = []
        for each in iterated(messages):
            size = len(each.body)
            has_room = not window.order.taken and window.has_room(size)
            connection = (has_room and session.at_once(size)) or await self._turn(size)
            publications.append(
                publish(
                    connection,
                    each.destination,
                    each.body,
                    each.headers,
                    each.content_type,
                    each.options,
                    window,
                )
            )
        return publications

    async def _turn(self, size: int) -> Connection:
        """Wait for room in the window, and for this caller's turn."""
        session, window = self._session, self._window
        try:
            # Held while the caller waits for its turn, too: nothing else may take the room that it has found.
            async with window.order:
                await window.wait_for_room(size)
                return await session.turn(size)
        except StompError as error:
            if session.failure is None:
                raise
            raise self._not_confirmed() or error from error

    async def wait_confirmed(self) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does the same.

        Raises:
            UnconfirmedError: Some were not; it lists each message, once.

        Cancellation: nothing changes; the messages still await their RECEIPT.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        await self._window.wait_empty()
        error = self._not_confirmed()
        if error is not None:
            raise error

    def _not_confirmed(self) -> UnconfirmedError | None:
        """Return the error for all messages that failed and were not reported yet, if any."""
        failed = self._window.take_failed()
        if not failed:
            return None
        error = UnconfirmedError([_unconfirmed(each) for each in failed])
        error.__cause__ = failed[0].error
        for each in failed:
            if each.error is not None:
                mark_raised(each.error)
        return error


def _unconfirmed(message: Publication) -> UnconfirmedMessage:
    reason = "its RECEIPT had not come" if message.error is None else str(message.error)
    return UnconfirmedMessage(id=message.id, destination=message.destination, delivery=message.delivery, reason=reason)


@asynccontextmanager
async def open_publisher(session: Session, max_in_flight: int, max_in_flight_bytes: int) -> AsyncGenerator[Publisher]:
    """Open a publisher for the length of a block."""
    receipts, window = session.receipts, Window(max_in_flight, max_in_flight_bytes)
    publisher = Publisher(session, window)
    try:
        yield publisher
        await publisher.wait_confirmed()
    except Exception as error:
        # The exception of the block is raised, with a note that lists the unconfirmed messages.
        left = [*window.failed, *receipts.messages_of(window)]
        if left:
            error.add_note(str(UnconfirmedError([_unconfirmed(each) for each in left])))
        raise
    finally:
        for each in receipts.messages_of(window):
            receipts.give_up(each)
