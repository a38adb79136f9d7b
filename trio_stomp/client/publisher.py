"""Confirmed sending in a window: many messages await their RECEIPT at once.

The broker's RECEIPTs come in any order (RabbitMQ confirms transient messages before persistent ones), and each frees
one place in the window.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Final, TypeVar

import anyio.lowlevel

from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.errors import StompError, UnconfirmedError, UnconfirmedTimeout
from trio_stomp.runtime import iterated
from trio_stomp.session import (
    Connection,
    EncodeValue,
    HeaderInput,
    Limit,
    OutgoingMessage,
    Publication,
    Session,
    Window,
    add_note,
    checked_seconds,
    completed,
    limit_of,
    mark_raised,
    parts_of,
    publish,
    size_of,
    unconfirmed,
)

__all__ = ["Publisher", "open_publisher", "send_confirmed_many"]

# The type of `json=`.
J = TypeVar("J")

# What `send_many` has in flight, as a publisher by default.
_IN_FLIGHT: Final = 256
_IN_FLIGHT_BYTES: Final = 16 * 1024 * 1024


class Publisher:
    """Sends messages and collects their confirmations; see `Client.publisher`.

    Any number of tasks may send through one publisher.
    """

    # The arguments are the library's own.
    def __init__(self, session: Session | None = None, window: Window | None = None) -> None:
        if not isinstance(session, Session) or window is None:
            raise TypeError("a Publisher cannot be constructed: use async with client.publisher() as publisher")
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
        return self._window.messages

    async def send(
        self,
        destination: str | OutgoingMessage,
        body: bytes | str | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
        timeout: float | None = None,
    ) -> Publication:
        """Send a message. Waits only while the window is full, or while there is no connection.

        Args:
            destination: Where to send it, such as ``/queue/orders``. What it means depends on the broker. Or an
                OutgoingMessage, which holds all the rest but `timeout`.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            json: A value to encode in place of `body`; the content-type is then ``application/json``.
            encode: Turns the value of `json` into bytes or str, for example ``msgspec.json.encode``. Default: the
                shortest form of Python's own ``json``, in UTF-8.
            headers: More headers: a mapping, or a list of pairs if a name occurs twice.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.
            timeout: Seconds to wait for room at most. Default: that of `connect`.

        Returns:
            The Publication: the outcome of this message. `Publication.wait` waits for its RECEIPT.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            ConnectionLost: The same, where every message was confirmed or has been reported.
            TypeError: Neither `body` nor `json` was given, or both.
            LocalProtocolError: A header is invalid, or an argument sets it already, or `json` cannot be encoded.
            NotSupportedError: The broker does not support an option, or sends no RECEIPT.
            OperationTimeout: There was no room in time; nothing was sent.

        Cancellation: the frame was sent as a whole or not at all. At the `timeout`, it was not sent.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        if body is None or json is not None or encode is not None or type(destination) is not str:
            message = completed(destination, body, headers, content_type, options, json, encode)
        else:
            message = (destination, body, headers, content_type, options)
        # Most bodies are bytes, and need no call.
        size, window = len(body) if type(body) is bytes else size_of(message[1]), self._window
        if timeout is not None:
            checked_seconds(timeout)
        connection = self._session.at_once(size) if window.is_free(size) else None
        if connection is None:
            seconds = limit_of(timeout, self._session.settings.timeout)
            async with Limit(seconds, f"send() of a publisher to {message[0]!r}", self._session) as limit:
                limit.when_reached = self._note_full
                connection = await self._turn(size)
        return publish(connection, message, window)

    async def send_many(
        self, messages: Iterable[OutgoingMessage], *, timeout: float | None = None
    ) -> list[Publication]:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Args:
            messages: The messages, in the order in which to send them.
            timeout: Seconds to wait for room at most, in the whole call. Default: that of `connect`.

        Returns:
            The Publication of each message, in order.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            ConnectionLost: The same, where every message was confirmed or has been reported.
            LocalProtocolError: A header is invalid; the messages before this one were sent.
            NotSupportedError: The broker does not support an option; likewise. Or it sends no RECEIPT.
            OperationTimeout: There was no room for all of them in time; its `sent` says how many were sent.

        Cancellation: the first of them may have been sent, each frame as a whole. They still await their RECEIPT, and
        leaving the block waits for that. The same is true at the `timeout`.
        """
        session, window = self._session, self._window
        seconds = limit_of(timeout, session.settings.timeout)
        publications: list[Publication] = []
        async with Limit(seconds, "send_many() of a publisher", session) as limit:
            try:
                for each in iterated(messages):
                    if seconds == 0:
                        session.rested()
                    message = parts_of(each)
                    size = size_of(message[1])
                    connection = session.at_once(size) if window.is_free(size) else None
                    if connection is None:
                        connection = await self._turn(size)
                    publications.append(publish(connection, message, window))
            finally:
                limit.sent = len(publications)
                limit.outcome = f"messages sent: {limit.sent}; leaving the publisher waits for their RECEIPTs"
        return publications

    async def _turn(self, size: int) -> Connection:
        """Wait for room in the window, and for this caller's turn."""
        session, window = self._session, self._window
        try:
            return await window.acquire(size, partial(session.turn, size))
        except StompError as error:
            failed = None if session.failure is None else _failure(window)
            if failed is None:
                raise
            raise failed from error

    async def wait_confirmed(self, *, timeout: float | None = None) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does the same.

        Args:
            timeout: Seconds to wait at most. Default: that of `connect`.

        Raises:
            UnconfirmedError: Some were not; it lists each message, once.
            OperationTimeout: Some await their RECEIPT still; it lists them.

        Cancellation: nothing changes; the messages still await their RECEIPT. The same is true at the `timeout`.
        """
        session, window = self._session, self._window
        seconds = limit_of(timeout, session.settings.timeout)
        await anyio.lowlevel.checkpoint_if_cancelled()
        async with Limit(seconds, "wait_confirmed()", session) as limit:
            limit.when_reached = self._note_awaited
            await window.wait_empty()
        _raise_failed(window)

    def _note_full(self, limit: Limit) -> None:
        limit.outcome = f"nothing was sent; earlier messages that await their RECEIPT: {self.in_flight}"

    def _note_awaited(self, limit: Limit) -> None:
        limit.unconfirmed = [unconfirmed(each) for each in self._session.receipts.messages_of(self._window)]
        limit.outcome = f"messages that await their RECEIPT: {self.in_flight}; you may wait again"


def _failure(window: Window) -> UnconfirmedError | None:
    """Return the error for all messages that failed and were not reported yet, if any."""
    failed = window.take_failed()
    if not failed:
        return None
    error = UnconfirmedError([unconfirmed(each) for each in failed])
    error.__cause__ = failed[0].error
    for each in failed:
        if each.error is not None:
            mark_raised(each.error)
    return error


def _raise_failed(window: Window) -> None:
    error = _failure(window)
    if error is not None:
        raise error


@asynccontextmanager
async def open_publisher(
    session: Session, new_window: Callable[[], Window], seconds: float | None
) -> AsyncGenerator[Publisher]:
    """Open a publisher for the length of a block; `seconds` is the time limit of leaving it."""
    # Not before, as its queues belong to the loop that runs: the blocking client calls `publisher` in another thread.
    window = new_window()
    receipts, publisher = session.receipts, Publisher(session, window)
    try:
        try:
            yield publisher
        except Exception as error:
            # The exception of the block is raised, with a note that lists the unconfirmed messages.
            left = [*window.failed, *receipts.messages_of(window)]
            if left:
                add_note(error, str(UnconfirmedError([unconfirmed(each) for each in left])))
            raise
        await anyio.lowlevel.checkpoint_if_cancelled()
        async with Limit(seconds, "leaving publisher()", session) as limit:
            limit.when_reached = partial(_note_given_up, session, window)
            await window.wait_empty()
        _raise_failed(window)
    finally:
        for each in receipts.messages_of(window):
            receipts.give_up(each)


async def send_confirmed_many(session: Session, messages: Iterable[OutgoingMessage], seconds: float | None) -> None:
    """Send many messages, and wait until the broker has confirmed all of them.

    Cancellation: the first of them may have been sent; they are not sent again.
    """
    window = Window(_IN_FLIGHT, _IN_FLIGHT_BYTES)
    async with Limit(seconds, "send_many()", session) as limit:
        limit.when_reached = partial(_note_given_up, session, window)
        async with open_publisher(session, lambda: window, None) as publisher:
            await publisher.send_many(messages, timeout=inf)


def _note_given_up(session: Session, window: Window, limit: Limit) -> None:
    """Note the messages that were not confirmed, for a limit that ends the waiting for them."""
    left = [*window.failed, *session.receipts.messages_of(window)]
    limit.sent = window.confirmed + len(left)
    if not left:
        return
    for each in left:
        if each.error is not None:
            mark_raised(each.error)
    error = UnconfirmedError([unconfirmed(each) for each in left])
    limit.kind, limit.unconfirmed, limit.outcome = UnconfirmedTimeout, error.messages, str(error)
