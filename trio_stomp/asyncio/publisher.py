"""Confirmed sending in a window, for asyncio code."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from trio_stomp.asyncio.crossing import Crossing
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage
from trio_stomp.client import Publication as TrioPublication
from trio_stomp.client import Publisher as TrioPublisher
from trio_stomp.errors import Delivery, StompError, UnconfirmedError, UnconfirmedMessage
from trio_stomp.session import Session, checked

__all__ = ["Publication", "Publisher", "open_publisher"]


class Publication:
    """A message whose RECEIPT is awaited. `Publisher.send` returns it.

    Attributes:
        destination: Where it is sent.
        body_bytes: The length of its body.
    """

    __slots__ = ("_crossing", "_error", "_inner", "body_bytes", "destination")

    _crossing: Crossing
    _inner: TrioPublication | None
    _error: StompError | None
    destination: str
    body_bytes: int

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publication cannot be constructed: Publisher.send() returns it")

    @property
    def id(self) -> str:
        """Its stable id: the same each time that it is sent. Empty until the trio thread has sent it."""
        return "" if self._inner is None else self._inner.id

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
        """Whether the outcome is final."""
        return self._error is not None if self._inner is None else self._inner.is_settled

    async def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The connection is lost for good; the message may or may not have arrived.

        Cancellation: nothing changes; you may wait again.
        """
        await self._crossing.in_turn(self._wait, raises_earlier=False)

    async def _wait(self) -> None:
        if self._inner is None:
            raise self._error or AssertionError  # it was its turn, so it was sent or has failed
        await self._inner.wait()

    async def wait_settled(self) -> None:
        """Wait until the outcome is final; then see `delivery`.

        Cancellation: nothing changes.
        """
        if not self.is_settled:
            await self._crossing.in_turn(self._wait_settled, raises_earlier=False)

    async def _wait_settled(self) -> None:
        if self._inner is not None:
            await self._inner.wait_settled()

    def __repr__(self) -> str:
        return (
            f"<Publication to {self.destination!r}: {self.delivery.value}>"
            if self._inner is None
            else repr(self._inner)
        )


class _Publication(Publication):
    """The Publication that the library constructs."""

    __slots__ = ()

    def __init__(self, crossing: Crossing, message: OutgoingMessage, inner: TrioPublication | None = None) -> None:
        self._crossing = crossing
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

    async def settled(self) -> None:
        """`wait_settled`.

        Cancellation: nothing changes.
        """
        await self._wait_settled()

    async def send(self, publisher: TrioPublisher, message: OutgoingMessage) -> None:
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

    Any number of tasks may send through it.
    """

    _crossing: Crossing
    _inner: TrioPublisher
    _session: Session
    _max_in_flight: int
    _max_in_flight_bytes: int
    _lock: threading.Lock
    _open: list[_Publication]
    _bytes: int
    _waiting: int

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publisher cannot be constructed: use async with client.publisher() as publisher")

    @property
    def confirmed(self) -> int:
        """Number of messages that the broker has confirmed."""
        return self._inner.confirmed

    @property
    def in_flight(self) -> int:
        """How many messages await their RECEIPT, those included that wait to be written."""
        return sum(not each.is_settled for each in tuple(self._open))

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
        message = OutgoingMessage(destination, body, headers, content_type, options)
        size, crossing = len(body), self._crossing
        self._raise_failure()
        # Who comes while others wait for room waits behind them.
        while self._waiting or not self._has_room(size):
            await self._wait_room()
            if self._has_room(size):
                break
        if crossing.must_wait(size):
            await crossing.wait(size)
        copied = checked(self._session, message)
        publication = _Publication(crossing, message)
        if copied is None:
            await crossing.in_turn(partial(publication.send, self._inner, message))
        else:
            crossing.lane.add(partial(publication.send, self._inner, copied), size)
        self._note([publication])
        return publication

    async def send_many(self, messages: Iterable[OutgoingMessage]) -> list[Publication]:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Returns:
            The Publication of each message, in order.

        Raises:
            UnconfirmedError: The connection is lost for good; it lists every message that was not confirmed.
            LocalProtocolError: A header is invalid; the messages before this one were sent.

        Cancellation: the first of them may have been sent, each frame as a whole.
        """
        listed = tuple(messages)
        self._raise_failure()
        inner = await self._crossing.in_turn(partial(self._inner.send_many, listed))
        sent = [_Publication(self._crossing, *each) for each in zip(listed, inner, strict=True)]
        self._note(sent)
        return list[Publication](sent)

    def _note(self, sent: list[_Publication]) -> None:
        with self._lock:
            self._open += sent
            self._bytes += sum(each.body_bytes for each in sent)

    def _has_room(self, size: int) -> bool:
        """Whether a message may be sent; a single large one always may."""
        if self._fits(size):
            return True
        with self._lock:
            self._open = [each for each in self._open if not each.is_settled]
            self._bytes = sum(each.body_bytes for each in self._open)
        return self._fits(size)

    def _fits(self, size: int) -> bool:
        fits = len(self._open) < self._max_in_flight and self._bytes + size <= self._max_in_flight_bytes
        return fits or not self._open

    async def _wait_room(self) -> None:
        # Not for room for one: each message to come would have to wait for its own.
        with self._lock:
            self._waiting += 1
            awaited = self._open[len(self._open) // 4 : len(self._open) // 4 + 1]
        try:
            for each in awaited:
                await self._crossing.in_turn(each.settled)
        finally:
            with self._lock:
                self._waiting -= 1

    def _raise_failure(self) -> None:
        """Raise earlier failures, with the names of the messages that were never sent.

        Raises:
            UnconfirmedError: That.
        """
        failure = self._crossing.lane.take_failure()
        if failure is None:
            return
        known = failure.messages if isinstance(failure, UnconfirmedError) else ()
        unsent = [each.unsent(failure) for each in self._open if each.was_never_sent]
        raise UnconfirmedError([*known, *unsent]) from failure

    async def wait_confirmed(self) -> None:
        """Wait until every message sent so far is confirmed. Leaving the block does the same.

        Raises:
            UnconfirmedError: Some were not; it lists each message, once.

        Cancellation: nothing changes; the messages still await their RECEIPT.
        """
        await self._crossing.in_turn(self._inner.wait_confirmed)


class _OpenPublisher(Publisher):
    """The Publisher that the library constructs."""

    def __init__(
        self,
        crossing: Crossing,
        inner: TrioPublisher,
        session: Session,
        max_in_flight: int,
        max_in_flight_bytes: int,
    ) -> None:
        self._crossing = crossing
        self._inner = inner
        self._session = session
        self._max_in_flight = max_in_flight
        self._max_in_flight_bytes = max_in_flight_bytes
        # Held for a few lines only: tasks of several event loops may send.
        self._lock = threading.Lock()
        self._open = []
        self._bytes = 0
        self._waiting = 0

    def raise_failure(self) -> None:
        """Raise earlier failures."""
        self._raise_failure()


@asynccontextmanager
async def open_publisher(
    crossing: Crossing,
    session: Session,
    manager: AbstractAsyncContextManager[TrioPublisher],
    max_in_flight: int,
    max_in_flight_bytes: int,
) -> AsyncGenerator[Publisher]:
    """Keep a publisher for the length of a block."""
    await crossing.catch_up()
    own = crossing.branch()
    publisher: _OpenPublisher | None = None
    async with own.entered(manager) as inner:
        publisher = _OpenPublisher(own, inner, session, max_in_flight, max_in_flight_bytes)
        yield publisher
    publisher.raise_failure()
