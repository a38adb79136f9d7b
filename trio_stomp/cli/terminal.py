"""Standard output for messages and JSON; standard error for progress bars and notes."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, Self, TextIO

import anyio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.printable import one_line

__all__ = ["Advance", "Output", "console", "duration", "is_terminal", "progress", "say"]


class _Writable(Protocol):
    """A binary file that may write less than it is given."""

    def write(self, octets: memoryview, /) -> int: ...

    def flush(self) -> None: ...


class Output:
    """A binary stream for messages, written in a thread: a slow reader does not stop the heart-beats.

    It is unbuffered. A thread may still wait for the reader when the process ends; if it held the lock of the buffer,
    the interpreter would abort.

    Attributes:
        is_terminal: Whether it is a terminal.
    """

    def __init__(self, stream: BinaryIO) -> None:
        # In tests, it may not be a real file.
        self._stream: _Writable = getattr(stream, "raw", stream)
        self.is_terminal = stream.isatty()

    @classmethod
    def standard(cls) -> Self:
        """Standard output.

        Raises:
            CommandFailed: It is closed: what cannot be printed should not be received.
        """
        stream: TextIO | None = sys.stdout
        if stream is None:
            raise CommandFailed("standard output is closed", ExitCode.USAGE)
        return cls(stream.buffer)

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


class Advance(Protocol):
    """Advances a progress bar."""

    def __call__(self, amount: int, /) -> None:
        """Advance it by this number of messages."""
        ...


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. It is None where the process was started without it (``<&-``, ``2>&-``)."""
    return stream is not None and stream.isatty()


class _Console(Console):
    """A console that raises BrokenPipeError, which `ending` handles."""

    def on_broken_pipe(self) -> None:
        """Raise the exception again; rich would exit with status 1."""
        raise  # noqa: PLE0704  # rich calls this while it handles the exception


def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error, for text with styles."""
    return _Console(stderr=stderr, highlight=False)


def say(text: str) -> None:
    """Print a note on standard error if that is a terminal."""
    errors = console(stderr=True)
    if errors.is_terminal:
        errors.print(one_line(text), markup=False, emoji=False)


def duration(seconds: float) -> str:
    """Format a duration."""
    # From here on, rounding to three digits gives 1 s.
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"  # noqa: PLR2004  # see above


@contextmanager
def progress(what: str, total: int | None = None) -> Generator[Advance]:
    """Show a progress bar on standard error, if that is a terminal.

    Args:
        what: The work, such as "sending".
        total: How much there is to do, if known.

    Yields:
        The function that advances it.
    """
    errors = console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} messages, {task.fields[rate]}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    task = bar.add_task(what, total=total, rate="")
    with bar:
        yield _Bar(bar, task)


class _Bar:
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def __call__(self, amount: int, /) -> None:
        speed = self._bar.tasks[0].speed
        self._bar.update(self._task, advance=amount, rate="" if speed is None else f"{speed:,.0f}/s")
