"""Receipts: the book of everything that awaits a RECEIPT.

Theory of operation. A session has one book. A frame that asks for a RECEIPT is entered before it is written, under an
id that is unique in the session, so no answer can come too early. Each entry is answered exactly once and removed: by
its RECEIPT, by an ERROR with its id, by the end of the connection, or because its sender gives up.

There are two kinds. A SUBSCRIBE, UNSUBSCRIBE, ACK, COMMIT or DISCONNECT is lost with its connection. A confirmed
message (`Publication`) is not, as long as another connection follows: there, all such messages are sent again, in
order and before anything new, each with its stable id. A broker that detects duplicates by that id drops the second
copy; with other brokers, the receiver can. A message that was confirmed is never sent again.

Messages are bounded twice, each time by a `Budget`: all of a session here, and those of one publisher by its `Window`.
"""

# Users see the public attributes of an entry; the book uses the others.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

import anyio
import anyio.lowlevel

from trio_stomp.brokers import REPLY_PREFIXES
from trio_stomp.errors import BrokerError, DeliveryStatus, StompError, UnconfirmedMessage
from trio_stomp.printable import one_line
from trio_stomp.protocol import ClientProtocol
from trio_stomp.runtime import Waiter, new_wait_queue, new_waiter
from trio_stomp.session.budget import Budget
from trio_stomp.session.failures import renewed
from trio_stomp.session.hooks import SendCallback
from trio_stomp.session.limits import Limit, limit_of

__all__ = ["Awaiting", "Encode", "Publication", "Receipt", "Receipts", "Window", "unconfirmed"]

logger: Final = logging.getLogger("trio_stomp")

V = TypeVar("V")

# Encodes the SEND of a message for one connection.
Encode = Callable[[ClientProtocol], bytes]

# Members of an enumeration take five times as long to look up as names of a module, and each message asks for these.
_CONFIRMED: Final = DeliveryStatus.CONFIRMED
_UNKNOWN: Final = DeliveryStatus.UNKNOWN

# Requesters that have gone. A request that was redelivered for one comes soon after its loss.
_REMEMBERED: Final = 10_000


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
                waiter = self._waiter()
                try:
                    await waiter.wait()
                except BaseException:
                    self._forget(waiter)
                    raise
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
                self._forget(waiter)

    def _waiter(self) -> Waiter:
        """Note a task to be woken when the message is settled: like an Event, without the cost of one for each."""
        waiter = new_waiter()
        if self._sleeping is None:
            self._sleeping = [waiter]
        else:
            self._sleeping.append(waiter)
        return waiter

    def _forget(self, waiter: Waiter) -> None:
        """Forget a task that waits no longer: a program may wait a little, again and again."""
        if self._sleeping is not None:
            self._sleeping.remove(waiter)

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


def _remember(known: dict[str, V], key: str, value: V) -> None:
    known[key] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]


class Awaiting(Protocol):
    """An entry that is lost with its connection."""

    def confirmed(self) -> None:
        """The RECEIPT came."""

    def refused(self, error: StompError) -> None:
        """The broker answered with an ERROR for this frame."""

    def lost(self, error: StompError) -> None:
        """The connection ended first."""


