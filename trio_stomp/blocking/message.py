"""A message, for synchronous code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import BinaryIO, Final, Generic, NoReturn, Protocol, Self, overload

from typing_extensions import TypeVar

from trio_stomp.blocking.calls import Calls
from trio_stomp.blocking.queue import Posted
from trio_stomp.blocking.verbs import Shown, blocks, documented
from trio_stomp.client import Decode, HeaderInput, Settlement
from trio_stomp.client import Message as AsyncMessage
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Headers
from trio_stomp.session import CHUNK_BYTES, Source, close_body, tracker_of

__all__ = ["Claims", "Message", "taken"]

# Type of `value`; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)
D = TypeVar("D")

logger: Final = logging.getLogger("trio_stomp")

_UNSETTLED: Final = Settlement.UNSETTLED


class _Json(Protocol):
    """The type of `Message.json`."""

    @overload
    def __call__(self) -> object: ...
    @overload
    def __call__(self, decode: Decode[D]) -> D: ...


class Claims:
    """What was posted to settle messages of one subscription, beyond each single message.

    Args:
        ack_mode: The ack mode of the subscription.
    """

    __slots__ = ("_newest", "_settles_earlier")

    def __init__(self, ack_mode: AckMode) -> None:
        self._settles_earlier = ack_mode is AckMode.CLIENT
        self._newest: tuple[Posted, int] | None = None

    def note(self, posted: Posted, up_to: int, *, earlier: bool = False) -> None:
        """Note that a message will be settled, and in mode ``client``, or with `earlier`, all before it too."""
        if self._settles_earlier or earlier:
            self._newest = (posted, up_to)

    def of(self, sequence: int) -> Settlement | None:
        """Return the settlement that a message will have, until it has it."""
        if self._newest is not None:
            posted, up_to = self._newest
            if sequence <= up_to and not posted.done:
                return posted.settles
        return None


class Message(Generic[T_co]):
    """A message from the broker. It can be settled only on the connection that delivered it, by any thread.

    ``with message:`` acknowledges the message when the block completes, and refuses it (NACK) when the block raises an
    Exception. When the block is left by KeyboardInterrupt, the message stays unsettled and the broker redelivers it: a
    program that is told to stop has found nothing wrong with its message.

    Attributes:
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_calls", "_claims", "_inner", "_posted", "subscription")

    _calls: Calls
    _claims: Claims
    _inner: AsyncMessage[T_co]
    _posted: Posted | None
    subscription: Source[T_co]

    # The arguments are the library's own. It makes this very class, as users know it from imports and see it in errors.
    def __init__(
        self,
        inner: AsyncMessage[T_co] | None = None,
        subscription: Source[T_co] | None = None,
        claims: Claims | None = None,
        calls: Calls | None = None,
    ) -> None:
        if inner is None or subscription is None or claims is None or calls is None:
            raise TypeError("a Message cannot be constructed: take it from a Subscription or from Client.request()")
        self._inner = inner
        self.subscription = subscription
        self._claims = claims
        self._calls = calls
        self._posted = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        self._inner.__reduce__()

    def __repr__(self) -> str:
        return repr(self._inner)

    sequence = Shown[int](AsyncMessage, "sequence")
    body = Shown[bytes](AsyncMessage, "body")
    is_spooled = Shown[bool](AsyncMessage, "is_spooled")
    body_size = Shown[int](AsyncMessage, "body_size")
    open_body = Shown[Callable[[], BinaryIO]](AsyncMessage, "open_body")
    headers = Shown[Headers](AsyncMessage, "headers")
    text = Shown[str](AsyncMessage, "text")
    json = Shown[_Json](AsyncMessage, "json")
    destination = Shown[str](AsyncMessage, "destination")
    id = Shown[str](AsyncMessage, "id")
    content_type = Shown[str | None](AsyncMessage, "content_type")
    redelivered = Shown[bool](AsyncMessage, "redelivered")
    delivery_count = Shown[int | None](AsyncMessage, "delivery_count")
    stable_id = Shown[str | None](AsyncMessage, "stable_id")
    is_stale = Shown[bool](AsyncMessage, "is_stale")

    @property
    @documented(AsyncMessage.value)
    def value(self) -> T_co:
        """The decoded body. Decoded once, on first use, by the ``decode=`` of the subscription or request."""
        return self._inner.value

    @property
    def settlement(self) -> Settlement:
        """Whether and how the message is settled, or will be when its turn in the queue comes."""
        posted = self._posted
        if posted is not None and posted.settles is not None and not posted.done:
            return posted.settles
        return self._claims.of(self._inner.sequence) or self._inner.settlement

    def chunks(self) -> Iterator[bytes]:
        """Iterate over the body, wherever it is: ``for chunk in message.chunks()``.

        Each call begins at the start of the body.

        Returns:
            An iterator of bytes, at most 256 KiB at a time.
        """
        with self.open_body() as body:
            while chunk := body.read(CHUNK_BYTES):
                yield chunk

    @documented(AsyncMessage.ack)
    def ack(self, *, receipt: bool = False, headers: HeaderInput | None = None, timeout: float | None = None) -> None:
        """Acknowledge the message. In ack mode ``client``, acknowledge all earlier ones of its subscription too."""
        if receipt or headers is not None or not self._can_be_settled:
            ack = partial(self._inner.ack, receipt=receipt, headers=headers)
            self._calls.call(lambda left: ack(timeout=left), timeout, name="ack")
        else:
            self._post_ack(timeout)

    # Waited for, unlike ACK: whether the broker takes it depends on the broker, and refusals are rare.
    nack = blocks(AsyncMessage.nack)
    reply = blocks(AsyncMessage.reply)

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
        if self.settlement is not _UNSETTLED:
            return
        if error is None:
            if self._inner.is_stale:
                self._calls.call(lambda _: self._ack_in_turn())
            else:
                self._post_ack()
        elif isinstance(error, Exception):
            try:
                self._calls.call(lambda left: self._inner.nack(timeout=left), name="nack", raises_earlier=False)
            except NotSupportedError as reason:
                logger.warning("message %r stays unsettled until its subscription ends: %s", self.id, reason)
            except StompError as reason:
                # The exception of the block is the one to be seen.
                logger.debug("message %r could not be refused: %s", self.id, reason)

    @property
    def _can_be_settled(self) -> bool:
        return self.settlement is _UNSETTLED and not self._inner.is_stale

    def _post_ack(self, timeout: float | None = None) -> None:
        self._claim(self._calls.post(self._ack_in_turn, timeout=timeout), Settlement.ACKED)

    def _claim(self, posted: Posted, settlement: Settlement, *, earlier: bool = False) -> None:
        """Note that something posted will settle it; `earlier`: and all before it."""
        posted.settles = settlement
        self._posted = posted
        self._claims.note(posted, self._inner.sequence, earlier=earlier)

    async def _ack_in_turn(self) -> None:
        if self._inner.settlement is not _UNSETTLED:
            # A Ctrl-C has interrupted ack() after it had posted this, and it was called again.
            return
        try:
            await self._inner.ack()
        except StaleMessage as error:
            # As if the connection had been lost a moment later, with the ACK in the outbox.
            logger.warning("message %r was acknowledged but is stale: %s", self._inner.id, error)


def taken(message: Message) -> Message:
    """Check a message that a user has passed.

    Raises:
        LocalProtocolError: It is not a message of a synchronous client.
    """
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise LocalProtocolError(f"expected a message of trio_stomp.blocking, got {message!r}")
    return message
