"""Messages from files and the standard input: one for each file, or one for each line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, Self, TextIO

import anyio

from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.client import OutgoingMessage

__all__ = ["LINE_END", "STANDARD_INPUT", "LineInput", "WholeInput", "read_whole"]

_CHUNK_BYTES: Final = 64 * 1024

STANDARD_INPUT: Final = Path("-")

LINE_END: Final = b"\n"


class Readable(Protocol):
    """A file, buffered or not."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Read. An unbuffered file returns the bytes that are available, and None if there are none yet."""
        ...


def standard_input() -> Readable:
    """Return the standard input of the process, unbuffered.

    A thread may still wait for input when the process ends. If it held the lock of the buffer, the interpreter would
    abort.

    Raises:
        CommandFailed: It is closed.
    """
    # Typed as never None, but that is what it is where the process was started without (``<&-``).
    stream: TextIO | None = sys.stdin
    if stream is None:
        raise CommandFailed("standard input is closed; pass the body as an argument or with --file", ExitCode.USAGE)
    buffer = stream.buffer
    # In tests, it is not a file.
    raw: Readable = getattr(buffer, "raw", buffer)
    return raw


@contextmanager
def _opened(path: Path) -> Generator[Readable]:
    try:
        if path == STANDARD_INPUT:
            yield standard_input()
        else:
            # Unbuffered: a thread that reads a named pipe may still wait at the end, as for standard input.
            with path.open("rb", buffering=0) as stream:
                yield stream
    except OSError as error:
        name = "standard input" if path == STANDARD_INPUT else path
        raise CommandFailed(f"{name} cannot be read: {error.strerror or error}", ExitCode.USAGE) from None


class WholeInput:
    """One message per file: an async iterator of batches, like `LineInput`.

    Args:
        paths: The files; ``-`` means standard input.
        message: Makes a message from a body.
        empty: Whether standard input may be empty.
    """

    def __init__(
        self, paths: Iterable[Path], message: Callable[[bytes], OutgoingMessage], *, empty: bool = False
    ) -> None:
        self._paths = iter(paths)
        self._message = message
        self._empty = empty

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> list[OutgoingMessage]:
        """Return the content of the next file.

        Cancellation: does not wait for more input.
        """
        for path in self._paths:
            return [self._message(await read_whole(path, empty=self._empty))]
        raise StopAsyncIteration


async def read_whole(path: Path, *, empty: bool = False) -> bytes:
    """Return the content of a file; ``-`` means standard input.

    Args:
        path: The file.
        empty: Whether standard input may be empty. The program that should have written it may have failed.

    Raises:
        CommandFailed: It cannot be read, or is standard input and empty.

    Cancellation: does not wait for more input.
    """
    octets = await anyio.to_thread.run_sync(_read, path, abandon_on_cancel=True)
    if not octets and path == STANDARD_INPUT and not empty:
        raise CommandFailed("standard input is empty; to send an empty message, add --empty")
    return octets


def _read(path: Path) -> bytes:
    with _opened(path) as stream:
        return stream.read() or b""


class LineInput:
    """One message per line: an async iterator of batches, each with the lines that were available.

    Args:
        paths: The files; ``-`` means standard input.
        message: Makes a message from a line without its end, and its number. Empty lines are skipped.
        delimiter: What ends a line.
    """

    def __init__(
        self, paths: Iterable[Path], message: Callable[[bytes, int], OutgoingMessage], delimiter: bytes = LINE_END
    ) -> None:
        self._chunks = _chunks(paths, delimiter)
        self._delimiter = delimiter
        self._message = message
        self._number = 0
        self._rest = b""
        self._failure: CommandFailed | None = None

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> list[OutgoingMessage]:
        """Return the lines that are available, up to one that is wrong; raise what is wrong with it the next time.

        Cancellation: does not wait for more input.
        """
        while self._failure is None:
            chunk = await anyio.to_thread.run_sync(next, self._chunks, None, abandon_on_cancel=True)
            if chunk is None:
                raise StopAsyncIteration
            *lines, self._rest = (self._rest + chunk).split(self._delimiter)
            messages: list[OutgoingMessage] = []
            try:
                for message in self._messages(lines):
                    messages.append(message)  # noqa: PERF402  # those before one that raises are kept
            except CommandFailed as failure:
                self._failure = failure
            if messages:
                return messages
        raise self._failure

    def _messages(self, lines: Iterable[bytes]) -> Iterator[OutgoingMessage]:
        for line in lines:
            self._number += 1
            text = line.removesuffix(b"\r") if self._delimiter == LINE_END else line
            if text:
                yield self._message(text, self._number)


def _chunks(paths: Iterable[Path], delimiter: bytes) -> Iterator[bytes]:
    """Yield the files in pieces, with a delimiter after a last line that has none."""
    for path in paths:
        with _opened(path) as stream:
            end = b""
            while piece := stream.read(_CHUNK_BYTES):
                end = (end + piece)[-len(delimiter) :]
                yield piece
            if end and end != delimiter:
                yield delimiter
