"""Standard output and error: messages and JSON for programs, progress bars and notes for people."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, Self

import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from trio_stomp.printable import one_line

__all__ = ["Advance", "Output", "duration", "progress", "say"]


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


class Advance(Protocol):
    """Tells a progress bar how much more was done."""

    def __call__(self, amount: int, /) -> None:
        """So much more."""
        ...


def _console() -> Console:
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Say something to somebody at a terminal, and nothing to a script."""
    console = _console()
    if console.is_terminal:
        console.print(one_line(text), markup=False, emoji=False)


def duration(seconds: float) -> str:
    """A duration, for people."""
    # The bound is below 1 s by what rounding to three digits may add.
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"  # noqa: PLR2004  # see above


@contextmanager
def progress(what: str, total: int | None = None) -> Generator[Advance]:
    """Show how far work has come, where the standard error output is a terminal.

    Args:
        what: The work, for people: "sending".
        total: How much there is to do, where that is known.

    Yields:
        The function to call with what has been done since.
    """
    console = _console()
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} messages, {task.fields[rate]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
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
