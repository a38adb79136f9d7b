"""A message, for synchronous code."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Generic, Protocol, Self

from typing_extensions import TypeVar

from trio_stomp.bridge import Lane, Posted
from trio_stomp.client import Codec, HeaderInput, Settlement
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Headers
from trio_stomp.session import tracker_of

__all__ = ["Claims", "DeliveredMessage", "Message", "Source", "delivered"]

# What `value` gives; without `decode=` nothing is known of it.
T_co = TypeVar("T_co", covariant=True, default=object)

logger: Final = logging.getLogger("trio_stomp")


class Source(Protocol[T_co]):
    """The subscription that delivered a message, as far as the message exposes it."""

    @property
    def id(self) -> str:
        """Its id on the connection."""
        ...

    @property
    def destination(self) -> str:
        """Its destination."""
        ...

    @property
    def ack_mode(self) -> AckMode:
        """Its ack mode."""
        ...

    @property
    def codec(self) -> Codec[T_co]:
        """How its bodies become values."""
        ...


class Claims:
    """What was posted to settle messages of one subscription, beyond each single message.

    Args:
        lane: Where it is posted.
        ack_mode: The ack mode of the subscription.
    """

    def __init__(self, lane: Lane, ack_mode: AckMode) -> None:
        self.lane = lane
        self._settles_earlier = ack_mode is AckMode.CLIENT
        self._up_to = 0
        self._posted: Posted | None = None
        self._settlement = Settlement.OPEN

    def note(self, posted: Posted, up_to: int, settlement: Settlement, *, earlier: bool = False) -> None:
        """Note that a message will be settled, and in mode ``client``, or with `earlier`, all before it too."""
        if self._settles_earlier or earlier:
            self._up_to, self._posted, self._settlement = up_to, posted, settlement

    def of(self, sequence: int) -> Settlement | None:
        """Return what will become of a message, until it has."""
        if self._posted is not None and sequence <= self._up_to and not self._posted.done:
            return self._settlement
        return None


class Message(Generic[T_co]):
    """A message from the broker. It can be settled only on the connection that delivered it, by any thread.

    ``with message:`` acknowledges the message when the block completes, and refuses it (NACK) when the block raises an
    Exception. When the block is left by KeyboardInterrupt, the message stays unsettled and the broker redelivers it: a
    program that is told to stop has found nothing wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_claims", "_inner", "_posted", "_promised", "subscription")

    _claims: Claims
    _inner: AsyncMessage[T_co]
    _posted: Posted | None
    _promised: Settlement
    subscription: Source[T_co]

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Message cannot be constructed: take it from a Subscription or from Client.request()")

    @property
    def sequence(self) -> int:
        """Its number among the messages taken from its subscription, from 1."""
        return self._inner.sequence

    @property
    def settlement(self) -> Settlement:
        """What has become of the message, or will become of it when its turn comes."""
        if self._posted is not None and not self._posted.done:
            return self._promised
        return self._claims.of(self._inner.sequence) or self._inner.settlement

    @property
    def body(self) -> bytes:
        """The body, byte for byte as it came."""
        return self._inner.body

    @property
    def headers(self) -> Headers:
        """All headers. Of repeated ones, a lookup returns the first."""
        return self._inner.headers

    @property
    def text(self) -> str:
        """The body as text, in the charset of its content-type, or UTF-8 if that names none.

        Raises:
            DecodeError: The body is not text in that charset, or the charset is not supported; use `body`.

        Spec: Header content-type.
        """
        return self._inner.text

    def json(self) -> object:
        """Parse the body as JSON.

        Raises:
            DecodeError: The body is not JSON, or its charset is not supported.
        """
        return self._inner.json()

    @property
    def value(self) -> T_co:
        """The decoded body. Decoded once, on first use, by the ``decode=`` of the subscription or request.

        Without ``decode=`` the content-type decides: JSON is parsed, text in a known charset is a str, and everything
        else is bytes.

        Raises:
            DecodeError: The decoder raised an exception, which is the cause of this one.
        """
        return self._inner.value

    @property
    def destination(self) -> str:
        """Where the message was sent. Brokers may spell it differently than the sender did."""
        return self._inner.destination

    @property
    def id(self) -> str:
        """The broker's ``message-id``. On RabbitMQ it changes with each delivery; stomp-broker-js leaves it empty."""
        return self._inner.id

    @property
    def content_type(self) -> str | None:
        """The MIME type of the body, if the sender set one."""
        return self._inner.content_type

    @property
    def redelivered(self) -> bool:
        """Whether the broker says that it delivered this message before."""
        return self._inner.redelivered

    @property
    def delivery_count(self) -> int | None:
        """How often the message was delivered, including this time; None if the broker does not say.

        RabbitMQ counts on quorum queues, and marks a first delivery on all queues. The embedded broker always counts.
        ActiveMQ and Artemis do not say.
        """
        return self._inner.delivery_count

    @property
    def stable_id(self) -> str | None:
        """An id that stays the same across redeliveries and resends; None if there is none.

        It is the id that a publisher of this library sets (``amqp-message-id`` on RabbitMQ, ``_AMQ_DUPL_ID`` on
        Artemis, ``dedup-id`` elsewhere). Without one it is the ``message-id``, if the broker keeps that: ActiveMQ
        Classic does.
        """
        return self._inner.stable_id

    @property
    def is_stale(self) -> bool:
        """Whether its subscription or connection is gone, so that the broker redelivers it."""
        return self._inner.is_stale

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
            self._claims.lane.call(lambda: inner.ack(receipt=receipt, headers=headers))
        else:
            self._claim(self._claims.lane.post(self._ack_in_turn), Settlement.ACKED)

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
        self._claims.lane.call(lambda: inner.nack(requeue=requeue, receipt=receipt, headers=headers))

    @property
    def _can_be_settled(self) -> bool:
        return self.settlement is Settlement.OPEN and not self._inner.is_stale

    def _claim(self, posted: Posted, settlement: Settlement, *, earlier: bool = False) -> None:
        self._posted, self._promised = posted, settlement
        self._claims.note(posted, self._inner.sequence, settlement, earlier=earlier)

    async def _ack_in_turn(self) -> None:
        try:
            await self._inner.ack()
        except StaleMessage as error:
            # As if the connection had been lost a moment later, with the ACK in the outbox.
            logger.warning("message %r was acknowledged but is stale: %s", self._inner.id, error)

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
        if self.settlement is not Settlement.OPEN:
            return
        lane = self._claims.lane
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

    def __repr__(self) -> str:
        return repr(self._inner)


class DeliveredMessage(Message[T_co]):
    """The Message that the library constructs."""

    __slots__ = ()

    def __init__(self, inner: AsyncMessage[T_co], subscription: Source[T_co], claims: Claims) -> None:
        self._inner = inner
        self.subscription = subscription
        self._claims = claims
        self._posted = None
        self._promised = Settlement.OPEN

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


def delivered(message: Message) -> DeliveredMessage:
    """Return a message that a user has passed, for other parts of this room.

    Raises:
        LocalProtocolError: It is not a message of a synchronous client.
    """
    if not isinstance(message, DeliveredMessage):
        raise LocalProtocolError(f"expected a message of trio_stomp.blocking, got {message!r}")
    return message
