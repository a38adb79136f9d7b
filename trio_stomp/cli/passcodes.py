"""Where the passcode comes from: a prompt, a file, the URL or the environment.

There is no option for it: the arguments of a process are visible to other users, and shells record them.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_stomp.cli.running import CommandFailed, ExitCode, terminable

__all__ = ["VARIABLE", "PasscodeSources", "holds_passcode", "prompt"]

VARIABLE: Final = "TRIO_STOMP_PASSCODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasscodeSources:
    """The sources of the passcode, in this order.

    Attributes:
        asked_for: Prompt for it.
        file: A file with the passcode in its first line.
        urls: The URLs of the brokers, which may contain it.
        environment: The environment variables.
        login: The user, if one is given.
        prompt: Prompts for it; None without a terminal.
    """

    asked_for: bool
    file: Path | None
    urls: Sequence[str]
    environment: Mapping[str, str]
    login: str | None
    prompt: Callable[[str], str] | None

    def find(self) -> str | None:
        """Return the passcode to pass to `connect`; None if the URL contains it, or there is none.

        Raises:
            CommandFailed: The file cannot be read, or a prompt needs a terminal.
        """
        if self.asked_for:
            return self._ask(required=True)
        if self.file is not None:
            return _first_line(self.file)
        if any(holds_passcode(url) for url in self.urls):
            return None
        given = self.environment.get(VARIABLE)
        if given is not None:
            return given
        return self._ask(required=False) if self._names_somebody() else None

    def _names_somebody(self) -> bool:
        return self.login is not None or any(_login_of(url) is not None for url in self.urls)

    def _ask(self, *, required: bool) -> str | None:
        if self.prompt is None:
            if required:
                why = f"--ask-passcode needs a terminal; use --passcode-file or the variable {VARIABLE}"
                raise CommandFailed(why, ExitCode.USAGE)
            return None
        login = self.login or next(filter(None, map(_login_of, self.urls)), None)
        return self.prompt("Passcode" if login is None else f"Passcode of {login}")


def _first_line(file: Path) -> str:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        # str() of the second would show bytes of the file.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandFailed(f"the passcode file {file} cannot be read: {why}", ExitCode.USAGE) from None
    return lines[0] if lines else ""


def holds_passcode(url: str) -> bool:
    """Return whether a URL contains a passcode."""
    try:
        return urlsplit(url).password is not None
    except ValueError:
        # connect() will report the fault, without showing the URL.
        return False


def _login_of(url: str) -> str | None:
    try:
        return urlsplit(url).username
    except ValueError:
        return None


def prompt(text: str) -> str:
    """Ask for a passcode, at the terminal. Ctrl-C and SIGTERM restore it.

    Call this before trio runs, which would handle Ctrl-C later.

    Raises:
        CommandFailed: The user pressed Ctrl-D.
        KeyboardInterrupt: The user pressed Ctrl-C.
        SystemExit: The process received SIGTERM.
    """
    try:
        with terminable():
            return getpass.getpass(f"{text}: ", sys.stderr)
    except EOFError:
        raise CommandFailed("no passcode was entered", ExitCode.USAGE) from None
