"""The outbox: whole frames that wait to be written, in order, bounded in bytes.

Verbs append without awaiting, and the writer takes everything at once. So a canceled verb has sent its frame as a whole
or not at all, and a frame can only be torn if the connection breaks.

The broker may read nothing until we read what it sends. So each task that waits until the broker reads does so inside
`Outbox.awaited`, which keeps the reader of the connection going.

A frame that is too large for memory is written by the task that sends it, piece by piece. It takes its place in the
outbox as a `Loan`: when that comes first, the writer lends the stream and waits until the loan is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio

from trio_stomp.runtime import new_wait_queue

__all__ = ["LAST_WORDS_SECONDS", "Loan", "Outbox"]

# How long the reader may look for the reason when a write fails: an ERROR, or the close of a WebSocket.
LAST_WORDS_SECONDS: Final = 0.5


class Loan:
    """The stream, lent by the writer to another task for one frame.

    Args:
        size: The length of the frame.

    Attributes:
        left: How much of it is not written yet.
        granted: Set when the task may write.
        over: Set when the writer goes on.
        scope: Canceled when the connection ends.
    """

    def __init__(self, size: int) -> None:
        self.left = size
        self.granted = anyio.Event()
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()


class Outbox:
    """The frames that one connection has yet to write.

    Args:
        high_water_bytes: Above this, senders wait for room.
        wake_reader: Called when one more task waits until the broker reads.

    Attributes:
        high_water_bytes: That bound.
        waiting_tasks: Number of tasks that wait until the broker reads.
        waiting_bytes: How much waits to be written, including what the writer has taken.
        is_idle: Whether nothing waits and the writer sleeps, so that another task may write a whole frame to the
            stream.
    """

    def __init__(self, high_water_bytes: int, wake_reader: Callable[[], None] = lambda: None) -> None:
        self.high_water_bytes = high_water_bytes
        self.waiting_tasks = 0
        self._wake_reader = wake_reader
        self._frames: list[bytes] = []
        # The loans in their order, each with the frames before it; `_frames` are those after the last one.
        self._loans: deque[tuple[list[bytes], Loan]] = deque()
        self._in_hand = 0
        self.waiting_bytes = 0
        self.closed = False
        self._writer = new_wait_queue()
        self.is_idle = False  # until the writer has nothing to write
        self._waiting_for_room = new_wait_queue()
        self._waiting_for_empty = new_wait_queue()

    @property
    def is_full(self) -> bool:
        """Whether senders must wait."""
        return self.waiting_bytes > self.high_water_bytes and not self.closed

    @contextmanager
    def awaited(self) -> Generator[None]:
        """Keep the reader going during a block that waits until the broker reads."""
        self.waiting_tasks += 1
        self._wake_reader()
        try:
            yield
        finally:
            self.waiting_tasks -= 1

    def append(self, frame: bytes, *, written: int = 0) -> None:
        """Add a whole frame. Never waits; senders keep the bound by waiting before.

        Args:
            frame: The frame.
            written: How many bytes of it are written already, by a task that found the outbox idle.
        """
        if written:
            if written == len(frame):
                return
            frame = frame[written:]
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        if self.is_idle:
            self.is_idle = False
            self._writer.unpark()

    def lend(self, size: int) -> Loan:
        """Add a whole frame that the caller writes itself, once `Loan.granted` is set. Never waits."""
        loan = Loan(size)
        self._loans.append((self._frames, loan))
        self._frames = []
        self.waiting_bytes += size
        if self.is_idle:
            self.is_idle = False
            self._writer.unpark()
        return loan

    def count(self, loan: Loan, size: int) -> None:
        """Subtract bytes of a lent frame: they are written, or not to be written any more."""
        loan.left -= size
        self._less(size)

    def give_back(self, loan: Loan) -> None:
        """End a loan, granted or not: the writer goes on with the next frame."""
        self.count(loan, loan.left)
        loan.over.set()

    async def wait_for_room(self) -> None:
        """Wait until the outbox is not full.

        Cancellation: nothing was added.
        """
        with self.awaited():
            while self.is_full:
                await self._waiting_for_room.park()

    async def take(self) -> bytes:
        """Wait for something to write and take all of it; lend the stream first if it is the turn of a loan.

        Cancellation: nothing was taken.
        """
        frames = self._frames
        while self._loans or not frames:
            if self._loans:
                frames, loan = self._loans[0]
                if frames:
                    break
                loan.granted.set()
                await loan.over.wait()
                self._loans.popleft()
            else:
                self.is_idle = True
                await self._writer.park()
            frames = self._frames
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        frames.clear()
        self._in_hand = len(data)
        return data

    def written(self) -> None:
        """Count what was taken last as written."""
        self._less(self._in_hand)

    def _less(self, size: int) -> None:
        self.waiting_bytes -= size
        if not self.is_full:
            self._waiting_for_room.unpark_all()
        if not self.waiting_bytes:
            self._waiting_for_empty.unpark_all()

    async def wait_empty(self) -> None:
        """Wait until all is written, or the outbox is closed.

        Cancellation: nothing changes.
        """
        while self.waiting_bytes and not self.closed:
            await self._waiting_for_empty.park()

    def close(self) -> None:
        """Wake all waiting tasks, because the connection is gone."""
        self.closed = True
        for _, loan in self._loans:
            loan.scope.cancel()
        self._waiting_for_room.unpark_all()
        self._waiting_for_empty.unpark_all()