class Receipt:
    """One RECEIPT that a task awaits.

    Attributes:
        id: The receipt id of its frame.
        was_refused: Whether the broker answered with an ERROR for this frame.
        when_refused: Called with that ERROR, before the connection ends because of it.
    """

    __slots__ = ("_answered", "_error", "_receipts", "id", "was_refused", "when_refused")

    def __init__(self, receipt_id: str, receipts: Receipts) -> None:
        self.id = receipt_id
        self.was_refused = False
        self.when_refused: Callable[[StompError], None] | None = None
        self._receipts = receipts
        self._answered = anyio.Event()
        self._error: StompError | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the broker has answered, or the connection has ended."""
        return self._answered.is_set()

    def confirmed(self) -> None:
        """The RECEIPT came."""
        self._answered.set()

    def refused(self, error: StompError) -> None:
        """The broker answered with an ERROR for this frame."""
        self.was_refused = True
        if self.when_refused is not None:
            self.when_refused(error)
        self.lost(error)

    def lost(self, error: StompError) -> None:
        """The connection ended first."""
        self._error = error
        self._answered.set()

    async def wait(self) -> None:
        """Wait for the answer.

        Raises:
            BrokerError: The broker answered with an ERROR for this frame.
            StompError: The connection ended first.

        Cancellation: the frame was sent; its RECEIPT, if it comes, is ignored.
        """
        error = await self.wait_answer()
        if error is not None:
            raise renewed(error)

    async def wait_answer(self) -> StompError | None:
        """`wait`, and return what it raises, which then does not count as seen by the program.

        Cancellation: as `wait`.
        """
        try:
            await self._answered.wait()
        finally:
            self._receipts.forget(self.id)
        return self._error


class _Reply:
    """A reply to a request: nothing waits for its RECEIPT, but its refusal must end nothing else."""

    def __init__(self, destination: str, receipts: Receipts) -> None:
        self._destination = destination
        self._receipts = receipts

    def confirmed(self) -> None:
        """The RECEIPT came."""
        self._receipts.requester_lives(self._destination)

    def refused(self, error: StompError) -> None:
        """The broker answered with an ERROR for this frame."""
        self._receipts.requester_gone(self._destination, error)

    def lost(self, error: StompError) -> None:
        """The connection ended first."""
        if isinstance(error, BrokerError) and error.receipt_id is None:
            self._receipts.suspect_requester(self._destination, error)


class Receipts:
    """The book of one session. Its length is the number of RECEIPTs that the current connection may bring.

    Args:
        max_messages: How many messages may await their RECEIPT.
        max_bytes: How many bytes their bodies may have together. A larger message is sent alone.

    Attributes:
        messages: The messages, by receipt id, in the order of sending.
        unconfirmed: How many there may be.
        prefix: Precedes a receipt id to make a stable id.
        confirmed: Number of messages confirmed so far.
        resent: Number of messages sent again so far.
        gone: Temporary destinations of requesters that have gone, with the refusal; bounded.
        has_woken_sender: Whether the newest RECEIPT was for a task that sends confirmed messages one by one.
    """

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self.unconfirmed = Budget(max_messages, max_bytes)
        self._numbers = itertools.count(1)
        # Unique among all clients, because brokers remember ids to detect duplicates; short, because each SEND has it.
        self.prefix: Final = f"{os.urandom(8).hex()}-"
        self.messages: dict[str, Publication] = {}
        self._others: dict[str, Awaiting] = {}
        # Where tasks wait until there are fewer entries.
        self._fewer = new_wait_queue()
        self._held = 0
        # The newest message that awaited its RECEIPT when another one had come on the current connection.
        self._newest_left = ""
        # Makes the reader of the current connection, if any, continue even if consumers are too slow.
        self._wake_reader: Callable[[], None] | None = None
        self.has_woken_sender = False
        self.confirmed = 0
        self.resent = 0
        self.gone: dict[str, StompError] = {}
        self._suspected: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._others) + (0 if self._wake_reader is None else len(self.messages))

    def new_id(self) -> str:
        """Return a new receipt id, unique in the session."""
        # Only letters, digits and hyphens, which every broker sends back unchanged.
        return f"r-{next(self._numbers)}"

    # --- one connection after the other -----------------------------------------------------------------------------

    def connected(self, wake_reader: Callable[[], None]) -> None:
        """A connection was made; `wake_reader` is called when one more RECEIPT is awaited on it."""
        self._wake_reader = wake_reader
        self._newest_left = ""

    def lose_all(self, error: StompError, *, keep_messages: bool) -> None:
        """The connection has ended; RECEIPTs that still arrive are ignored.

        Args:
            error: Why it ended.
            keep_messages: Whether another connection follows, on which the messages are sent again.
        """
        self._wake_reader = None
        others, self._others = self._others, {}
        self._fewer.unpark_all()
        for awaiting in others.values():
            awaiting.lost(error)
        if not keep_messages:
            for message in list(self.messages.values()):
                self.lose(message, error)

    def confirm(self, receipt_ids: Sequence[str]) -> int:
        """RECEIPTs came; return how many of them nothing awaits (answered twice, or given up)."""
        if self._wake_reader is None:
            return len(receipt_ids)
        take, unexpected = self.messages.pop, 0
        # Nearly always, all are of one publisher, so count them together.
        window: Window | None = None
        count, size = 0, 0
        for receipt_id in receipt_ids:
            message = take(receipt_id, None)
            if message is None:
                unexpected += not self._confirm_other(receipt_id)
                continue
            if message._window is not window:
                self._confirmed(window, count, size)
                window, count, size = message._window, 0, 0
            count += 1
            size += message.body_bytes
            message.delivery = _CONFIRMED
            message._content = None
            if message._sleeping is not None or message._ended is not None:
                self.has_woken_sender = message._sleeping is not None and not self.messages
                message._tell()
        if count:
            self._confirmed(window, count, size)
            self._newest_left = next(reversed(self.messages), "")
            if self._fewer:
                self._fewer.unpark_all()
        return unexpected

    def _confirmed(self, window: Window | None, count: int, size: int) -> None:
        self.confirmed += count
        self.unconfirmed.release(count, size)
        if window is not None:
            window.confirmed += count
            window.release(count, size)

    def _confirm_other(self, receipt_id: str) -> bool:
        awaiting = self._take(receipt_id)
        if awaiting is None:
            return False
        awaiting.confirmed()
        return True

    def refuse(self, receipt_id: str, error: StompError) -> bool:
        """An ERROR with a receipt id came; return whether anything awaits it."""
        message = None if self._wake_reader is None else self.messages.get(receipt_id)
        if message is not None:
            if message.destination.startswith(REPLY_PREFIXES):
                self.requester_gone(message.destination, error)
            self.reject(message, error)
            return True
        awaiting = self._take(receipt_id)
        if awaiting is not None:
            awaiting.refused(error)
        return awaiting is not None

    async def wait_none(self) -> None:
        """Wait until no RECEIPT is awaited, or the connection has ended.

        Cancellation: nothing changes.
        """
        connection = self._wake_reader
        while connection is not None and self._wake_reader is connection and (len(self) or self._held):
            await self._fewer.park()

    # --- messages ---------------------------------------------------------------------------------------------------

    def enter(self, message: Publication) -> None:
        """Enter a message that is about to be written."""
        self.messages[message._receipt_id] = message
        window, size, unconfirmed = message._window, message.body_bytes, self.unconfirmed
        unconfirmed.messages += 1
        unconfirmed.bytes += size
        if window is not None:
            window.messages += 1
            window.bytes += size

    def messages_of(self, window: Window) -> list[Publication]:
        """The messages of one publisher, in order."""
        return [each for each in self.messages.values() if each._window is window] if window.messages else []

    def only_one(self) -> Publication | None:
        """Return the message that awaits its RECEIPT, if it is only one and no other was confirmed meanwhile."""
        if len(self.messages) != 1:
            return None
        ((receipt_id, message),) = self.messages.items()
        return None if receipt_id == self._newest_left else message

    def send_again(self, message: Publication, protocol: ClientProtocol) -> bytes:
        """Return the SEND of an unconfirmed message, encoded for the current connection.

        Raises:
            LocalProtocolError: The STOMP version of the connection cannot represent it.
        """
        content = message._content
        if content is None:
            raise AssertionError(message)  # it was settled
        frame = content if isinstance(content, bytes) else content(protocol)
        self.resent += 1
        return frame

    def when_settled(self, message: Publication, function: SendCallback) -> None:
        """Call a function with the outcome of a message, after the hooks: for a sender that is not a task."""
        reported = message._ended

        def ended(delivery: DeliveryStatus | None, error: StompError | None) -> None:
            if reported is not None:
                reported(delivery, error)
            function(delivery, error)

        message._ended = function if reported is None else ended

    def receipt_of(self, message: Publication) -> str:
        """Return the value of the ``receipt`` header of a message."""
        return message._receipt_id

    def give_up(self, message: Publication) -> None:
        """The sender stopped waiting: do not send the message again, and ignore its RECEIPT."""
        if message._content is not None:
            self.lose(message, None)

    def reject(self, message: Publication, error: StompError) -> None:
        """The broker refused a message."""
        if message._content is not None:
            message.delivery = DeliveryStatus.REJECTED
            self.lose(message, error)

    def lose(self, message: Publication, error: StompError | None) -> None:
        """Remove a message whose RECEIPT no connection can bring any more, or nothing waits for."""
        if self.messages.pop(message._receipt_id, None) is None:
            return
        self.unconfirmed.release(1, message.body_bytes)
        self._fewer.unpark_all()
        message.error = error
        window = message._window
        if window is not None:
            window.failed[message] = None
            window.release(1, message.body_bytes)
        message._content = None
        message._tell()

    # --- replies to requesters --------------------------------------------------------------------------------------

    def expect_reply(self, receipt_id: str, destination: str) -> None:
        """Enter a reply that is about to be written."""
        self.expect_for(receipt_id, _Reply(destination, self))

    def requester_lives(self, destination: str) -> None:
        """The broker has taken a reply."""
        if self._suspected:
            self._suspected.pop(destination, None)

    def requester_gone(self, destination: str, error: StompError) -> None:
        """The broker refused a reply. Sent again to the same destination, it would be refused again."""
        logger.warning("a reply to %s was refused, because its requester has gone: %s", one_line(destination), error)
        _remember(self.gone, destination, error)

    def suspect_requester(self, destination: str, error: StompError) -> None:
        """An ERROR without a receipt-id ended the connection before a reply was confirmed; twice means that."""
        if destination in self._suspected:
            self.requester_gone(destination, error)
        else:
            _remember(self._suspected, destination, None)

    # --- everything else --------------------------------------------------------------------------------------------

    def expect(self, receipt_id: str | None = None) -> Receipt:
        """Enter a frame whose RECEIPT a task will wait for, by default under a new id."""
        receipt = Receipt(self.new_id() if receipt_id is None else receipt_id, self)
        self.expect_for(receipt.id, receipt)
        return receipt

    def expect_for(self, receipt_id: str, awaiting: Awaiting) -> None:
        """Enter a frame that is about to be written."""
        self._others[receipt_id] = awaiting
        if self._wake_reader is not None:
            self._wake_reader()

    @contextmanager
    def expected(self) -> Generator[Receipt]:
        """`expect` a receipt, and forget it at the end of the block, whether or not its frame was sent."""
        receipt = self.expect()
        try:
            yield receipt
        finally:
            self.forget(receipt.id)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep `wait_none` waiting during a block that sends frames in response to a RECEIPT."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._fewer.unpark_all()

    def forget(self, receipt_id: str) -> None:
        """Drop an entry: nothing waits for it any more."""
        self._take(receipt_id)

    def _take(self, receipt_id: str) -> Awaiting | None:
        awaiting = self._others.pop(receipt_id, None)
        if not self._others:
            self._fewer.unpark_all()
        return awaiting
