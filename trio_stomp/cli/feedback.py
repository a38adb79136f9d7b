"""What is said on the way: progress bars and short notes on the standard error output, for people alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from trio_stomp.printable import one_line

__all__ = ["Advance", "duration", "progress", "say"]


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
