"""Bodies that are read while they are written to the broker: files and async iterables.

Theory of operation. `BodySource.write` runs in the task that sends the message, or in the one that sends it again after
a loss. It waits for its turn in the outbox and then writes head, body and NUL itself, piece by piece; the writer waits
meanwhile (`outbox.Loan`). So what a source raises, and cancellation, reach the task that sends, and one piece is in
memory at a time.

STOMP has no way to give up a frame: once its head is written, the promised number of bytes must follow. If they do not,
`BodySource.write` ends the connection. Until then, nothing was sent.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

import anyio

from trio_stomp.brokers import is_whole
from trio_stomp.errors import ConnectionLost, LocalProtocolError
from trio_stomp.protocol import ClientProtocol
from trio_stomp.runtime import awaited, called, in_thread
from trio_stomp.session.outbox import LAST_WORDS_SECONDS

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection
    from trio_stomp.session.outbox import Loan
    from trio_stomp.session.receipts import Publication

__all__ = ["IN_MEMORY", "BinaryFile", "BodyFile", "BodySource", "EncodeHead", "open_source", "source_of"]

# Bodies that are not read while they are written. A bytearray is sent too, though no annotation shows it.
IN_MEMORY: Final = (bytes, str, bytearray)

_PIECE_BYTES: Final = 256 * 1024


class BinaryFile(Protocol):
    """A file object that was opened in binary mode, as far as sending it needs."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes."""
        ...

    def seekable(self) -> bool:
        """Whether `seek` works."""
        ...

    def seek(self, offset: int, whence: int = ..., /) -> int:
        """Change the position, and return it."""
        ...

    def tell(self) -> int:
        """Return the position."""
        ...


BodyFile = os.PathLike[str] | BinaryFile


class BodySource(ABC):
    """A body that is read while it is written.

    Args:
        name: What it is, for errors.
        size: Its length.

    Attributes:
        can_repeat: Whether it can be read again, for another connection.
        is_torn: Whether the connection has ended because the body did, in the middle of its frame.
    """

    can_repeat = True
    is_torn = False

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._turn: tuple[Connection, bytes, Loan] | None = None
        # While one write ends with its connection, the next one may begin.
        self._writing = anyio.Lock()

    @abstractmethod
    async def begin(self) -> None:
        """Go to the beginning of the body."""

    @abstractmethod
    async def read(self, most: int, /) -> bytes:
        """Return the next piece, at most `most` bytes of it if the source can be cut; empty at the end."""

    def take_turn(self, connection: Connection, head: bytes) -> None:
        """Enter the frame with this body into the outbox of a connection. Never waits; `write` writes it."""
        connection.counters.frames_sent += 1
        if connection.wire is not None:
            connection.wire.sent_head(head, self.size)
        self._turn = connection, head, connection.outbox.lend(len(head) + self.size + 1)

    def stop(self) -> None:
        """Stop `write`, in whatever task it runs."""
        if self._turn is not None:
            self._turn[2].scope.cancel()

    async def write(self) -> bool:
        """Write the frame, when it is its turn.

        Returns:
            Whether all of it was written. If not, the connection has ended, or `stop` was called before its turn.

        Raises:
            LocalProtocolError: The body is shorter or longer than its size; the connection has ended.
            Exception: What the source raised. If that was in the middle of the body, the connection has ended.

        Cancellation: nothing was sent, or the connection has ended.
        """
        if self._turn is None:
            raise AssertionError(self)
        connection, head, loan = self._turn
        is_torn, is_written = False, False
        try:
            with loan.scope:
                with connection.outbox.awaited():
                    await loan.granted.wait()
                async with self._writing:
                    await self.begin()
                    is_torn = True
                    await _put(connection, loan, head)
                    await self._write_body(connection, loan)
                    await _put(connection, loan, b"\0")
                    is_torn, is_written = False, True
        finally:
            if is_torn:
                self.is_torn = True
                connection.fail(
                    ConnectionLost(
                        f"the connection to {connection.link.endpoint} was closed by this side, because the body from "
                        f"{self.name} ended in the middle of its frame"
                    )
                )
            connection.outbox.give_back(loan)
        return is_written

    async def _write_body(self, connection: Connection, loan: Loan) -> None:
        left = self.size
        while piece := await self.read(left):
            if len(piece) > left:
                raise LocalProtocolError(f"{self.name} gave more than the {self.size} bytes of its content_length")
            left -= len(piece)
            await _put(connection, loan, piece)
        if left:
            raise LocalProtocolError(f"{self.name} ended after {self.size - left} of {self.size} bytes")


