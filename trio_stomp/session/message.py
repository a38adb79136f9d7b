"""A message that a consumer has taken, and how it is settled."""

from __future__ import annotations

import enum
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import BinaryIO, Final, Generic, NoReturn, Protocol, Self, overload

from typing_extensions import TypeVar

from trio_stomp.brokers import Profile, send_options
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Command, Frame, Headers, SpooledFrame
from trio_stomp.session.bodies import AS_JSON, AS_TEXT, Codec, Decode, codec_of
from trio_stomp.session.outgoing import EncodeValue, HeaderInput, Parts, completed, header_pairs
from trio_stomp.session.spool import BodyChunks, SpooledBody, opened

__all__ = ["Acks", "Message", "Settlement", "Source", "body_of", "close_body"]

logger: Final = logging.getLogger("trio_stomp")

# The type of `json=`.
J = TypeVar("J")
# Type of `value`; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
D = TypeVar("D")


class _Undecoded(enum.Enum):
    """Marks a value that was not decoded yet."""

    UNDECODED = enum.auto()


_UNDECODED: Final = _Undecoded.UNDECODED


class Settlement(enum.Enum):
    """Whether a message was acknowledged or refused.

    Attributes:
        AUTO: Its subscription is in auto mode, so there is nothing to settle.
        UNSETTLED: Not settled yet.
        IN_TRANSACTION: Settled in a transaction that has not ended yet.
        ACKED: Acknowledged.
        NACKED: Refused.
    """

    AUTO = "auto"
    UNSETTLED = "unsettled"
    IN_TRANSACTION = "in a transaction"
    ACKED = "acknowledged"
    NACKED = "refused"


_UNSETTLED: Final = Settlement.UNSETTLED


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


class Origin(Source[T_co], Protocol[T_co]):
    """The subscription that delivered a message, as far as the message uses it."""

    async def _reply(self, message: Parts[bytes | str], *, receipt: bool, timeout: float | None) -> None:
        """Send a message over the client of the subscription."""


class Watcher(Protocol):
    """The hooks, as a message sees them."""

    def begin(self, message: Message, /) -> None:
        """It is about to be handled."""

    def end(self, message: Message, error: BaseException | None, /) -> None:
        """The block that handles it has ended."""


