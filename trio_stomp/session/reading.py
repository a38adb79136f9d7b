"""Whose turn it is to read a connection: its reader's, or that of a task that waits for a RECEIPT.

Theory of operation. The reader reads, and wakes the task that sent a confirmed message, which then sends the next one.
The scheduler makes two passes for that, and the broker waits for both. A task that waits for its RECEIPT may therefore
read in place of the reader: then it goes on from the RECEIPT to the next message without a pass.

Trio allows one task to wait for a socket, so the reader must not be waiting for it already. When it has brought the
only RECEIPT that was awaited, it offers its turn for one pass of the scheduler. The task takes the turn with its next
message, reads one chunk, and gives the turn back at once, whatever it has read, and also if it is canceled. That wakes
the reader, which runs in the next pass: after the next message, if the task sends one, and that takes the turn again.
Otherwise the reader reads on. So no input ever waits for a task that does something else.

Gain: `send, each receipt awaited` in `make bench` is about 1.5 times as fast, without a broker that limits it.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel

from trio_stomp.runtime import new_waiter

__all__ = ["Reading"]


class Reading:
    """The turn to read one connection.

    Attributes:
        is_offered: Whether a task may take the turn.
        unread: Input that a task has read and left to the reader.
    """

    __slots__ = ("_is_taken", "_reader", "is_offered", "unread")

    def __init__(self) -> None:
        self.is_offered = False
        self.unread: bytes | bytearray = b""
        self._is_taken = False
        # The reader, while it waits for its turn.
        self._reader = new_waiter()

    def take(self) -> None:
        """Take the turn that is offered."""
        self.is_offered, self._is_taken = False, True

    def give_back(self) -> None:
        """Let the reader continue, unless a task takes the turn again before it runs."""
        self.is_offered, self._is_taken = True, False
        self._reader.wake()

    async def offer(self) -> None:
        """Offer the reader's turn for one pass of the scheduler, and wait until it comes back.

        Cancellation: the reader ends, and so does the connection.
        """
        self.is_offered = True
        await anyio.lowlevel.checkpoint()
        while self._is_taken:
            await self._reader.wait()
        self.is_offered = False
