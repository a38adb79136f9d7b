"""The standard output: written in a thread, so that a slow reader does not stop the heart-beats."""

from __future__ import annotations

import sys
from typing import BinaryIO, Self

import trio

__all__ = ["Output"]


class Output:
    """A binary stream to print messages to.

    Attributes:
        is_terminal: Whether a terminal shows what is written.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()

    @classmethod
    def standard(cls) -> Self:
        """The standard output of the process."""
        return cls(sys.stdout.buffer)

    async def write(self, octets: bytes) -> None:
        """Write, and flush.

        Raises:
            BrokenPipeError: The reader has gone.

        Cancellation: it may be written or not; the call does not wait for a reader that takes nothing.
        """
        await trio.to_thread.run_sync(self._write, octets, abandon_on_cancel=True)

    def _write(self, octets: bytes) -> None:
        self._stream.write(octets)
        self._stream.flush()
