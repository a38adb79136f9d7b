"""Confirmed sending in a window, for synchronous code."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial

from trio_stomp.blocking.link import Finish, Link
from trio_stomp.bridge import CrossedPublication, Entered, Lane, PublisherWindow
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage
from trio_stomp.client import Publication as AsyncPublication
from trio_stomp.client import Publisher as AsyncPublisher
from trio_stomp.session import Session, checked

__all__ = ["Publication", "Publisher", "open_publisher"]


class Publication(CrossedPublication):
    """A message whose RECEIPT is awaited.

    Attributes:
        destination: Where it is sent.
        body_bytes: The length of its body.
    """

    __slots__ = ("_lane",)

    _lane: Lane

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

    def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The connection is lost for good; the message may or may not have arrived.
        """
        self._lane.call(self._wait, raises_earlier=False)

    def wait_settled(self) -> None:
        """Wait until its outcome is final; `delivery` is the outcome."""
        if not self.is_settled:
            self._lane.call(self._wait_settled, raises_earlier=False)


class _Publication(Publication):
    """The Publication that the library constructs."""

    __slots__ = ()

    def __init__(self, lane: Lane, message: OutgoingMessage, inner: AsyncPublication | None = None) -> None:
        CrossedPublication.__init__(self, message, inner)
        self._lane = lane


class Publisher:
    """Sends messages and keeps count of what the broker has confirmed; see `Client.publisher`.

    Any number of threads may send through it.
    """

    _lane: Lane
    _inner: AsyncPublisher
    _session: Session
    _window: PublisherWindow[_Publication]

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publisher cannot be constructed: use with client.publisher() as publisher")

    @property
    def confirmed(self) -> int:
        """How many messages the broker has confirmed."""
        return self._inner.confirmed

    @property
    def in_flight(self) -> int:
        """How many messages await their RECEIPT, those included that wait to be written."""
        return self._window.in_flight

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
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            LocalProtocolError: A header is invalid, or an argument sets it already.
            NotSupportedError: The broker has no such option.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        message = OutgoingMessage(destination, body, headers, content_type, options)
        window, lane = self._window, self._lane
        window.raise_failure()
        copied = checked(self._session, message)
        publication = _Publication(lane, message)
        size = publication.body_bytes
        # One after the other, also while waiting for room: callers must not overtake each other.
        with window.lock:
            while not window.has_room(size):
                lane.call(window.wait_room)
            if copied is None:
                lane.call(partial(window.send, publication, message))
            else:
                lane.post(partial(window.send, publication, copied), size)
            window.add(publication)
        return publication

    def send_many(self, messages: Iterable[OutgoingMessage]) -> list[Publication]:
        """`send` for many, in one call.

        Returns:
            The Publication of each, in order.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            LocalProtocolError: A header is invalid; the messages before this one were sent.
        """
        listed = tuple(messages)
        self._window.raise_failure()
        with self._window.lock:
            inner = self._lane.call(partial(self._inner.send_many, listed))
            sent = [_Publication(self._lane, *each) for each in zip(listed, inner, strict=True)]
            self._window.add_many(sent)
        return list[Publication](sent)

    def wait_confirmed(self) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does it.

        Raises:
            UnconfirmedError: Some were not; it lists each message, once.
        """
        self._lane.call(self._inner.wait_confirmed)


class _OpenPublisher(Publisher):
    """The Publisher that the library constructs."""

    def __init__(
        self, lane: Lane, inner: AsyncPublisher, session: Session, window: PublisherWindow[_Publication]
    ) -> None:
        self._lane = lane
        self._inner = inner
        self._session = session
        self._window = window


@contextmanager
def open_publisher(
    link: Link, manager: AbstractAsyncContextManager[AsyncPublisher], max_in_flight: int, max_in_flight_bytes: int
) -> Generator[Publisher]:
    """Keep a publisher for the length of a block."""
    link.lane.catch_up()
    lane = link.lane.branch()
    with Entered(lane.bridge, manager) as inner:
        window = PublisherWindow[_Publication](lane, inner, max_in_flight, max_in_flight_bytes)
        with Finish(lane):
            yield _OpenPublisher(lane, inner, link.session, window)
        window.raise_failure()
