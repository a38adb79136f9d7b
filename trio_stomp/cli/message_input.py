"""Messages from files and the standard input: one for each file, or one for each line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from trio_stomp.cli.running import CommandFailed, InvalidUsage
from trio_stomp.cli.terminal import unbuffered
from trio_stomp.client import OutgoingMessage

__all__ = ["LINE_END", "STANDARD_INPUT", "body_of", "read_lines", "read_whole"]

_CHUNK_BYTES: Final = 64 * 1024

STANDARD_INPUT: Final = Path("-")

LINE_END: Final = b"\n"


def _standard_input() -> BinaryIO:
    # Typed as never None, but that is what it is where the process was started without (``<&-``).
    stream: TextIO | None = sys.stdin
    if stream is None:
        raise InvalidUsage("standard input is closed; pass the body as an argument or with --file")
    return unbuffered(stream)


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    try:
        if path == STANDARD_INPUT:
            yield _standard_input()
        else:
            # Unbuffered: a thread that reads a named pipe may still wait at the end, as for standard input.
            with path.open("rb", buffering=0) as stream:
                yield stream
    except OSError as error:
        name = "standard input" if path == STANDARD_INPUT else path
        raise InvalidUsage(f"{name} cannot be read: {error.strerror or error}") from None


def read_whole(path: Path, *, text: bool, empty: bool) -> bytes | str:
    """Return the content of a file; ``-`` means standard input. This may wait, so call it in a thread.

    Standard input must not be empty unless `empty` says so: the program that should have written it may have failed.
    """
    with _opened(path) as stream:
        octets = stream.read() or b""
    if not octets and path == STANDARD_INPUT and not empty:
        raise CommandFailed("standard input is empty; to send an empty message, add --empty")
    return body_of(octets, text=text)


def body_of(octets: bytes, *, text: bool) -> bytes | str:
    """Return a body as bytes, or as text if it is UTF-8."""
    try:
        return octets.decode("utf-8") if text else octets
    except UnicodeDecodeError as error:
        raise CommandFailed(f"--text requires UTF-8 input: {error}") from None


def read_lines(
    paths: Iterable[Path], message: Callable[[bytes], OutgoingMessage], delimiter: bytes = LINE_END
) -> Iterator[list[OutgoingMessage]]:
    """Yield a message for each line, in batches: the lines that are available. This may wait, so run it in a thread.

    `message` makes one of a line without its end; if it fails, those before were yielded. Empty lines are skipped.
    """
    number, rest = 0, bytearray()
    for piece in _pieces(paths, delimiter):
        searched = max(0, len(rest) - len(delimiter) + 1)
        rest += piece
        # A long line comes in many pieces, and searching all of it again for each would take quadratic time.
        if delimiter not in rest[searched:]:
            continue
        *lines, end = bytes(rest).split(delimiter)
        rest = bytearray(end)
        messages: list[OutgoingMessage] = []
        try:
            for line in lines:
                number += 1
                if text := line.removesuffix(b"\r") if delimiter == LINE_END else line:
                    messages.append(message(text))
        except CommandFailed as error:
            if messages:
                yield messages
            raise CommandFailed(f"line {number} cannot be sent: {error}") from None
        if messages:
            yield messages


def _pieces(paths: Iterable[Path], delimiter: bytes) -> Iterator[bytes]:
    """Yield the files in pieces, with a delimiter after a last line that has none."""
    for path in paths:
        with _opened(path) as stream:
            end = b""
            while piece := stream.read(_CHUNK_BYTES):
                end = (end + piece)[-len(delimiter) :]
                yield piece
            if end and end != delimiter:
                yield delimiter
