"""The buffer of one subscription, between the reader and its consumers; and the gate that holds the reader.

A broker that keeps the credit we gave it (prefetch) never fills a buffer. With any other, and with one that breaks its
promise, a full buffer holds the reader, and TCP holds the broker. But a held reader holds back RECEIPTs too: a consumer
that awaits one inside its own loop would wait for ever. So the reader goes on while anything on the connection awaits
the broker, up to a hard limit in octets; past it, the subscription that holds most fails.

Octets here are octets of memory: the `footprint` of each frame, which the decoder has worked out.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

import trio

from trio_stomp.errors import LocalProtocolError, StompError, SubscriptionOverflow
from trio_stomp.protocol import Frame, Headers
from trio_stomp.session.failures import renewed

__all__ = ["Gate", "Inbox", "Overflow", "OverflowName"]

OverflowName = Literal["wait", "error", "drop-oldest"]


class Overflow(enum.StrEnum):
    """What a subscription does when its buffer is full: when more messages wait than its prefetch.

    Attributes:
        WAIT: Hold the reader.
        ERROR: Fail the subscription.
        DROP_OLDEST: Forget the oldest message, and count it.
    """

    WAIT = "wait"
    ERROR = "error"
    DROP_OLDEST = "drop-oldest"

    @classmethod
    def of(cls, name: str) -> Overflow:
        """The choice of that name.

        Raises:
            LocalProtocolError: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            msg = f"overflow must be one of {', '.join(cls)}; got {name!r}"
            raise LocalProtocolError(msg) from None


_WAIT: Final = Overflow.WAIT


class Gate:
    """Whether the reader may go on, as far as the buffers of its connection are concerned.

    Args:
        soft_octets: Octets in all buffers together, above which the reader is held whatever the counts say.

    Attributes:
        soft_octets: That bound.
        octets: What all buffers together hold.
        full: The buffers that are over their own limits.
        holds: Whether the reader stands still at this gate.
    """

    def __init__(self, soft_octets: int) -> None:
        self.soft_octets = soft_octets
        self.octets = 0
        self.full: set[Inbox] = set()
        self.holds = False
        self._reader = trio.lowlevel.ParkingLot()
        self._reader_waits = False

    @property
    def is_closed(self) -> bool:
        """Whether a buffer is over its soft limit."""
        return bool(self.full) or self.octets > self.soft_octets

    def notify(self) -> None:
        """Something changed that may let the reader go on."""
        if self._reader_waits:
            self._reader_waits = False
            self._reader.unpark_all()

    async def wait_change(self) -> None:
        """Hold the reader until something changes."""
        self.holds = self._reader_waits = True
        try:
            await self._reader.park()
        finally:
            self.holds = False


def _open_gate() -> Gate:
    """A gate for an inbox without a connection: no reader stands at it, and it never closes."""
    return Gate(sys.maxsize)


