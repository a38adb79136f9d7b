"""One message, for synchronous code."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Generic, Protocol, Self

from typing_extensions import TypeVar

from trio_stomp.blocking.lane import Lane
from trio_stomp.client import Codec, HeaderInput, Settlement
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.errors import NotSupportedError, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Headers
from trio_stomp.session import tracker_of

__all__ = ["Claims", "Message", "Source"]

# What `value` gives; without `decode=` nothing is known of it.
T_co = TypeVar("T_co", covariant=True, default=object)

logger: Final = logging.getLogger("trio_stomp")


class Source(Protocol[T_co]):
    """The subscription that delivered a message, as the message shows it."""

    @property
    def id(self) -> str:
        """Its id on the connection."""
        ...

    @property
    def destination(self) -> str:
        """What it subscribes to."""
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
    """What was asked to be settled of one subscription, and is not yet, beyond the single message.

    Args:
        lane: Where it is asked.
        ack_mode: The ack mode of the subscription.
    """

    def __init__(self, lane: Lane, ack_mode: AckMode) -> None:
        self.lane = lane
        self._settles_earlier = ack_mode is AckMode.CLIENT
        self._up_to = 0
        self._number = 0
        self._settlement = Settlement.OPEN

    def note(self, number: int, up_to: int, settlement: Settlement, *, earlier: bool = False) -> None:
        """A message is to be settled by an action, and in mode ``client``, or with `earlier`, all before it too."""
        if self._settles_earlier or earlier:
            self._up_to, self._number, self._settlement = up_to, number, settlement

    def of(self, sequence: int) -> Settlement | None:
        """What is to become of a message, while it has not become of it."""
        if sequence <= self._up_to and not self.lane.is_done(self._number):
            return self._settlement
        return None


class Message(Generic[T_co]):
    """A message, and the right to settle it. It belongs to the connection that delivered it.

    ``with message:`` acknowledges it when the block ends well and refuses it (NACK) when the block raises an
    Exception. When the block is left by KeyboardInterrupt the message is left unsettled, and the broker delivers it
    again: a program that is told to stop has not found anything wrong with its message.

    Any thread may settle it.

    Attributes:
        inner: The message in the thread of trio that this one stands for.
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_claims", "_number", "_settlement", "inner", "subscription")

    def __init__(self, inner: AsyncMessage[T_co], subscription: Source[T_co], claims: Claims) -> None:
        self.inner = inner
        self.subscription = subscription
        self._claims = claims
        self._number = 0
        self._settlement = Settlement.OPEN

    @property
    def sequence(self) -> int:
        """Its number among the messages taken from its subscription, from 1."""
        return self.inner.sequence

    @property
    def settlement(self) -> Settlement:
        """What has become of it, or will become as soon as it is its turn."""
        if self._number and not self._claims.lane.is_done(self._number):
            return self._settlement
        return self._claims.of(self.inner.sequence) or self.inner.settlement

    @property
    def body(self) -> bytes:
        """The body, byte for byte as it came."""
        return self.inner.body

    @property
    def headers(self) -> Headers:
        """All headers; a look-up gives the first of repeated ones."""
        return self.inner.headers

    @property
    def text(self) -> str:
        """The body as text, in the charset of its content-type, and in UTF-8 where that names none.

        Raises:
            DecodeError: The body is not text in that charset, or the charset is not supported; use `body`.

        Spec: Header content-type.
        """
        return self.inner.text

    def json(self) -> object:
        """The body as the JSON value that it holds.

        Raises:
            DecodeError: The body is not JSON, or its charset is not supported.
        """
        return self.inner.json()

    @property
    def value(self) -> T_co:
        """What the body stands for, by the ``decode=`` of its subscription or request; decoded once, on first use.

        Without ``decode=`` the content-type decides: JSON becomes what it holds, text in a known charset str, and
        everything else is bytes.

        Raises:
            DecodeError: The decoder has raised; that is its cause.
        """
        return self.inner.value

    @property
    def destination(self) -> str:
        """Where it was sent; brokers may write it otherwise than the sender did."""
        return self.inner.destination

    @property
    def id(self) -> str:
        """The broker's ``message-id``. On RabbitMQ it changes with each delivery."""
        return self.inner.id

    @property
    def content_type(self) -> str | None:
        """The MIME type of the body, where the sender gave one."""
        return self.inner.content_type

    @property
    def redelivered(self) -> bool:
        """Whether the broker says that it has delivered this message before."""
        return self.inner.redelivered

    @property
    def delivery_count(self) -> int | None:
        """How many times it was delivered, this time included; None where the broker does not tell."""
        return self.inner.delivery_count

    @property
    def stable_id(self) -> str | None:
        """What names it through all its deliveries, also those of a resent message; None where nothing does."""
        return self.inner.stable_id

    @property
    def is_stale(self) -> bool:
        """Whether its subscription or connection is gone, so that it cannot be settled and is delivered again."""
        return self.inner.is_stale

    def ack(self, *, receipt: bool = False, headers: HeaderInput | None = None) -> None:
        """Acknowledge: the broker may forget it. In ack mode ``client`` all earlier ones of the subscription too.

        Args:
            receipt: Wait until the broker has confirmed the ACK. Without it, the call returns at once.
            headers: More headers for the ACK.

        Raises:
            StaleMessage: Its subscription is gone; the broker delivers it again.
            LocalProtocolError: It is settled already, or its subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers it again.
            BrokerError: The broker refused the ACK (`receipt` only).

        Spec: ACK.
        """
        inner = self.inner
        if receipt or headers is not None or not self.can_be_settled:
            self._claims.lane.call(lambda: inner.ack(receipt=receipt, headers=headers))
        else:
            self.claim(self._claims.lane.post(self._ack_in_turn), Settlement.ACKED)

    def nack(self, *, requeue: bool | None = None, receipt: bool = False, headers: HeaderInput | None = None) -> None:
        """Refuse: what then becomes of it is the broker's choice; see ``docs/brokers.md``.

        Args:
            requeue: True: it is to be delivered again. False: it is not, but goes to the dead letters; on RabbitMQ the
                queue must have them, else it is dropped. None: what the broker does by itself.
            receipt: Wait until the broker has confirmed the NACK.
            headers: More headers for the NACK.

        Raises:
            NotSupportedError: The broker would lose the message without a word, or has no such choice, or STOMP 1.0 is
                in force.
            StaleMessage: Its subscription is gone; the broker delivers it again.
            LocalProtocolError: It is settled already, or its subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers it again.
            BrokerError: The broker refused the NACK (`receipt` only).

        Spec: NACK.
        """
        # Waited for, unlike ACK: whether the broker takes it depends on the broker, and refusals are rare.
        inner = self.inner
        self._claims.lane.call(lambda: inner.nack(requeue=requeue, receipt=receipt, headers=headers))

    @property
    def can_be_settled(self) -> bool:
        """Whether nothing is known that stands against settling it."""
        return self.settlement is Settlement.OPEN and not self.inner.is_stale

    def claim(self, number: int, settlement: Settlement, *, earlier: bool = False) -> None:
        """It is to be settled by an action of the pump; `earlier`: and all before it too."""
        self._number, self._settlement = number, settlement
        self._claims.note(number, self.inner.sequence, settlement, earlier=earlier)

    async def _ack_in_turn(self) -> None:
        try:
            await self.inner.ack()
        except StaleMessage as error:
            # As if the connection had been lost a moment later, with the ACK in the outbox.
            logger.warning("message %r was acknowledged but is stale: %s", self.inner.id, error)

    def __enter__(self) -> Self:
        """Begin to handle it: ``with message:``."""
        observer = tracker_of(self.inner).observer
        if observer is not None:
            # Here and not in the thread of trio: what hooks set for the handling, such as a span, is set for this one.
            observer.begin(self.inner)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the message, where the block has not done it itself."""
        observer = tracker_of(self.inner).observer
        if observer is not None:
            observer.end(self.inner, error)
        if self.settlement is not Settlement.OPEN:
            return
        lane = self._claims.lane
        if error is None:
            if self.inner.is_stale:
                lane.call(self._ack_in_turn)
            else:
                self.claim(lane.post(self._ack_in_turn), Settlement.ACKED)
        elif isinstance(error, Exception):
            try:
                lane.call(self.inner.nack, raises_earlier=False)
            except NotSupportedError as reason:
                logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
            except StompError as reason:
                # The exception of the block is the one to be seen.
                logger.debug("message %r could not be refused: %s", self.id, reason)

    def __repr__(self) -> str:
        return repr(self.inner)
