"""One message that a consumer has taken."""

from __future__ import annotations

import enum
import logging
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Generic, Protocol, Self

from typing_extensions import TypeVar

from trio_stomp.brokers import Profile
from trio_stomp.errors import NotSupported, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Command, Frame, Headers
from trio_stomp.session.bodies import AS_JSON, AS_TEXT, Codec
from trio_stomp.session.header_input import HeaderInput

__all__ = ["Message", "Settlement", "Settling", "Source", "Watching"]

logger: Final = logging.getLogger("trio_stomp")

# What `value` gives; without `decode=` nothing is known of it.
T_co = TypeVar("T_co", covariant=True, default=object)


class _Undecoded(enum.Enum):
    """In place of a value that nobody has asked for."""

    UNDECODED = enum.auto()


_UNDECODED: Final = _Undecoded.UNDECODED


class Settlement(enum.Enum):
    """What has become of a message.

    Attributes:
        NEEDLESS: Its subscription is in auto mode, so there is nothing to settle.
        OPEN: Nothing yet.
        IN_TRANSACTION: It is decided when the transaction ends.
        ACKED: It was acknowledged.
        NACKED: It was refused.
    """

    NEEDLESS = "needless"
    OPEN = "open"
    IN_TRANSACTION = "in a transaction"
    ACKED = "acknowledged"
    NACKED = "refused"


_OPEN: Final = Settlement.OPEN


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


class Watching(Protocol):
    """Who is told when a message begins and ends to be handled."""

    def begin(self, message: Message) -> None:
        """It is about to be handled."""

    def end(self, message: Message, error: BaseException | None) -> None:
        """It was handled, or that has failed."""

    def handling(self, message: Message) -> AbstractContextManager[None]:
        """It is handled within the block."""
        ...


class Settling(Protocol):
    """What settles a message: the book of its subscription. `settling` knows messages, and not the reverse."""

    @property
    def observer(self) -> Watching | None:
        """Who is told when it is handled."""
        ...

    @property
    def profile(self) -> Profile:
        """The broker that delivered the message."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether the subscription, or the connection that it stood on, is gone."""
        ...

    def ack_at_once(self, message: Message) -> bool:
        """Send a plain ACK if that can be done without waiting; returns whether it was."""
        ...

    async def settle(
        self,
        message: Message,
        command: Command,
        *,
        receipt: bool,
        headers: HeaderInput | None,
        requeue: bool | None = None,
    ) -> None:
        """Send ACK or NACK when it is this caller's turn."""
        ...

    def settle_nowait(
        self,
        message: Message,
        command: Command,
        *,
        headers: list[tuple[str, str]] | None = None,
        transaction: str | None = None,
        requeue: bool | None = None,
    ) -> list[Message]:
        """Send ACK or NACK at once; returns what it settles."""
        ...

    def belongs_to(self, connection: object) -> bool:
        """Whether its messages came over that connection."""
        ...

    def promise(self, message: Message, command: Command) -> None:
        """Note that a message will be settled once a transaction has been confirmed."""
        ...

    def keep_promise(self, message: Message, command: Command) -> None:
        """Settle a promised message."""
        ...

    async def ack_up_to(self, message: Message) -> None:
        """ACK a message and all earlier open ones."""
        ...

    def reopen(self, message: Message) -> None:
        """The transaction that had settled a message has come to nothing."""
        ...


