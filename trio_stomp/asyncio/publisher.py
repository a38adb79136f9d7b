"""Confirmed sending in a window, for asyncio code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from trio_stomp.asyncio.crossing import Crossing
from trio_stomp.bridge import CrossedPublication, PublisherWindow
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage
from trio_stomp.client import Publication as TrioPublication
from trio_stomp.client import Publisher as TrioPublisher
from trio_stomp.session import Session, checked

__all__ = ["Publication", "Publisher", "open_publisher"]


class Publication(CrossedPublication):
    """A message whose RECEIPT is awaited. `Publisher.send` returns it.

    Attributes:
        destination: Where it is sent.
        body_bytes: The length of its body.
    """

    __slots__ = ("_crossing",)

    _crossing: Crossing

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Publication cannot be constructed: Publisher.send() returns it")

    @property
    def id(self) -> str:
        """Its stable id: the same each time that it is sent. Empty until the trio thread has sent it."""
        return "" if self._inner is None else self._inner.id

    async def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The connection is lost for good; the message may or may not have arrived.

        Cancellation: nothing changes; you may wait again.
        """
        await self._crossing.in_turn(self._wait, raises_earlier=False)

    async def wait_settled(self) -> None:
        """Wait until the outcome is final; then see `delivery`.

        Cancellation: nothing changes.
        """
        if not self.is_settled:
            await self._crossing.in_turn(self._wait_settled, raises_earlier=False)


class _Publication(Publication):
    """The Publication that the library constructs."""

    __slots__ = ()

    def __init__(self, crossing: Crossing, message: OutgoingMessage, inner: TrioPublication | None = None) -> None:
        CrossedPublication.__init__(self, message, inner)
        self._crossing = crossing


class Publisher:
    """Sends messages and keeps count of what the broker has confirmed; see `Client.publisher`.

    Any number of tasks may send through it.
    """

    _crossing: Crossing
    _inner: TrioPublisher
    _session: Session
    _window: PublisherWindow[_Publication]
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
        message = OutgoingMessage(destination, body, headers, content_type, options)
        size, crossing, window = len(body), self._crossing, self._window
        window.raise_failure()
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
            await crossing.in_turn(partial(window.send, publication, message))
        else:
            crossing.lane.add(partial(window.send, publication, copied), size)
        with window.lock:
            window.add(publication)
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
        self._window.raise_failure()
        inner = await self._crossing.in_turn(partial(self._inner.send_many, listed))
        sent = [_Publication(self._crossing, *each) for each in zip(listed, inner, strict=True)]
        with self._window.lock:
            self._window.add_many(sent)
        return list[Publication](sent)

    def _has_room(self, size: int) -> bool:
        # Held for a few lines only, here and below: tasks of several event loops may send.
        with self._window.lock:
            return self._window.has_room(size)

    async def _wait_room(self) -> None:
        with self._window.lock:
            self._waiting += 1
        try:
            await self._crossing.in_turn(self._window.wait_room)
        finally:
            with self._window.lock:
                self._waiting -= 1

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
        window: PublisherWindow[_Publication],
    ) -> None:
        self._crossing = crossing
        self._inner = inner
        self._session = session
        self._window = window
        self._waiting = 0


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
    async with own.entered(manager) as inner:
        window = PublisherWindow[_Publication](own.lane, inner, max_in_flight, max_in_flight_bytes)
        yield _OpenPublisher(own, inner, session, window)
    window.raise_failure()
