"""Confirmed messages: each with its outcome, and the window that a publisher's share.

A confirmed message is not lost with its connection, as long as another one follows: see `receipts`, the book that they
are entered in.
"""

# Users see the public attributes of a message; its window and the book use the others.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import anyio.lowlevel

from trio_stomp.errors import DeliveryStatus, StompError, UnconfirmedMessage
from trio_stomp.protocol import ClientProtocol
from trio_stomp.runtime import Waiter, new_waiter
from trio_stomp.session.budget import Budget
from trio_stomp.session.failures import renewed
from trio_stomp.session.hooks import SendCallback
from trio_stomp.session.limits import Limit, limit_of

if TYPE_CHECKING:
    from trio_stomp.session.body_source import BodySource

__all__ = ["Encode", "EncodeHead", "Publication", "Window", "unconfirmed"]

# Encodes the SEND of a message for one connection.
Encode = Callable[[ClientProtocol], bytes]


class EncodeHead:
    """Encodes the SEND of a message whose body comes from a source, up to the body.

    Args:
        destination: The destination.
        headers: The headers.
        transaction: The transaction, if any.
        source: The source.
    """

    def __init__(
        self, destination: str, headers: Sequence[tuple[str, str]], transaction: str | None, source: BodySource
    ) -> None:
        self.source = source
        self._destination = destination
        self._headers = headers
        self._transaction = transaction

    def __call__(self, protocol: ClientProtocol) -> bytes:
        """Encode it for one connection."""
        return protocol.send_head(
            self._destination, self.source.size, headers=self._headers, transaction=self._transaction
        )


# Members of an enumeration take five times as long to look up as names of a module, and each message asks for this.
_UNKNOWN: Final = DeliveryStatus.UNKNOWN


class Publication:
    """A message that was sent with a receipt, and its outcome. `Publisher.send` returns it.

    Attributes:
        id: Its stable id, which is the same each time that it is sent.
        destination: Its destination.
        body_bytes: The length of its body.
        delivery: The outcome; UNKNOWN until the broker answers.
        error: Why it was not confirmed, or None.
    """

    __slots__ = (
        "_content",
        "_ended",
        "_receipt_id",
        "_sleeping",
        "_window",
        "body_bytes",
        "delivery",
        "destination",
        "error",
        "id",
    )

    def __init__(
        self,
        stable_id: str,
        destination: str,
        size: int,
        receipt_id: str,
        content: bytes | Encode,
        window: Window | None = None,
        ended: SendCallback | None = None,
    ) -> None:
        self.id = stable_id
        self.destination = destination
        self.body_bytes = size
        self.delivery = _UNKNOWN
        self.error: StompError | None = None
        self._receipt_id = receipt_id
        self._window = window
        # Its SEND, or a function that encodes it if it differs between connections; None once it is settled.
        self._content: bytes | Encode | None = content
        # Reports the outcome to the hooks.
        self._ended = ended
        self._sleeping: list[Waiter] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is final."""
        return self._content is None

    async def wait(self, *, timeout: float | None = None) -> None:
        """Wait until the broker has confirmed it.

        Args:
            timeout: Seconds to wait at most. Default: that of `connect`.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The connection is lost for good; the message may or may not have arrived.
            OperationTimeout: The broker has not confirmed it in time.

        Cancellation: nothing changes; you may wait again. The same is true at the `timeout`.
        """
        # What `send` awaits has no window.
        seconds = None if timeout is None and self._window is None else self._limit(timeout)
        # Does not call `wait_settled`: another coroutine in between costs time with each answer.
        if self._content is not None:
            if seconds is None:
                await self._waiter().wait()
            else:
                await self._wait_within(seconds, "wait()")
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()
        if self.error is not None:
            if self._window is not None:
                self._window.failure_seen(self)
            raise renewed(self.error)

    async def wait_settled(self, *, timeout: float | None = None) -> None:
        """Wait until the outcome is final; then see `delivery`.

        Args:
            timeout: Seconds to wait at most. Default: that of `connect`.

        Raises:
            OperationTimeout: The broker has not answered in time.

        Cancellation: nothing changes; you may wait again. The same is true at the `timeout`.
        """
        seconds = self._limit(timeout)
        if self._content is not None:
            await self._wait_within(seconds, "wait_settled()")
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()

    def _limit(self, timeout: float | None) -> float | None:
        window = self._window
        return limit_of(timeout, None if window is None else window.timeout)

    async def _wait_within(self, seconds: float | None, call: str) -> None:
        async with Limit(seconds, f"{call} for message {self.id!r} to {self.destination!r}") as limit:
            limit.outcome = "the broker has not confirmed it yet, and you may wait again"
            limit.sent, limit.unconfirmed = 1, (unconfirmed(self),)
            waiter = self._waiter()
            try:
                await waiter.wait()
            finally:
                # A program may wait a little, again and again.
                if self._sleeping is not None:
                    self._sleeping.remove(waiter)

    def _waiter(self) -> Waiter:
        """Note a task to be woken when the message is settled: like an Event, without the cost of one for each."""
        waiter = new_waiter()
        if self._sleeping is None:
            self._sleeping = [waiter]
        else:
            # Those of tasks that were canceled stay, and are woken in vain.
            self._sleeping.append(waiter)
        return waiter

    def _tell(self) -> None:
        """Wake the tasks that wait, and call the hooks. Called once, because a message is settled once."""
        sleeping, self._sleeping = self._sleeping, None
        for waiter in sleeping or ():
            waiter.wake()
        if self._ended is not None:
            self._ended(self.delivery, self.error)

    def __repr__(self) -> str:
        return f"<Publication {self.id} to {self.destination!r}: {self.delivery.value}>"


def unconfirmed(message: Publication) -> UnconfirmedMessage:
    """Describe a message that was sent and not confirmed."""
    reason = "its RECEIPT had not come" if message.error is None else str(message.error)
    return UnconfirmedMessage(id=message.id, destination=message.destination, delivery=message.delivery, reason=reason)


class Window(Budget):
    """Counts the messages of one publisher that await their RECEIPT.

    Args:
        max_messages: Maximum number of messages.
        max_bytes: Maximum size of their bodies together. A larger message is sent alone.
        timeout: How many seconds to wait for one of them, by default; None for no limit.

    Attributes:
        timeout: The argument.
        confirmed: Number of messages that the broker has confirmed.
        failed: Messages that failed and were not reported yet, in order.
    """

    def __init__(self, max_messages: int, max_bytes: int, timeout: float | None = None) -> None:
        super().__init__(max_messages, max_bytes)
        self.timeout = timeout
        self.confirmed = 0
        self.failed: dict[Publication, None] = {}

    def failure_seen(self, message: Publication) -> None:
        """The failure of a message was reported to a task."""
        self.failed.pop(message, None)

    def take_failed(self) -> list[Publication]:
        """Return the messages whose failure to report now. It is not reported again."""
        failed, self.failed = list(self.failed), {}
        return failed
