"""Confirmed sending in a window, for synchronous code."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial

from trio_stomp.blocking.link import Finish, Link
from trio_stomp.bridge import Entered, Lane
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage
from trio_stomp.client import Publication as AsyncPublication
from trio_stomp.client import Publisher as AsyncPublisher
from trio_stomp.errors import Delivery, StompError, UnconfirmedError, UnconfirmedMessage
from trio_stomp.session import Session, checked

__all__ = ["Publication", "Publisher", "open_publisher"]


class Publication:
    """A message whose RECEIPT is awaited.

    Attributes:
        destination: Where it is sent.
        body_bytes: The length of its body.
    """

    __slots__ = ("_error", "_inner", "_lane", "body_bytes", "destination")

    _lane: Lane
    _inner: AsyncPublication | None
    _error: StompError | None
    destination: str
    body_bytes: int

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publication cannot be constructed: Publisher.send() returns it")

    @property
    def id(self) -> str:
        """Its stable id: the same each time that it is sent. It is given when the message is put into the outbox.

        Raises:
            StompError: The message could not be sent.
        """
        if self._inner is None and self._error is None:
            self._lane.call(self._lane.wait_done, raises_earlier=False)
        return self._sent().id

    @property
    def delivery(self) -> Delivery:
        """What is known of it; UNKNOWN until the broker answers."""
        return Delivery.UNKNOWN if self._inner is None else self._inner.delivery

    @property
    def error(self) -> StompError | None:
        """Why it was not confirmed, once that is settled."""
        return self._error if self._inner is None else self._inner.error

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is final."""
        return self._error is not None if self._inner is None else self._inner.is_settled

    def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The link is gone for good; it may or may not have arrived.
        """
        self._lane.call(self._wait, raises_earlier=False)

    async def _wait(self) -> None:
        await self._sent().wait()

    def wait_settled(self) -> None:
        """Wait until its outcome is final; `delivery` is the outcome."""
        if not self.is_settled:
            self._lane.call(self._settled_in_turn, raises_earlier=False)

    async def _settled_in_turn(self) -> None:
        if self._inner is not None:
            await self._inner.wait_settled()

    def _sent(self) -> AsyncPublication:
        if self._inner is None:
            raise self._error or AssertionError  # it was its turn, so it was sent or has failed
        return self._inner

    def __repr__(self) -> str:
        return (
            f"<Publication to {self.destination!r}: {self.delivery.value}>"
            if self._inner is None
            else repr(self._inner)
        )


class _Publication(Publication):
    """The Publication that the library constructs."""

    __slots__ = ()

    def __init__(self, lane: Lane, message: OutgoingMessage, inner: AsyncPublication | None = None) -> None:
        self._lane = lane
        self._inner = inner
        self._error = None
        self.destination = message.destination
        self.body_bytes = len(message.body)

    @property
    def was_never_sent(self) -> bool:
        """Whether it failed before it was sent."""
        return self._inner is None and self._error is not None

    def unsent(self, why: StompError) -> UnconfirmedMessage:
        """Return what an error says of it when it was never sent. It has no id, because that is given on sending."""
        reason = f"it was not sent: {self._error or why}"
        return UnconfirmedMessage(id="", destination=self.destination, delivery=Delivery.UNKNOWN, reason=reason)

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def settled_in_turn(self) -> None:
        """`wait_settled`, once its turn to be sent has come.

        Cancellation: nothing changes.
        """
        await self._settled_in_turn()

    async def send_in_turn(self, publisher: AsyncPublisher, message: OutgoingMessage) -> None:
        """Send it.

        Cancellation: the frame was sent whole or not at all.
        """
        try:
            (self._inner,) = await publisher.send_many((message,))
        except StompError as error:
            self._error = error
            raise


class Publisher:
    """Sends messages and keeps count of what the broker has confirmed; see `Client.publisher`.

    Any number of threads may send through it.
    """

    _lane: Lane
    _inner: AsyncPublisher
    _session: Session
    _max_in_flight: int
    _max_in_flight_bytes: int
    _lock: threading.Lock
    _open: list[_Publication]
    _bytes: int

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publisher cannot be constructed: use with client.publisher() as publisher")

    @property
    def confirmed(self) -> int:
        """How many messages the broker has confirmed."""
        return self._inner.confirmed

    @property
    def in_flight(self) -> int:
        """How many messages await their RECEIPT, those included that wait to be written."""
        return sum(not each.is_settled for each in tuple(self._open))

    def send(
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
        """Send a message; waits only while the window is full, or while there is no connection.

        Args:
            destination: Where to; the broker gives it its meaning.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            headers: More headers; a list of pairs may repeat names.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.

        Returns:
            The Publication: what is known of the message; its `Publication.wait` waits for the RECEIPT.

        Raises:
            UnconfirmedError: The link is gone for good; it names every message that was not confirmed.
            LocalProtocolError: A header cannot be represented, or is one that an argument sets.
            NotSupportedError: The broker has no such option.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        message = OutgoingMessage(destination, body, headers, content_type, options)
        self._raise_failure()
        copied = checked(self._session, message)
        publication = _Publication(self._lane, message)
        # One after the other, also while waiting for room: callers must not overtake each other.
        with self._lock:
            self._make_room(publication.body_bytes)
            if copied is None:
                self._lane.call(partial(publication.send_in_turn, self._inner, message))
            else:
                self._lane.post(partial(publication.send_in_turn, self._inner, copied), publication.body_bytes)
            self._open.append(publication)
            self._bytes += publication.body_bytes
        return publication

    def send_many(self, messages: Iterable[OutgoingMessage]) -> list[Publication]:
        """`send` for many, in one call.

        Returns:
            The Publication of each, in order.

        Raises:
            UnconfirmedError: The link is gone for good; it names every message that was not confirmed.
            LocalProtocolError: A header cannot be represented; the messages before that one were sent.
        """
        listed = tuple(messages)
        self._raise_failure()
        with self._lock:
            inner = self._lane.call(partial(self._inner.send_many, listed))
            sent = [_Publication(self._lane, *each) for each in zip(listed, inner, strict=True)]
            self._forget_settled()
            self._open += sent
            self._bytes += sum(each.body_bytes for each in sent)
        return list(sent)

    def _make_room(self, body_bytes: int) -> None:
        while self._is_full(body_bytes):
            self._forget_settled()
            if self._is_full(body_bytes):
                # Not for room for one: each message to come would have to wait for its own.
                awaited = self._open[len(self._open) // 4]
                self._lane.call(awaited.settled_in_turn)

    def _is_full(self, body_bytes: int) -> bool:
        over = self._bytes + body_bytes > self._max_in_flight_bytes
        return bool(self._open) and (len(self._open) >= self._max_in_flight or over)

    def _forget_settled(self) -> None:
        self._open = [each for each in self._open if not each.is_settled]
        self._bytes = sum(each.body_bytes for each in self._open)

    def _raise_failure(self) -> None:
        """Raise what a call that did not wait has failed with, and name the messages that were never sent.

        Raises:
            UnconfirmedError: That.
        """
        failure = self._lane.take_failure()
        if failure is None:
            return
        known = failure.messages if isinstance(failure, UnconfirmedError) else ()
        unsent = [each.unsent(failure) for each in self._open if each.was_never_sent]
        raise UnconfirmedError([*known, *unsent]) from failure

    def wait_confirmed(self) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does it.

        Raises:
            UnconfirmedError: Some were not; it names each, once.
        """
        self._lane.call(self._inner.wait_confirmed)


class _OpenPublisher(Publisher):
    """The Publisher that the library constructs."""

    def __init__(
        self, lane: Lane, inner: AsyncPublisher, session: Session, max_in_flight: int, max_in_flight_bytes: int
    ) -> None:
        self._lane = lane
        self._inner = inner
        self._session = session
        self._max_in_flight = max_in_flight
        self._max_in_flight_bytes = max_in_flight_bytes
        # The window is kept here too, so that acknowledgments do not wait behind a message that has no room.
        self._lock = threading.Lock()
        self._open = []
        self._bytes = 0

    def raise_failure(self) -> None:
        """Raise what a call that did not wait has failed with."""
        self._raise_failure()


@contextmanager
def open_publisher(
    link: Link, manager: AbstractAsyncContextManager[AsyncPublisher], max_in_flight: int, max_in_flight_bytes: int
) -> Generator[Publisher]:
    """Keep a publisher for the length of a block."""
    link.lane.catch_up()
    lane = link.lane.branch()
    with Entered(lane.bridge, manager) as inner:
        publisher = _OpenPublisher(lane, inner, link.session, max_in_flight, max_in_flight_bytes)
        with Finish(lane):
            yield publisher
        publisher.raise_failure()
