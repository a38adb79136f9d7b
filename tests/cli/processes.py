"""The real command in a process of its own, on a terminal too."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import pytest

from tests.kit.warm_python import WarmProgram, WarmPython

__all__ = [
    "COMMAND",
    "PATIENCE",
    "OnPipes",
    "OnTerminal",
    "Piped",
    "Terminal",
    "on_pipes",
    "on_terminal",
    "start",
    "warm_python",
]

COMMAND: Final = (sys.executable, "-m", "trio_stomp.cli")
PATIENCE: Final = 60.0

# What most commands import. What receivers need is imported by themselves: pyarrow starts threads.
IMPORTS: Final = (
    "trio_stomp",
    "trio_stomp.testing",
    "trio_stomp.cli.command_line",
    # What runs them: each would import it when its loop begins.
    "trio_stomp.runtime._trio",
    "anyio._backends._trio",
    *(
        f"trio_stomp.cli.{name}"
        for name in ("bench", "broker", "context", "doctor", "move", "ping", "request", "send", "subscribe", "top")
    ),
)


@pytest.fixture(scope="session")
def warm_python() -> Generator[WarmPython]:
    """Where commands start from."""
    with WarmPython(imports=IMPORTS) as started:
        yield started


def start(
    python: WarmPython, streams: tuple[int | None, int | None, int | None], *arguments: str
) -> AbstractContextManager[WarmProgram]:
    """Start the command with these standard streams, and with the environment variables of now."""
    environment = {**os.environ, "COLUMNS": "400"}
    return python.run_on(streams, "-m", "trio_stomp.cli", *arguments, folder=Path.cwd(), environment=environment)


class Piped:
    """A command that writes into pipes."""

    def __init__(self, process: WarmProgram, output: BinaryIO, errors: BinaryIO) -> None:
        self.process = process
        self.output = output
        self.errors = errors

    def finish(self) -> tuple[int, bytes, bytes]:
        """Wait for its end; returns its status, what was not yet read of its output, and its errors."""
        read = {self.output: b"", self.errors: b""}
        unfinished = list(read)
        while unfinished:
            ready, _, _ = select.select(unfinished, [], [], PATIENCE)
            assert ready, read
            for each in ready:
                more = os.read(each.fileno(), 65536)
                read[each] += more
                if not more:
                    unfinished.remove(each)
        return self.process.wait(PATIENCE), read[self.output], read[self.errors]


class OnPipes(Protocol):
    """Runs a command that writes into pipes, or into another file; its standard input is a file, or empty."""

    def __call__(
        self, *arguments: str, stdin: int | None = None, stdout: int | None = None
    ) -> AbstractContextManager[Piped]: ...


@pytest.fixture
def on_pipes(warm_python: WarmPython) -> OnPipes:
    """Run a command that writes into pipes."""

    @contextmanager
    def run(*arguments: str, stdin: int | None = None, stdout: int | None = None) -> Generator[Piped]:
        output, writer = os.pipe()
        errors, error_writer = os.pipe()
        with (
            os.fdopen(output, "rb", buffering=0) as reader,
            os.fdopen(errors, "rb", buffering=0) as error_reader,
            ExitStack() as started,
        ):
            with Path(os.devnull).open("rb") as nothing, ExitStack() as ours:
                ours.callback(os.close, writer)
                ours.callback(os.close, error_writer)
                streams = (
                    nothing.fileno() if stdin is None else stdin,
                    writer if stdout is None else stdout,
                    error_writer,
                )
                process = started.enter_context(start(warm_python, streams, *arguments))
            yield Piped(process, reader, error_reader)

    return run


class Terminal:
    """A terminal with a command on it."""

    def __init__(self, python: WarmPython, *arguments: str) -> None:
        self._master, theirs = pty.openpty()
        self._stack = ExitStack()
        self.process = self._stack.enter_context(start(python, (theirs, theirs, theirs), *arguments))
        os.close(theirs)
        self.shown = b""

    def wait_for(self, text: bytes, *, times: int = 1) -> None:
        while self.shown.count(text) < times:
            assert self._read(), self.shown

    def wait_for_prompt(self) -> None:
        self.wait_for(b"Passcode of ann")
        assert not self.echoes

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def until_it_answers(self, action: Callable[[], object]) -> None:
        """Do something that makes the command write, again after a while.

        A signal that comes in the moment before Python reads from a terminal waits for the next one.
        """
        action()
        for _ in range(int(PATIENCE)):
            if select.select([self._master], [], [], 1.0)[0]:
                return
            action()

    def finish(self) -> int:
        """The exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        """Read what comes; False when the command has left the terminal."""
        assert select.select([self._master], [], [], PATIENCE)[0], self.shown
        try:
            self.shown += os.read(self._master, 65536)
        except OSError:
            # The end of a terminal whose last user has gone is an error on Linux.
            return False
        return True

    def close(self) -> None:
        self._stack.close()
        os.close(self._master)


class OnTerminal(Protocol):
    """Runs a command on a terminal."""

    def __call__(self, *arguments: str) -> Terminal: ...


@pytest.fixture
def on_terminal(warm_python: WarmPython) -> Generator[OnTerminal]:
    """Run a command on a terminal."""
    opened: list[Terminal] = []

    def run(*arguments: str) -> Terminal:
        opened.append(Terminal(warm_python, *arguments))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()