class Message(Generic[T_co]):
    """A message, and the right to settle it. It belongs to the connection that delivered it.

    ``async with message:`` acknowledges it when the block ends well and refuses it (NACK) when the block raises an
    Exception. When the block is cancelled the message is left unsettled, and the broker delivers it again: a program
    that is told to stop has not found anything wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
        settler: What settles it; for `ack`, `nack` and transactions.
        settlement: What has become of it.
        sequence: Its number among the messages taken from its subscription, from 1.
    """

    __slots__ = ("_frame", "_value", "sequence", "settlement", "settler", "subscription")

    def __init__(
        self, frame: Frame, subscription: Source[T_co], settler: Settling, settlement: Settlement, sequence: int
    ) -> None:
        self._frame = frame
        self._value: T_co | _Undecoded = _UNDECODED
        self.settler = settler
        self.sequence = sequence
        self.subscription = subscription
        self.settlement = settlement

    @property
    def body(self) -> bytes:
        """The body, octet for octet as it came."""
        return self._frame.body

    @property
    def headers(self) -> Headers:
        """All headers; a look-up gives the first of repeated ones."""
        return self._frame.headers

    @property
    def text(self) -> str:
        """The body as text, in the charset of its content-type, and in UTF-8 where that names none.

        Raises:
            DecodeFailed: The body is not text in that charset, or the charset is not supported; use `body`.

        Spec: Header content-type.
        """
        return AS_TEXT.decode(self._frame.body, self.content_type, self.id)

    def json(self) -> object:
        """The body as the JSON value that it holds.

        Raises:
            DecodeFailed: The body is not JSON, or its charset is not supported.
        """
        return AS_JSON.decode(self._frame.body, self.content_type, self.id)

    @property
    def value(self) -> T_co:
        """What the body stands for, by the ``decode=`` of its subscription or request; decoded once, on first use.

        Without ``decode=`` the content-type decides: JSON becomes what it holds, text in a known charset str, and
        everything else is bytes.

        Raises:
            DecodeFailed: The decoder has raised; that is its cause.
        """
        if self._value is _UNDECODED:
            self._value = self.subscription.codec.decode(self._frame.body, self.content_type, self.id)
        return self._value

    @property
    def destination(self) -> str:
        """Where it was sent; brokers may write it otherwise than the sender did."""
        return self._frame.headers["destination"]

    @property
    def id(self) -> str:
        """The broker's ``message-id``. On RabbitMQ it changes with each delivery; stomp-broker-js leaves it empty."""
        return self._frame.headers.get("message-id") or ""

    @property
    def content_type(self) -> str | None:
        """The MIME type of the body, where the sender gave one."""
        return self._frame.headers.get("content-type")

    @property
    def redelivered(self) -> bool:
        """Whether the broker says that it has delivered this message before."""
        return self._frame.headers.get("redelivered") == "true"

    @property
    def delivery_count(self) -> int | None:
        """How many times it was delivered, this time included; None where the broker does not tell.

        RabbitMQ counts on quorum queues, and tells the first delivery from later ones on all; the embedded broker
        always counts; ActiveMQ and Artemis do not tell.
        """
        return self.settler.profile.delivery_count_of(self._frame.headers)

    @property
    def stable_id(self) -> str | None:
        """What names it through all its deliveries, and when its sender had to send it again; None where nothing does.

        The id that a publisher of this library gives (``amqp-message-id`` on RabbitMQ, ``_AMQ_DUPL_ID`` on Artemis,
        ``dedup-id`` elsewhere); without one, the ``message-id`` where the broker keeps it: ActiveMQ Classic does.
        """
        return self.settler.profile.stable_id_of(self._frame.headers)

    @property
    def is_stale(self) -> bool:
        """Whether its subscription or connection is gone, so that it cannot be settled and is delivered again."""
        return self.settlement is not Settlement.NEEDLESS and self.settler.is_gone

    async def ack(self, *, receipt: bool = False, headers: HeaderInput | None = None) -> None:
        """Acknowledge: the broker may forget it. In ack mode ``client`` all earlier ones of the subscription too.

        Args:
            receipt: Wait until the broker has confirmed the ACK.
            headers: More headers for the ACK.

        Raises:
            StaleMessage: Its subscription is gone, or its connection while the client goes on with another; the broker
                delivers it again.
            LocalProtocolError: It is settled already, or its subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers it again.
            BrokerError: The broker refused the ACK (`receipt` only).

        Cancellation: the ACK was sent whole or not at all; `settlement` tells which.

        Spec: ACK.
        """
        if receipt or headers is not None or not self.settler.ack_at_once(self):
            await self.settler.settle(self, Command.ACK, receipt=receipt, headers=headers)

    async def nack(
        self, *, requeue: bool | None = None, receipt: bool = False, headers: HeaderInput | None = None
    ) -> None:
        """Refuse: what then becomes of it is the broker's choice; see ``docs/brokers.md``.

        Args:
            requeue: True: it is to be delivered again. False: it is not, but goes to the dead letters; on RabbitMQ the
                queue must have them, else it is dropped. None: what the broker does by itself.
            receipt: Wait until the broker has confirmed the NACK.
            headers: More headers for the NACK.

        Raises:
            NotSupported: The broker would lose the message without a word, or has no such choice, or STOMP 1.0 is in
                force.
            StaleMessage: Its subscription is gone, or its connection while the client goes on with another; the broker
                delivers it again.
            LocalProtocolError: It is settled already, or its subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers it again.
            BrokerError: The broker refused the NACK (`receipt` only).

        Cancellation: the NACK was sent whole or not at all; `settlement` tells which.

        Spec: NACK.
        """
        await self.settler.settle(self, Command.NACK, receipt=receipt, headers=headers, requeue=requeue)

    async def __aenter__(self) -> Self:
        """Begin to handle it: ``async with message:``.

        Cancellation: no cancellation point.
        """
        if self.settler.observer is not None:
            self.settler.observer.begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the message, where the block has not done it itself.

        Cancellation: a block that was cancelled leaves the message unsettled. A cancelled ACK was sent or not, whole.
        """
        if self.settler.observer is not None:
            self.settler.observer.end(self, error)
        if self.settlement is not _OPEN:
            return
        if error is None:
            try:
                # Not shielded: a message whose ACK was cancelled is delivered again, and that is what was asked for.
                if not self.settler.ack_at_once(self):
                    await self.settler.settle(self, Command.ACK, receipt=False, headers=None)  # noqa: ASYNC102  # see above
            except StaleMessage:
                logger.warning("message %r was handled but is stale: the broker delivers it again", self.id)
        elif isinstance(error, Exception):
            self._refuse_quietly()

    def _refuse_quietly(self) -> None:
        """NACK without waiting, and without hiding the exception that is on its way."""
        try:
            self.settler.settle_nowait(self, Command.NACK)
        except NotSupported as reason:
            logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
        except StompError as reason:
            logger.debug("message %r could not be refused: %s", self.id, reason)

    def __repr__(self) -> str:
        return f"<Message {self._frame.headers.get('message-id')!r} {self.settlement.value}: {self._frame}>"
