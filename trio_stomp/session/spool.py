"""Spooling: large bodies go into temporary files while they arrive.

Theory of operation. The decoder hands the pieces of a large body to a `SpooledBody`, which gathers them. When it has
gathered enough, or the body is complete, the reader of the connection waits until a thread has written them
(`Spooling.flush`), and only then reads on. So at most one such portion is in memory, the event loop never waits for a
disk, and a message is delivered when all of its body is in its file.

The file has no name, so the system removes it even if the program is killed. It is closed when the last reference to
its body is gone.
"""

from __future__ import annotations

import io
import threading
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, BinaryIO, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
from typing_extensions import Buffer

from trio_stomp.errors import BodySpoolError
from trio_stomp.runtime import in_thread

if TYPE_CHECKING:
    from trio_stomp.session.buffer import Inbox

__all__ = ["CHUNK_BYTES", "SMALLEST_THRESHOLD", "BodyChunks", "SpooledBody", "Spooling", "opened"]

# The reader decodes as much at a time. A body of at most that may be complete at once, and is never offered to a sink.
SMALLEST_THRESHOLD: Final = 64 * 1024
# Written to the file at a time: 16 reads, so that changing threads costs little.
_PORTION_BYTES: Final = 1024 * 1024
# Read from the file at a time.
CHUNK_BYTES: Final = 256 * 1024


class SpooledBody:
    """One body in a temporary file. Its methods may be called in any thread.

    Attributes:
        size: Its length, so far.
        is_complete: Whether all of it has come.
    """

    __slots__ = ("_discards", "_file", "_lock", "_waiting", "is_complete", "size")

    def __init__(self) -> None:
        self.size = 0
        self.is_complete = False
        self._waiting = bytearray()
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._discards = False

    def __str__(self) -> str:
        return f"{self.size} bytes in a file"

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, piece: memoryview) -> None:
        """Add a piece."""
        self.size += len(piece)
        if not self._discards:
            self._waiting += piece

    def finish(self) -> None:
        """The body is complete."""
        self.is_complete = True

    @property
    def is_due(self) -> bool:
        """Whether `flush` has work to do before more bytes are read."""
        return self.is_complete or len(self._waiting) >= _PORTION_BYTES

    def flush(self) -> None:
        """Write what was gathered to the file.

        Raises:
            BodySpoolError: The file could not be written; the body is discarded, now and from now on.
        """
        data, self._waiting = self._waiting, bytearray()
        if self._discards:
            return
        directory = "a temporary file"
        try:
            import tempfile  # noqa: PLC0415  # few programs spool, and it brings all of shutil

            directory = f"a temporary file in {tempfile.gettempdir()}"
            if self._file is None:
                # Unbuffered: what was written is there, and closing has nothing left to write.
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # outlives this call; see `close`
            with memoryview(data) as left:
                written = 0
                while written < len(data):
                    written += self._file.write(left[written:])
        except OSError as error:
            self._discards = True
            self.close()
            raise BodySpoolError(
                f"a body of more than {self.size - len(data)} bytes could not be written to {directory}: "
                f"{error.strerror or error}; free space there, or set the environment variable TMPDIR to a directory "
                "on a larger disk. The broker redelivers the message"
            ) from error

    def close(self) -> None:
        """Close the file, which removes it."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    # --- reading ----------------------------------------------------------------------------------------------------

    def read_at(self, position: int, size: int) -> bytes:
        """Return at most `size` bytes from a position on; empty at the end.

        Raises:
            ValueError: The file is closed.
        """
        with self._lock:
            if self._file is None:
                return b""
            self._file.seek(position)
            return self._file.read(size)


class _Reader(io.RawIOBase):
    """Reads a spooled body from the beginning, independently of other readers."""

    def __init__(self, body: SpooledBody) -> None:
        self._body = body
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        with memoryview(buffer) as view, view.cast("B") as room:
            data = self._body.read_at(self._position, len(room))
            room[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._body.size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        self._position = start + offset
        return self._position


def opened(body: bytes | SpooledBody) -> BinaryIO:
    """Return a file object that reads a body from its beginning."""
    return io.BytesIO(body) if isinstance(body, bytes) else io.BufferedReader(_Reader(body), CHUNK_BYTES)


class BodyChunks(AsyncIterator[bytes]):
    """Iterates over a body: ``async for chunk in message.chunks()``."""

    def __init__(self, body: bytes | SpooledBody) -> None:
        self._body = body
        self._position = 0

    async def __anext__(self) -> bytes:
        """Read the next chunk.

        Cancellation: no chunk was taken.
        """
        if isinstance(self._body, bytes):
            await anyio.lowlevel.checkpoint()
            chunk = self._body[self._position : self._position + CHUNK_BYTES]
        else:
            chunk = await in_thread(self._body.read_at, self._position, CHUNK_BYTES)
        if not chunk:
            raise StopAsyncIteration
        self._position += len(chunk)
        return chunk


class Spooling:
    """The bodies that the reader of one connection spools, one after the other.

    Attributes:
        is_writing: Whether the reader waits for the disk.
    """

    def __init__(self) -> None:
        # The body that is arriving, and the buffer that its message will go to.
        self._current: tuple[SpooledBody, Inbox] | None = None
        # The program may hold all threads of the default limiter, even until this message comes.
        self._limiter = anyio.CapacityLimiter(1)
        self.is_writing = False

    def open(self, inbox: Inbox) -> SpooledBody:
        """Begin with another body."""
        body = SpooledBody()
        self._current = body, inbox
        return body

    @property
    def is_due(self) -> bool:
        """Whether `flush` must be awaited before more bytes are decoded."""
        return self._current is not None and self._current[0].is_due

    async def flush(self) -> None:
        """Write what was gathered. If that fails, end the subscription; the rest of the body is discarded.

        Cancellation: it waits for the disk all the same.
        """
        if self._current is None:
            return
        body, inbox = self._current
        self.is_writing = True
        try:
            await anyio.to_thread.run_sync(body.flush, limiter=self._limiter)
        except BodySpoolError as error:
            inbox.break_off(error)
        finally:
            self.is_writing = False
        if body.is_complete:
            self._current = None

    def close(self) -> None:
        """Close the file of a body that will not be complete."""
        if self._current is not None:
            self._current[0].close()
