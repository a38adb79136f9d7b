"""The real command in a process of its own, on a terminal too."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Callable, Generator
from typing import Final, Protocol

import pytest

__all__ = ["COMMAND", "PATIENCE", "OnTerminal", "Terminal", "on_terminal"]

COMMAND: Final = (sys.executable, "-m", "trio_stomp.cli")
PATIENCE: Final = 60.0

# Makes the terminal the one that prompts read from, and becomes the command.
AT_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "trio_stomp.cli", *sys.argv[1:]])
"""


class Terminal:
    """A terminal with a command on it."""

    def __init__(self, *arguments: str) -> None:
        self._master, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "COLUMNS": "400"},
            start_new_session=True,
        )
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
        self.process.kill()
        self.process.wait()
        os.close(self._master)


class OnTerminal(Protocol):
    """Runs a command on a terminal."""

    def __call__(self, *arguments: str) -> Terminal: ...


@pytest.fixture
def on_terminal() -> Generator[OnTerminal]:
    """Run commands on terminals."""
    opened: list[Terminal] = []

    def run(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()
