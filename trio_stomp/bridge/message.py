"""A message that has crossed from the trio thread."""

from __future__ import annotations

import logging
from typing import BinaryIO, Final, Generic

from typing_extensions import TypeVar

from trio_stomp.bridge.lane import Posted
from trio_stomp.client import Message, Settlement
from trio_stomp.errors import StaleMessage
from trio_stomp.protocol import AckMode, Headers
from trio_stomp.session import Source

__all__ = ["Claims", "CrossedMessage"]

# Type of `value`; object without `decode=`.
T_co = TypeVar("T_co", covariant=True, default=object)

logger: Final = logging.getLogger("trio_stomp")


class Claims:
    """What was added to a lane to settle messages of one subscription, beyond each single message.

    Args:
        ack_mode: The ack mode of the subscription.
    """

    def __init__(self, ack_mode: AckMode) -> None:
        self._settles_earlier = ack_mode is AckMode.CLIENT
        self._up_to = 0
        self._posted: Posted | None = None
        self._settlement = Settlement.OPEN

    def note(self, posted: Posted, up_to: int, settlement: Settlement, *, earlier: bool = False) -> None:
        """Note that a message will be settled, and in mode ``client``, or with `earlier`, all before it too."""
        if self._settles_earlier or earlier:
            self._up_to, self._posted, self._settlement = up_to, posted, settlement

    def of(self, sequence: int) -> Settlement | None:
        """Return the settlement that a message will have, until it has it."""
        if self._posted is not None and sequence <= self._up_to and not self._posted.done:
            return self._settlement
        return None


class CrossedMessage(Generic[T_co]):
    """What a message shows, and whether it may still be settled. `blocking` derives its own, with the verbs.

    Attributes:
        subscription: The Subscription that delivered it.
    """

    __slots__ = ("_claims", "_inner", "_posted", "_promised", "subscription")

    _claims: Claims
    _inner: Message[T_co]
    _posted: Posted | None
    _promised: Settlement
    subscription: Source[T_co]

    def __init__(self, inner: Message[T_co], subscription: Source[T_co], claims: Claims) -> None:
        self._inner = inner
        self.subscription = subscription
        self._claims = claims
        self._posted = None
        self._promised = Settlement.OPEN

    @property
    def sequence(self) -> int:
        """Its number among the messages taken from its subscription, from 1."""
        return self._inner.sequence

    @property
    def settlement(self) -> Settlement:
        """Whether and how the message is settled, or will be when its turn comes."""
        if self._posted is not None and not self._posted.done:
            return self._promised
        return self._claims.of(self._inner.sequence) or self._inner.settlement

    @property
    def body(self) -> bytes:
        """The body, byte for byte as it came.

        Raises:
            LocalProtocolError: The body is in a file (``spool_bodies_over``): use `chunks` or `open_body`.
        """
        return self._inner.body

    @property
    def is_spooled(self) -> bool:
        """Whether the body is in a temporary file, because it is longer than ``spool_bodies_over``."""
        return self._inner.is_spooled

    @property
    def body_size(self) -> int:
        """The length of the body in bytes, wherever it is."""
        return self._inner.body_size

    def open_body(self) -> BinaryIO:
        """Open the body, wherever it is, as a binary file object: for a thread, because it reads from the disk.

        Each call returns an independent object that begins at the start of the body. It can be read until
        ``async with message`` ends.
        """
        return self._inner.open_body()

    @property
    def headers(self) -> Headers:
        """All headers. Of repeated ones, a lookup returns the first."""
        return self._inner.headers

    @property
    def text(self) -> str:
        """The body as text, in the charset of its content-type, or UTF-8 if that names none.

        Raises:
            DecodeError: The body is not text in that charset, or the charset is not supported; use `body`.
            LocalProtocolError: The body is in a file.

        Spec: Header content-type.
        """
        return self._inner.text

    def json(self) -> object:
        """Parse the body as JSON.

        Raises:
            DecodeError: The body is not JSON, or its charset is not supported.
            LocalProtocolError: The body is in a file.
        """
        return self._inner.json()

    @property
    def value(self) -> T_co:
        """The decoded body. Decoded once, on first use, by the ``decode=`` of the subscription or request.

        Without ``decode=`` the content-type decides: JSON is parsed, text in a known charset is a str, and everything
        else is bytes.

        Raises:
            DecodeError: The decoder raised an exception, which is the cause of this one.
            LocalProtocolError: The body is in a file.
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

    def __repr__(self) -> str:
        return repr(self._inner)