class Acks(Protocol):
    """What settles a message: `AckTracker`."""

    @property
    def profile(self) -> Profile:
        """The broker that delivered it."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether its subscription or connection is gone."""
        ...

    @property
    def observer(self) -> Watcher | None:
        """The hooks, if there are any."""
        ...

    def ack_at_once(self, message: Message, /) -> bool:
        """Send a plain ACK, if that needs neither waiting nor a closer look."""
        ...

    async def settle(
        self,
        message: Message,
        command: Command,
        /,
        *,
        receipt: bool = False,
        headers: HeaderInput | None = None,
        requeue: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send ACK or NACK."""

    def settle_nowait(self, message: Message, command: Command, /) -> object:
        """Send ACK or NACK without waiting."""


class Message(Generic[T_co]):
    """A message from the broker. It can be settled only on the connection that delivered it.

    ``async with message:`` acknowledges the message when the block completes, and refuses it (NACK) when the block
    raises an Exception. When the block is canceled, the message stays unsettled and the broker redelivers it: a program
    that is told to stop has found nothing wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
        sequence: Its number among the messages taken from its subscription, from 1.
    """

    __slots__ = ("__weakref__", "_acks", "_frame", "_settlement", "_value", "sequence", "subscription")

    _acks: Acks
    _frame: Frame
    _settlement: Settlement
    _value: T_co | _Undecoded
    sequence: int
    subscription: Origin[T_co]

    # The arguments are the library's own. It makes this very class, as users know it from imports and see it in errors.
    def __init__(
        self,
        frame: object = None,
        subscription: Origin[T_co] | None = None,
        acks: Acks | None = None,
        settlement: Settlement = Settlement.AUTO,
        sequence: int = 0,
    ) -> None:
        if not isinstance(frame, Frame) or subscription is None or acks is None:
            raise TypeError("a Message cannot be constructed: take it from a Subscription or from Client.request()")
        self._frame = frame
        self._value = _UNDECODED
        self._acks = acks
        self.sequence = sequence
        self.subscription = subscription
        self._settlement = settlement

    @property
    def settlement(self) -> Settlement:
        """Whether the message was acknowledged or refused."""
        return self._settlement

    @property
    def body(self) -> bytes:
        """The body, byte for byte as it came.

        Raises:
            LocalProtocolError: The body is in a file (``spool_threshold_bytes``): use `chunks` or `open_body`.
        """
        body = self._frame.body
        # First what costs nothing, since most messages have a body.
        if not body and self.is_spooled:
            raise LocalProtocolError(
                f"the body of message {self.id!r} has {self.body_size} bytes and is in a file, because its "
                "subscription has spool_threshold_bytes=; read it with chunks() or open_body()"
            )
        return body

    @property
    def is_spooled(self) -> bool:
        """Whether the body is in a temporary file, because it is longer than ``spool_threshold_bytes``."""
        return isinstance(self._frame, SpooledFrame)

    @property
    def body_size(self) -> int:
        """The length of the body in bytes, wherever it is."""
        body = body_of(self)
        return len(body) if isinstance(body, bytes) else body.size

    def open_body(self) -> BinaryIO:
        """Open the body, wherever it is, as a binary file object: for a thread, because it reads from the disk.

        Each call returns an independent object that begins at the start of the body. It can be read until
        ``async with message`` ends.
        """
        return opened(body_of(self))

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the body, wherever it is: ``async for chunk in message.chunks()``.

        Each call begins at the start of the body.

        Returns:
            An async iterator of bytes, at most 256 KiB at a time.
        """
        return BodyChunks(body_of(self))

    @property
    def headers(self) -> Headers:
        """All headers. Of repeated ones, a lookup returns the first."""
        return self._frame.headers

    @property
    def text(self) -> str:
        """The body as text, in the charset of its content-type, or UTF-8 if that names none.

        Raises:
            DecodeError: The body is not text in that charset, or the charset is not supported; use `body`.
            LocalProtocolError: The body is in a file.

        Spec: Header content-type.
        """
        return AS_TEXT.decode(self.body, self.content_type, self.id)

    @overload
    def json(self) -> object: ...
    @overload
    def json(self, decode: Decode[D]) -> D: ...
    def json(self, decode: Decode[D] | None = None) -> object:
        """Parse the body as JSON: ``message.json()``, or ``message.json(Order)`` with a Pydantic model.

        Args:
            decode: What reads it, as in ``subscribe(decode=)``: a function of bytes, a Pydantic model or TypeAdapter,
                or a msgspec Decoder. Default: Python's own ``json``.

        Raises:
            DecodeError: The body is not JSON, or not what `decode` expects, or its charset is not supported.
            LocalProtocolError: The body is in a file, or `decode` is not a decoder.
        """
        codec = AS_JSON if decode is None else codec_of(decode)
        return codec.decode(self.body, self.content_type, self.id)

    @property
    def value(self) -> T_co:
        """The decoded body. Decoded once, on first use, by the ``decode=`` of the subscription or request.

        Without ``decode=`` the content-type decides: JSON is parsed, text in a known charset is a str, and everything
        else is bytes.

        Raises:
            DecodeError: The decoder raised an exception, which is the cause of this one.
            LocalProtocolError: The body is in a file.
        """
        if self._value is _UNDECODED:
            self._value = self.subscription.codec.decode(self.body, self.content_type, self.id)
        return self._value

    @property
    def destination(self) -> str:
        """Where the message was sent. Brokers may spell it differently than the sender did."""
        return self._frame.headers["destination"]

    @property
    def id(self) -> str:
        """The broker's ``message-id``. On RabbitMQ it changes with each delivery; stomp-broker-js leaves it empty."""
        return self._frame.headers.get("message-id") or ""

    @property
    def content_type(self) -> str | None:
        """The MIME type of the body, if the sender set one."""
        return self._frame.headers.get("content-type")

    @property
    def redelivered(self) -> bool:
        """Whether the broker says that it delivered this message before."""
        return self._frame.headers.get("redelivered") == "true"

    @property
    def delivery_count(self) -> int | None:
        """How often the message was delivered, including this time; None if the broker does not say.

        RabbitMQ counts on quorum queues, and marks a first delivery on all queues. The embedded broker always counts.
        ActiveMQ and Artemis do not say.
        """
        return self._acks.profile.delivery_count_of(self._frame.headers)

    @property
    def stable_id(self) -> str | None:
        """An id that stays the same across redeliveries and resends; None if there is none.

        It is the id that confirmed sends and publishers of this library set (``amqp-message-id`` on RabbitMQ,
        ``_AMQ_DUPL_ID`` on Artemis, ``dedup-id`` elsewhere; `send` to Artemis only with ``reconnect=``). Without one it
        is the ``message-id``, if the broker keeps that: ActiveMQ Classic does.
        """
        return self._acks.profile.stable_id_of(self._frame.headers)

    @property
    def is_stale(self) -> bool:
        """Whether its subscription or connection is gone, so that the broker redelivers it."""
        return self._settlement is not Settlement.AUTO and self._acks.is_gone

    async def reply(
        self,
        body: bytes | str | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        receipt: bool = False,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Answer a request: send a message to its ``reply-to``, with its ``correlation-id`` if it has one.

        The message itself is not settled by that. A requester that has gone is logged, and does not end the service.

        Args:
            body: As in `Client.send`, but in memory.
            json: A value to encode in place of `body`, as in `Client.send`.
            encode: Turns the value of `json` into bytes or str.
            headers: More headers.
            content_type: MIME type of the body.
            receipt: Wait until the broker has confirmed the reply.
            persistent: Keep the reply when the broker restarts.
            ttl: Seconds after which the reply is no longer delivered.
            priority: Higher priorities are delivered first.
            timeout: Seconds to wait at most. Default: that of `connect`.

        Raises:
            LocalProtocolError: The message is no request: it has no ``reply-to``. Or a header is invalid.
            TypeError: Neither `body` nor `json` was given, or both.
            NotSupportedError: The broker does not support an option.
            ConnectionLost: The connection is lost for good.
            BrokerError: The broker refused the reply (`receipt` only).
            OperationTimeout: The `timeout` was reached.

        Cancellation: as `Client.send`.

        Spec: SEND.
        """
        destination = self._frame.headers.get("reply-to")
        if not destination:
            raise LocalProtocolError(f"message {self.id!r} has no reply-to header: it is not a request")
        pairs = header_pairs(headers)
        correlation_id = self._frame.headers.get("correlation-id")
        if correlation_id is not None:
            if any(name == "correlation-id" for name, _ in pairs):
                raise LocalProtocolError("header 'correlation-id' of a reply is set by reply() itself; leave it out")
            pairs.append(("correlation-id", correlation_id))
        options = send_options(persistent, ttl, priority, None, None, None, None)
        message: Parts[bytes | str] = completed(
            destination, body, pairs, content_type, options, json, encode, call="reply()"
        )
        await self.subscription._reply(message, receipt=receipt, timeout=timeout)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # not for users

    async def ack(
        self, *, receipt: bool = False, headers: HeaderInput | None = None, timeout: float | None = None
    ) -> None:
        """Acknowledge the message. In ack mode ``client``, acknowledge all earlier ones of its subscription too.

        Args:
            receipt: Wait until the broker has confirmed the ACK.
            headers: More headers for the ACK.
            timeout: Seconds to wait at most for room and, with `receipt`, for the broker. Default: that of `connect`.

        Raises:
            StaleMessage: Its subscription is gone, or the client has reconnected; the broker redelivers the message.
            LocalProtocolError: It is already settled, or its subscription is in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the message.
            BrokerError: The broker refused the ACK (`receipt` only).
            OperationTimeout: The `timeout` was reached.

        Cancellation: the ACK was sent as a whole or not at all; `settlement` says which. The same is true at the
        `timeout`.

        Spec: ACK.
        """
        if receipt or headers is not None or timeout is not None or not self._acks.ack_at_once(self):
            await self._acks.settle(self, Command.ACK, receipt=receipt, headers=headers, timeout=timeout)

    async def nack(
        self,
        *,
        requeue: bool | None = None,
        receipt: bool = False,
        headers: HeaderInput | None = None,
        timeout: float | None = None,
    ) -> None:
        """Refuse the message. What the broker does with it differs by broker; see ``docs/brokers.md``.

        Args:
            requeue: True: redeliver it. False: dead-letter it; RabbitMQ drops it if its queue has no dead-letter
                exchange. None: whatever the broker does by default.
            receipt: Wait until the broker has confirmed the NACK.
            headers: More headers for the NACK.
            timeout: Seconds to wait at most for room and, with `receipt`, for the broker. Default: that of `connect`.

        Raises:
            NotSupportedError: The broker would silently drop the message, or does not support this value of `requeue`,
                or the version is STOMP 1.0.
            StaleMessage: Its subscription is gone, or the client has reconnected; the broker redelivers the message.
            LocalProtocolError: It is already settled, or its subscription is in auto mode.
            ConnectionLost: The connection is gone; the broker redelivers the message.
            BrokerError: The broker refused the NACK (`receipt` only).
            OperationTimeout: The `timeout` was reached.

        Cancellation: the NACK was sent as a whole or not at all; `settlement` says which. The same is true at the
        `timeout`.

        Spec: NACK.
        """
        await self._acks.settle(self, Command.NACK, receipt=receipt, headers=headers, requeue=requeue, timeout=timeout)

    async def __aenter__(self) -> Self:
        """Start handling the message: ``async with message:``.

        Cancellation: no cancellation point.
        """
        if self._acks.observer is not None:
            self._acks.observer.begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the message, unless the block has done it.

        Raises:
            OperationTimeout: There was no room for the ACK within the ``timeout`` of `connect`; it was not sent.

        Cancellation: a canceled block leaves the message unsettled. A canceled ACK was sent as a whole or not at all.
        """
        if self._acks.observer is not None:
            self._acks.observer.end(self, error)
        if not self._frame.body:
            close_body(self)
        if self._settlement is not _UNSETTLED:
            return
        if error is None:
            try:
                # Not shielded: if the ACK is canceled, the broker redelivers the message.
                if not self._acks.ack_at_once(self):
                    await self._acks.settle(self, Command.ACK)  # noqa: ASYNC102  # see above
            except StaleMessage:
                logger.warning("message %r was handled but is stale: the broker redelivers it", self.id)
        elif isinstance(error, Exception):
            self._refuse_quietly()

    def _refuse_quietly(self) -> None:
        """NACK without waiting, and without hiding the exception of the block."""
        try:
            self._acks.settle_nowait(self, Command.NACK)
        except NotSupportedError as reason:
            logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
        except StompError as reason:
            logger.debug("message %r could not be refused: %s", self.id, reason)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError(
            "a message belongs to its connection and cannot be copied or pickled; "
            "pass on message.body and dict(message.headers)"
        )

    def __repr__(self) -> str:
        return f"<Message {self._frame.headers.get('message-id')!r} {self._settlement.value}: {self._frame}>"


def body_of(message: Message) -> bytes | SpooledBody:
    """Return the body of a message, wherever it is."""
    frame = message._frame  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # users must not touch it
    if isinstance(frame, SpooledFrame) and isinstance(frame.sink, SpooledBody):
        return frame.sink
    return frame.body


def close_body(message: Message) -> None:
    """Close the file of a body that is in one."""
    body = body_of(message)
    if isinstance(body, SpooledBody):
        body.close()
