"""Standard output for messages and JSON; standard error for progress bars and notes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

import anyio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trio_stomp.cli.running import InvalidUsage
from trio_stomp.printable import one_line

__all__ = [
    "Advance",
    "Output",
    "can_ask",
    "console",
    "counted",
    "digits",
    "duration",
    "is_terminal",
    "progress",
    "say",
    "unbuffered",
]


def unbuffered(stream: TextIO) -> BinaryIO:
    """Return a standard stream without its buffer, as one whose calls wait.

    A thread may still wait for it when the process ends. With the lock of the buffer, it would abort the interpreter.
    """
    # In tests, it is not a file.
    raw: BinaryIO = getattr(stream.buffer, "raw", stream.buffer)
    if sys.platform != "win32":
        # A program that shares it may have made it non-blocking. Then input that comes later would look like its end.
        with suppress(OSError):
            os.set_blocking(raw.fileno(), True)
    return raw


class Output:
    """Standard output for messages, written in a thread: a slow reader does not stop the heart-beats.

    Raises:
        CommandFailed: It is closed: what cannot be printed should not be received.
    """

    def __init__(self) -> None:
        stream: TextIO | None = sys.stdout
        if stream is None:
            raise InvalidUsage("standard output is closed")
        self._stream = unbuffered(stream)
        self.is_terminal = stream.isatty()

    async def write(self, octets: bytes) -> None:
        """Write.

        Raises:
            BrokenPipeError: The reader closed it.

        Cancellation: the data may be written or not; the call does not wait for a slow reader.
        """
        await anyio.to_thread.run_sync(self._write, octets, abandon_on_cancel=True)

    def _write(self, octets: bytes) -> None:
        rest = memoryview(octets)
        while rest:
            rest = rest[self._stream.write(rest) :]
        self._stream.flush()


# Advances a progress bar by a number of messages.
Advance = Callable[[int], None]


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. It is None where the process was started without it (``<&-``, ``2>&-``)."""
    return stream is not None and stream.isatty()


def can_ask() -> bool:
    """Whether there is a user to ask. Standard input may contain the messages to send; then a prompt is impossible."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


class _Console(Console):
    """A console that raises BrokenPipeError, which `ending` handles."""

    def on_broken_pipe(self) -> None:
        """Raise the exception again; rich would exit with status 1."""
        raise  # noqa: PLE0704  # rich calls this while it handles the exception


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Standard output, or standard error, for text with styles."""
    return _Console(stderr=stderr, quiet=quiet, highlight=False)


def say(text: str) -> None:
    """Print a note on standard error if that is a terminal."""
    # Not by the console: with FORCE_COLOR, as in many CI systems, it takes any stream for a terminal.
    if is_terminal(sys.stderr):
        console(stderr=True).print(one_line(text), markup=False, emoji=False)


def counted(number: int, noun: str) -> str:
    """Return a number of things, in singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def digits(number: float) -> str:
    """Format a number with three digits, or with all before the point."""
    # From here on, three digits would have an exponent.
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"  # noqa: PLR2004  # see above


def duration(seconds: float) -> str:
    """Format a duration."""
    # From here on, rounding to three digits gives 1 s.
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{digits(seconds)} s"  # noqa: PLR2004  # see above


@contextmanager
def progress(what: str, total: int | None = None, *, hidden: bool = False) -> Generator[Advance]:
    """Show a progress bar on standard error, if that is a terminal and the bar is not hidden."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} messages, {task.fields[rate]}"),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
        disable=hidden or not is_terminal(sys.stderr),
    )
    task = bar.add_task(what, total=total, rate="")

    def advance(amount: int) -> None:
        speed = bar.tasks[0].speed
        bar.update(task, advance=amount, rate="" if speed is None else f"{speed:,.0f}/s")

    with bar:
        yield advance
