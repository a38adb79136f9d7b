"""A message, for asyncio code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from typing_extensions import TypeVar

from trio_stomp.asyncio.crossing import Crossing
from trio_stomp.bridge import Claims, CrossedMessage, Posted
from trio_stomp.client import HeaderInput, Settlement
from trio_stomp.client import Message as TrioMessage
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StompError
from trio_stomp.session import ChunkReader, Source, body_of, close_body, tracker_of

__all__ = ["DeliveredMessage", "Message", "delivered"]

# Type of `value`; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)

logger: Final = logging.getLogger("trio_stomp")


class Message(CrossedMessage[T_co]):
    """A message from the broker. It can be settled only on the connection that delivered it.

    ``async with message:`` acknowledges the message when the block completes, and refuses it (NACK) when the block
    raises an Exception. When the block is canceled, the message stays unsettled and the broker redelivers it: a
    program that is told to stop has found nothing wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_crossing",)

    _crossing: Crossing

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Message cannot be constructed: take it from a Subscription or from Client.request()")

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the body, wherever it is: ``async for chunk in message.chunks()``.

        Each call begins at the start of the body.

        Returns:
            An async iterator of bytes, at most 256 KiB at a time.
        """
        return _Chunks(ChunkReader(body_of(self._inner)))

    async def ack(self, *, receipt: bool = False, headers: HeaderInput | None = None) -> None:
        """Acknowledge the message. In ack mode ``client``, acknowledge all earlier ones of its subscription too.

        Args:
            receipt: Wait until the broker has confirmed the ACK.
            headers: More headers for the ACK.

        Raises:
            StaleMessage: Its subscription is gone, or the client has reconnected; the broker redelivers the message.
            LocalProtocolError: It is already settled, or its subscription is in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the message.
            BrokerError: The broker refused the ACK (`receipt` only).

        Cancellation: the ACK was sent as a whole or not at all; `settlement` says which.

        Spec: ACK.
        """
        inner, crossing = self._inner, self._crossing
        if crossing.must_wait():
            await crossing.wait()
        if receipt or headers is not None or not self._can_be_settled:
            await crossing.in_turn(lambda: inner.ack(receipt=receipt, headers=headers))
        else:
            self._claim(crossing.lane.add(self._ack_in_turn), Settlement.ACKED)

    async def nack(
        self, *, requeue: bool | None = None, receipt: bool = False, headers: HeaderInput | None = None
    ) -> None:
        """Refuse the message. What the broker does with it differs by broker; see ``docs/brokers.md``.

        Args:
            requeue: True: redeliver it. False: dead-letter it; RabbitMQ drops it if its queue has no dead-letter
                exchange. None: whatever the broker does by default.
            receipt: Wait until the broker has confirmed the NACK.
            headers: More headers for the NACK.

        Raises:
            NotSupportedError: The broker would silently drop the message, or does not support this value of `requeue`,
                or the version is STOMP 1.0.
            StaleMessage: Its subscription is gone, or the client has reconnected; the broker redelivers the message.
            LocalProtocolError: It is already settled, or its subscription is in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the message.
            BrokerError: The broker refused the NACK (`receipt` only).

        Cancellation: the NACK was sent as a whole or not at all; `settlement` says which.

        Spec: NACK.
        """
        # Waited for, unlike ACK: whether the broker takes it depends on the broker, and refusals are rare.
        inner = self._inner
        await self._crossing.in_turn(lambda: inner.nack(requeue=requeue, receipt=receipt, headers=headers))

    async def __aenter__(self) -> Self:
        """Start handling the message: ``async with message:``.

        Cancellation: no cancellation point.
        """
        observer = tracker_of(self._inner).observer
        if observer is not None:
            # In this task, so that what hooks set for the handling, such as a span, is set for the handler.
            observer.begin(self._inner)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the message, unless the block has done it.

        Cancellation: a canceled block leaves the message unsettled. A canceled ACK was sent as a whole or not at all.
        """
        observer = tracker_of(self._inner).observer
        if observer is not None:
            observer.end(self._inner, error)
        close_body(self._inner)
        if self.settlement is not Settlement.OPEN:
            return
        crossing = self._crossing
        if error is None:
            if crossing.must_wait():
                await crossing.wait()  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            if self._inner.is_stale:
                await crossing.in_turn(self._ack_in_turn)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            else:
                self._claim(crossing.lane.add(self._ack_in_turn), Settlement.ACKED)
        elif isinstance(error, Exception):
            try:
                await crossing.in_turn(self._inner.nack, raises_earlier=False)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            except NotSupportedError as reason:
                logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
            except StompError as reason:
                # The exception of the block is the one to be seen.
                logger.debug("message %r could not be refused: %s", self.id, reason)


class _Chunks(AsyncIterator[bytes]):
    def __init__(self, reader: ChunkReader) -> None:
        self._reader = reader

    async def __anext__(self) -> bytes:
        """Read the next chunk.

        Cancellation: no chunk was taken.
        """
        if self._reader.needs_thread:
            chunk = await asyncio.to_thread(self._reader.peek)
        else:
            await asyncio.sleep(0)
            chunk = self._reader.peek()
        if not chunk:
            raise StopAsyncIteration
        self._reader.skip(chunk)
        return chunk


class DeliveredMessage(Message[T_co]):
    """The Message that the library constructs."""

    __slots__ = ()

    def __init__(
        self, inner: TrioMessage[T_co], subscription: Source[T_co], claims: Claims, crossing: Crossing
    ) -> None:
        CrossedMessage.__init__(self, inner, subscription, claims)
        self._crossing = crossing

    @property
    def inner(self) -> TrioMessage[T_co]:
        """The message in the trio thread."""
        return self._inner

    @property
    def can_be_settled(self) -> bool:
        """Whether nothing is known that prevents settling it."""
        return self._can_be_settled

    def claim(self, posted: Posted, settlement: Settlement, *, earlier: bool = False) -> None:
        """Note that something added to the lane will settle it; `earlier`: and all before it."""
        self._claim(posted, settlement, earlier=earlier)


# In tracebacks and debuggers users see the name that they import.
DeliveredMessage.__name__ = DeliveredMessage.__qualname__ = Message.__name__


def delivered(message: Message) -> DeliveredMessage:
    """Return a message that a user has passed, for other parts of this room.

    Raises:
        LocalProtocolError: It is not a message of an asyncio client.
    """
    if not isinstance(message, DeliveredMessage):
        raise LocalProtocolError(f"expected a message of trio_stomp.asyncio, got {message!r}")
    return message
