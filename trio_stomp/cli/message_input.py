"""Messages from files and the standard input: one for each file, or one for each line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Protocol, Self

import trio

from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.client import OutgoingMessage

__all__ = ["STANDARD_INPUT", "LineInput", "WholeInput", "read_whole"]

_CHUNK_BYTES: Final = 64 * 1024

STANDARD_INPUT: Final = Path("-")


class Readable(Protocol):
    """A file, buffered or not."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Read. An unbuffered file returns the bytes that are available, and None if there are none yet."""
        ...


def standard_input() -> Readable:
    """Return the standard input of the process, unbuffered.

    A thread may still wait for input when the process ends. If it held the lock of the buffer, the interpreter would
    abort.
    """
    buffer = sys.stdin.buffer
    # In tests, it is not a file.
    raw: Readable = getattr(buffer, "raw", buffer)
    return raw


def _opened(path: Path) -> AbstractContextManager[Readable]:
    if path == STANDARD_INPUT:
        return nullcontext(standard_input())
    try:
        # Unbuffered: a thread that reads a named pipe may still wait at the end, as for standard input.
        return path.open("rb", buffering=0)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}", ExitCode.USAGE) from None


class WholeInput:
    """One message per file: an async iterator of batches, like `LineInput`.

    Args:
        paths: The files; ``-`` means standard input.
        message: Makes a message from a body.
    """

    def __init__(self, paths: Iterable[Path], message: Callable[[bytes], OutgoingMessage]) -> None:
        self._paths = iter(paths)
        self._message = message

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> list[OutgoingMessage]:
        """Return the content of the next file.

        Cancellation: does not wait for more input.
        """
        for path in self._paths:
            return [self._message(await read_whole(path))]
        raise StopAsyncIteration


async def read_whole(path: Path) -> bytes:
    """Return the content of a file; ``-`` means standard input.

    Raises:
        CommandFailed: It cannot be read.

    Cancellation: does not wait for more input.
    """
    return await trio.to_thread.run_sync(_read, path, abandon_on_cancel=True)


def _read(path: Path) -> bytes:
    with _opened(path) as stream:
        return stream.read() or b""


class LineInput:
    """One message per line: an async iterator of batches, each with the lines that were available.

    Args:
        paths: The files; ``-`` means standard input.
        message: Makes a message from a line without its end, and its number. Empty lines are skipped.
    """

    def __init__(self, paths: Iterable[Path], message: Callable[[bytes, int], OutgoingMessage]) -> None:
        self._chunks = _chunks(paths)
        self._message = message
        self._number = 0
        self._rest = b""

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> list[OutgoingMessage]:
        """Return the lines that are available.

        Cancellation: does not wait for more input.
        """
        while True:
            chunk = await trio.to_thread.run_sync(next, self._chunks, None, abandon_on_cancel=True)
            if chunk is None:
                raise StopAsyncIteration
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            messages = list(self._messages(lines))
            if messages:
                return messages

    def _messages(self, lines: Iterable[bytes]) -> Iterator[OutgoingMessage]:
        for line in lines:
            self._number += 1
            text = line.removesuffix(b"\r")
            if text:
                yield self._message(text, self._number)


def _chunks(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the files in pieces, with a line feed after a last line that has none."""
    for path in paths:
        with _opened(path) as stream:
            chunk = b""
            while piece := stream.read(_CHUNK_BYTES):
                chunk = piece
                yield piece
            if chunk and not chunk.endswith(b"\n"):
                yield b"\n"