class Inbox:
    """The messages of one subscription that no consumer has taken yet.

    Args:
        name: The subscription, for messages: its id and destination.
        capacity: How many messages it holds: the prefetch.
        overflow: What to do when more come.
        on_overflow: Called when it fails because its consumers are too slow.
        keeps_after_loss: What came stays to be taken when the connection ends: in auto mode nobody else will get it.
        is_last: Whether a MESSAGE is none, but says that no more come.

    Attributes:
        dropped: How many messages were forgotten by ``drop-oldest``.
        delivered: How many messages consumers have taken.
        messages: Those that wait for a consumer.
        waiting: How many consumers wait for a message.
        is_over: Whether it takes no more messages, ever.
    """

    # Thousands of them may share a connection.
    __slots__ = (
        "_capacity",
        "_consumers",
        "_ended",
        "_error",
        "_finished",
        "_gate",
        "_is_last",
        "_on_overflow",
        "_overflow",
        "delivered",
        "dropped",
        "is_over",
        "keeps_after_loss",
        "messages",
        "name",
        "waiting",
    )

    def __init__(
        self,
        *,
        name: str,
        capacity: int,
        overflow: Overflow,
        on_overflow: Callable[[], None],
        keeps_after_loss: bool = False,
        is_last: Callable[[Headers], bool] | None = None,
    ) -> None:
        self.name = name
        self._on_overflow = on_overflow
        self.keeps_after_loss = keeps_after_loss
        self._capacity = capacity
        self._overflow = overflow
        self._gate = _open_gate()
        self.messages: deque[Frame] = deque()
        self._consumers = trio.lowlevel.ParkingLot()
        self._error: StompError | None = None
        self._is_last = is_last
        self._finished = False
        self._ended = False
        self.is_over = False
        self.waiting = 0
        self.dropped = 0
        self.delivered = 0

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def error(self) -> StompError | None:
        """What ended it, or None."""
        return self._error

    def attach(self, gate: Gate) -> None:
        """Take messages from a connection, whose reader stands at `gate`."""
        self._gate = gate
        # In auto mode what a lost connection had brought is still here.
        gate.octets += self.octets

    def detach(self) -> None:
        """The connection was lost, and another one will follow.

        In the client modes the broker delivers again what nobody took, so it is forgotten here.
        """
        if not self.keeps_after_loss:
            self.clear()
        octets, gate = self.octets, self._gate
        gate.octets -= octets
        gate.full.discard(self)
        self._gate = _open_gate()
        self._gate.octets = octets

    @property
    def octets(self) -> int:
        """How much memory the messages take that wait here."""
        return sum([frame.footprint for frame in self.messages])

    def put(self, frames: Sequence[Frame]) -> bool:
        """Add messages.

        Returns:
            Whether consumers are to be woken, by `wake`, once the whole chunk of input is handed out.
        """
        if self.is_over:
            return False
        if self._is_last is not None:
            frames = self._up_to_last(frames, self._is_last)
        messages = self.messages
        messages.extend(frames)
        octets = 0
        for frame in frames:
            octets += frame.footprint
        self._gate.octets += octets
        if len(messages) > self._capacity:
            self._over(self._overflow)
        return self.waiting > 0

    def _up_to_last(self, frames: Sequence[Frame], is_last: Callable[[Headers], bool]) -> Sequence[Frame]:
        for index, frame in enumerate(frames):
            if is_last(frame.headers):
                self._finished = self.is_over = True
                self._consumers.unpark_all()
                return frames[:index]
        return frames

    def _over(self, overflow: Overflow) -> None:
        if overflow is _WAIT:
            self._gate.full.add(self)
        elif overflow is Overflow.ERROR:
            self.overflow(f"more than {self._capacity} messages waited")
        else:
            while len(self.messages) > self._capacity:
                self._gate.octets -= self.messages.popleft().footprint
                self.dropped += 1

    def overflow(self, what: str) -> None:
        """Fail the subscription because its consumers are too slow."""
        self.fail(
            SubscriptionOverflow(
                f"{self.name}: its consumers did not keep up: {what}. Take messages faster, use an ack mode in which "
                f"the broker keeps a credit (ack='client-individual'), or raise prefetch, which is {self._capacity}"
            ),
            keep=False,
        )
        self._on_overflow()

    def wake(self) -> None:
        """Wake as many consumers as there are messages."""
        self._consumers.unpark(count=max(1, len(self.messages)))

    def fail(self, error: StompError, *, keep: bool) -> None:
        """End it with `error`: for all consumers, now (`keep` false) or once the buffer is empty."""
        if self._error is not None or self._ended or self._finished:
            return
        self._error = error
        self.is_over = True
        if not keep:
            self.clear()
        self._consumers.unpark_all()

    def drain(self) -> list[Frame]:
        """Take out what no consumer has taken."""
        left = list(self.messages)
        self.clear()
        return left

    def end(self) -> None:
        """End it well: consumers stop, and what nobody took is forgotten."""
        self._ended = self.is_over = True
        self.clear()
        self._consumers.unpark_all()

    def clear(self) -> None:
        """Forget all messages."""
        self._gate.octets -= self.octets
        self.messages.clear()
        self._gate.full.discard(self)
        self._gate.notify()

    async def wait(self) -> bool:
        """Wait for a message; returns False when the subscription has ended well.

        Raises:
            StompError: The subscription failed.

        Cancellation: no message was taken.
        """
        while not self.messages:
            if self._error is not None:
                raise renewed(self._error)
            if self._ended or self._finished:
                return False
            await self._park()
        return True

    async def wait_count(self, count: int) -> None:
        """Wait until `count` messages are there, or no more can come.

        Cancellation: no message was taken.
        """
        while len(self.messages) < count and not self.is_over:
            await self._park()

    async def _park(self) -> None:
        self.waiting += 1
        try:
            await self._consumers.park()
        finally:
            self.waiting -= 1

    def take(self) -> Frame:
        """Take the oldest message, which must be there."""
        message = self.messages.popleft()
        self.delivered += 1
        gate = self._gate
        if gate.full or gate.octets > gate.soft_octets:
            if len(self.messages) <= self._capacity:
                gate.full.discard(self)
            gate.octets -= message.footprint
            # A reader that is woken to find the gate closed still would have been woken in vain.
            if not gate.is_closed:
                gate.notify()
        else:
            gate.octets -= message.footprint
        return message