async def _put(connection: Connection, loan: Loan, data: bytes) -> None:
    """Write a piece of a frame. If that fails, the connection ends, and this does not return."""
    try:
        with connection.outbox.awaited():
            await connection.stream.send_all(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
        # As in the writer. The end of the connection cancels the scope of the loan, and so this.
        await anyio.sleep(LAST_WORDS_SECONDS)
        connection.fail(connection.lost(error.__cause__ or error))
        await anyio.sleep_forever()
    connection.outbox.count(loan, len(data))
    connection.last_write = connection.now()
    connection.counters.bytes_sent += len(data)
    connection.counters.writes += 1


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


def source_of(message: Publication) -> BodySource | None:
    """Return where the body of an unconfirmed message comes from, if that is not in memory."""
    content = message._content  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # users must not touch it
    return content.source if isinstance(content, EncodeHead) else None


class _File(BodySource):
    """The rest of a file, from its current position. Made in a thread, because it looks at the file.

    Raises:
        LocalProtocolError: Its length is unknown.
    """

    def __init__(self, file: BinaryFile, name: str) -> None:
        if not file.seekable():
            raise LocalProtocolError(
                f"{name} is not seekable, so its length is unknown: read it and send bytes, or pass an async iterable "
                "with content_length="
            )
        self._file = file
        self._start = file.tell()
        # Nothing, from a position beyond the end.
        super().__init__(name, max(0, file.seek(0, io.SEEK_END) - self._start))
        file.seek(self._start)

    async def begin(self) -> None:
        await in_thread(self._file.seek, self._start)

    async def read(self, most: int, /) -> bytes:
        # A file that has grown since it was measured is sent as it was.
        return await in_thread(self._file.read, min(most, _PIECE_BYTES))


class _Iterable(BodySource):
    can_repeat = False

    def __init__(self, pieces: AsyncIterable[bytes], size: int) -> None:
        super().__init__(f"the async iterable {type(pieces).__name__}", size)
        self._pieces: AsyncIterator[bytes] = aiter(pieces)

    async def begin(self) -> None:
        pass

    async def read(self, _most: int, /) -> bytes:
        while (piece := await awaited(called(anext, self._pieces, None))) is not None:
            if piece:
                return piece
        return b""


@asynccontextmanager
async def open_source(body: object, content_length: int | None) -> AsyncGenerator[BodySource]:
    """Open the body of a message that is neither bytes nor str.

    Args:
        body: The path of a file, a binary file object, or an async iterable.
        content_length: The length of an async iterable.

    Raises:
        LocalProtocolError: It is something else, or its length is unknown.
        OSError: The file cannot be opened.
    """
    if _is_iterable(body):
        if not is_whole(content_length, 0):
            raise LocalProtocolError(
                "an async iterable needs content_length=, the number of bytes that it gives in total, because STOMP "
                f"sends that first; got {content_length!r}"
            )
        try:
            yield _Iterable(body, content_length)
        finally:
            if isinstance(body, AsyncGenerator):
                # It is not read to its end if the connection is lost, for example. Canceled, what it awaits in its own
                # cleanup is canceled too.
                await awaited(body.aclose())  # noqa: ASYNC102  # see above
        return
    if content_length is not None:
        raise LocalProtocolError("content_length is for async iterables; the length of any other body is known")
    if _is_path(body):
        opened: list[io.BufferedReader] = []
        try:
            # Canceled, the call returns nothing, and yet the file is open.
            await in_thread(lambda: opened.append(_open(body)))
            yield await in_thread(_File, opened[0], f"the file {os.fspath(body)!r}")
        finally:
            for file in opened:
                file.close()
    elif not _is_file(body):
        raise LocalProtocolError(
            "a body must be bytes, str, a path, a binary file object or an async iterable, got a value of type "
            f"{type(body).__name__}; pass json= to send JSON, encode it, or open the file with mode 'rb'"
        )
    else:
        name = getattr(body, "name", type(body).__name__)
        yield await in_thread(_File, body, f"the file object {name!r}")


def _is_iterable(body: object) -> TypeGuard[AsyncIterable[bytes]]:
    return isinstance(body, AsyncIterable)


def _is_file(body: object) -> TypeGuard[BinaryFile]:
    # From Python 3.12 on, isinstance() does not see the methods that a NamedTemporaryFile has from its file. What gives
    # text has an encoding.
    methods = (getattr(body, name, None) for name in ("read", "seekable", "seek", "tell"))
    return not hasattr(body, "encoding") and all(map(callable, methods))


def _is_path(body: object) -> TypeGuard[os.PathLike[str]]:
    return isinstance(body, os.PathLike)


def _open(path: os.PathLike[str]) -> io.BufferedReader:
    return open(path, "rb")  # noqa: PTH123  # few programs send files, and pathlib is slow to import
