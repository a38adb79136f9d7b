"""The buffer of one subscription, between the reader and its consumers, and the gate that stops the reader.

Theory of operation. A broker that respects the prefetch never fills a buffer. With any other, a full buffer stops the
reader, and TCP stops the broker. But a stopped reader holds back RECEIPTs too, and a consumer that awaits one in its
own loop would wait forever. So while anything on the connection awaits the broker, the reader goes on up to a hard
limit in bytes. Beyond that limit, the subscription that holds most fails.

Bytes here are bytes of memory: the `footprint` of each frame, as computed by the decoder.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

from trio_stomp.errors import LocalProtocolError, StompError, SubscriptionOverflow
from trio_stomp.protocol import Frame, Headers
from trio_stomp.runtime import new_wait_queue
from trio_stomp.session.failures import renewed

__all__ = ["Gate", "Inbox", "Overflow", "OverflowName"]

OverflowName = Literal["wait", "error", "drop-oldest"]


class Overflow(enum.StrEnum):
    """What a subscription does when its buffer is full: when more messages wait than its prefetch.

    Attributes:
        WAIT: Stop reading.
        ERROR: Fail the subscription.
        DROP_OLDEST: Drop the oldest message, and count it.
    """

    WAIT = "wait"
    ERROR = "error"
    DROP_OLDEST = "drop-oldest"

    @classmethod
    def of(cls, name: str) -> Overflow:
        """Return the member with this name.

        Raises:
            LocalProtocolError: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            raise LocalProtocolError(f"overflow must be one of {', '.join(cls)}; got {name!r}") from None


_WAIT: Final = Overflow.WAIT


class Gate:
    """Stops the reader of a connection while its buffers are full.

    Args:
        soft_bytes: Bytes in all buffers together above which the reader stops, whatever the number of messages.

    Attributes:
        soft_bytes: That bound.
        held_bytes: Bytes in all buffers together.
        full: The buffers with more messages than their prefetch.
        holds: Whether the reader is stopped at this gate.
    """

    def __init__(self, soft_bytes: int) -> None:
        self.soft_bytes = soft_bytes
        self.held_bytes = 0
        self.full: set[Inbox] = set()
        self.holds = False
        self._reader = new_wait_queue()

    @property
    def is_closed(self) -> bool:
        """Whether a limit is exceeded."""
        return bool(self.full) or self.held_bytes > self.soft_bytes

    def notify(self) -> None:
        """Let the reader look again, because something has changed."""
        self._reader.unpark_all()

    async def wait_change(self) -> None:
        """Stop the reader until something changes."""
        self.holds = True
        try:
            await self._reader.park()
        finally:
            self.holds = False


def _open_gate() -> Gate:
    """Make a gate for an inbox without a connection; it never closes."""
    return Gate(sys.maxsize)


class Inbox:
    """The messages of one subscription that no consumer has taken yet.

    Args:
        name: Name of the subscription in messages.
        capacity: How many messages it holds: the prefetch.
        overflow: What to do when more come.
        on_overflow: Called when this side ends it with an error: its consumers are too slow, or the disk is full.
        keeps_after_loss: Keep the messages when the connection ends: in auto mode the broker does not redeliver them.
        is_last: Recognizes the end-of-browse marker.

    Attributes:
        dropped: Number of messages dropped by ``drop-oldest``.
        delivered: Number of messages that consumers have taken.
        messages: The messages that wait for a consumer.
        waiting: Number of consumers that wait for a message.
        is_over: Whether it accepts no more messages.
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
        keeps_after_loss: bool,
        is_last: Callable[[Headers], bool] | None,
    ) -> None:
        self.name = name
        self._on_overflow = on_overflow
        self.keeps_after_loss = keeps_after_loss
        self._capacity = capacity
        self._overflow = overflow
        self._gate = _open_gate()
        self.messages: deque[Frame] = deque()
        self._consumers = new_wait_queue()
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
        """The error that ended it, or None."""
        return self._error

    def attach(self, gate: Gate) -> None:
        """Start to accept messages from a connection with this gate."""
        self._gate = gate
        # In auto mode the messages of a lost connection are still here.
        gate.held_bytes += self.held_bytes

    def detach(self) -> None:
        """Detach from a connection that was lost; another one follows.

        In the client modes the messages are dropped, because the broker redelivers them.
        """
        if not self.keeps_after_loss:
            self.clear()
        gate = self._gate
        gate.held_bytes -= self.held_bytes
        gate.full.discard(self)
        self._gate = _open_gate()

    @property
    def held_bytes(self) -> int:
        """Memory used by the messages."""
        return sum([frame.footprint for frame in self.messages])

    def put(self, frames: Sequence[Frame]) -> bool:
        """Add messages.

        Returns:
            Whether to call `wake` after the whole chunk of input was routed.
        """
        if self.is_over:
            return False  # no consumer waits any more
        if self._is_last is not None:
            frames = self._up_to_last(frames, self._is_last)
        messages = self.messages
        messages.extend(frames)
        added = 0
        for frame in frames:
            added += frame.footprint
        self._gate.held_bytes += added
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
                self._gate.held_bytes -= self.messages.popleft().footprint
                self.dropped += 1

    def overflow(self, what: str) -> None:
        """Fail the subscription because its consumers are too slow."""
        self.break_off(
            SubscriptionOverflow(
                f"{self.name}: its consumers did not keep up: {what}. Take messages faster, use an ack mode in which "
                "the broker respects the prefetch (ack='client-individual'), or raise prefetch, which is "
                f"{self._capacity}"
            )
        )

    def break_off(self, error: StompError) -> None:
        """End it with an error of this side, and unsubscribe."""
        # First, while the messages are here: a broker may have to be told which of them to redeliver.
        self._on_overflow()
        # A browser may have seen the end marker, but not what came before it.
        self._finished = False
        self.fail(error, keep=False)

    def wake(self) -> None:
        """Wake as many consumers as there are messages."""
        self._consumers.unpark(count=len(self.messages))

    def fail(self, error: StompError, *, keep: bool) -> None:
        """End it with an error, raised at once or, with `keep`, after the remaining messages were taken."""
        if self._error is not None or self._ended or self._finished:
            return
        self._error = error
        self.is_over = True
        if not keep:
            self.clear()
        self._consumers.unpark_all()

    def drain(self) -> list[Frame]:
        """Remove and return the messages."""
        left = list(self.messages)
        self.clear()
        return left

    def end(self) -> None:
        """End it without an error: iteration stops, and the messages are dropped."""
        self._ended = self.is_over = True
        self.clear()
        self._consumers.unpark_all()

    def clear(self) -> None:
        """Drop all messages."""
        self._gate.held_bytes -= self.held_bytes
        self.messages.clear()
        self._gate.full.discard(self)
        self._gate.notify()

    async def wait(self) -> bool:
        """Wait for a message; return False when the subscription was left.

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
        """Wait until there are `count` messages, or no more can come.

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
        """Remove and return the oldest message. There must be one."""
        message = self.messages.popleft()
        self.delivered += 1
        gate = self._gate
        if gate.full or gate.held_bytes > gate.soft_bytes:
            if len(self.messages) <= self._capacity:
                gate.full.discard(self)
            gate.held_bytes -= message.footprint
            # Wake the reader only if it can go on.
            if not gate.is_closed:
                gate.notify()
        else:
            gate.held_bytes -= message.footprint
        return message
