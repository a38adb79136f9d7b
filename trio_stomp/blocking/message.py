"""A message, for synchronous code."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from typing_extensions import TypeVar

from trio_stomp.bridge import Claims, CrossedMessage, Lane, Posted
from trio_stomp.client import HeaderInput, Settlement
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StompError
from trio_stomp.session import ChunkReader, Source, body_of, close_body, tracker_of

__all__ = ["DeliveredMessage", "Message", "delivered"]

# Type of `value`; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)

logger: Final = logging.getLogger("trio_stomp")


class Message(CrossedMessage[T_co]):
    """A message from the broker. It can be settled only on the connection that delivered it, by any thread.

    ``with message:`` acknowledges the message when the block completes, and refuses it (NACK) when the block raises an
    Exception. When the block is left by KeyboardInterrupt, the message stays unsettled and the broker redelivers it: a
    program that is told to stop has found nothing wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_lane",)

    _lane: Lane

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Message cannot be constructed: take it from a Subscription or from Client.request()")

    def chunks(self) -> Iterator[bytes]:
        """Iterate over the body, wherever it is: ``for chunk in message.chunks()``.

        Each call begins at the start of the body.

        Returns:
            An iterator of bytes, at most 256 KiB at a time.
        """
        reader = ChunkReader(body_of(self._inner))
        while chunk := reader.peek():
            reader.skip(chunk)
            yield chunk

    def ack(self, *, receipt: bool = False, headers: HeaderInput | None = None) -> None:
        """Acknowledge the message. In ack mode ``client``, acknowledge all earlier ones of its subscription too.

        Args:
            receipt: Wait until the broker has confirmed the ACK. Without it, the call returns at once.
            headers: More headers for the ACK.

        Raises:
            StaleMessage: Its subscription is gone, or the client has reconnected; the broker redelivers the message.
            LocalProtocolError: It is already settled, or its subscription is in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the message.
            BrokerError: The broker refused the ACK (`receipt` only).

        Spec: ACK.
        """
        inner = self._inner
        if receipt or headers is not None or not self._can_be_settled:
            self._lane.call(lambda: inner.ack(receipt=receipt, headers=headers))
        else:
            self._claim(self._lane.post(self._ack_in_turn), Settlement.ACKED)

    def nack(self, *, requeue: bool | None = None, receipt: bool = False, headers: HeaderInput | None = None) -> None:
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

        Spec: NACK.
        """
        # Waited for, unlike ACK: whether the broker takes it depends on the broker, and refusals are rare.
        inner = self._inner
        self._lane.call(lambda: inner.nack(requeue=requeue, receipt=receipt, headers=headers))

    def __enter__(self) -> Self:
        """Start handling the message: ``with message:``."""
        observer = tracker_of(self._inner).observer
        if observer is not None:
            # In this thread, so that what hooks set for the handling, such as a span, is set for the handler.
            observer.begin(self._inner)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the message, unless the block has done it."""
        observer = tracker_of(self._inner).observer
        if observer is not None:
            observer.end(self._inner, error)
        close_body(self._inner)
        if self.settlement is not Settlement.OPEN:
            return
        lane = self._lane
        if error is None:
            if self._inner.is_stale:
                lane.call(self._ack_in_turn)
            else:
                self._claim(lane.post(self._ack_in_turn), Settlement.ACKED)
        elif isinstance(error, Exception):
            try:
                lane.call(self._inner.nack, raises_earlier=False)
            except NotSupportedError as reason:
                logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
            except StompError as reason:
                # The exception of the block is the one to be seen.
                logger.debug("message %r could not be refused: %s", self.id, reason)


class DeliveredMessage(Message[T_co]):
    """The Message that the library constructs."""

    __slots__ = ()

    def __init__(self, inner: AsyncMessage[T_co], subscription: Source[T_co], claims: Claims, lane: Lane) -> None:
        CrossedMessage.__init__(self, inner, subscription, claims)
        self._lane = lane

    @property
    def inner(self) -> AsyncMessage[T_co]:
        """The message in the trio thread."""
        return self._inner

    @property
    def can_be_settled(self) -> bool:
        """Whether nothing is known that prevents settling it."""
        return self._can_be_settled

    def claim(self, posted: Posted, settlement: Settlement, *, earlier: bool = False) -> None:
        """Note that something posted will settle it; `earlier`: and all before it."""
        self._claim(posted, settlement, earlier=earlier)


# In tracebacks and debuggers users see the name that they import.
DeliveredMessage.__name__ = DeliveredMessage.__qualname__ = Message.__name__


def delivered(message: Message) -> DeliveredMessage:
    """Return a message that a user has passed, for other parts of this room.

    Raises:
        LocalProtocolError: It is not a message of a synchronous client.
    """
    if not isinstance(message, DeliveredMessage):
        raise LocalProtocolError(f"expected a message of trio_stomp.blocking, got {message!r}")
    return message
