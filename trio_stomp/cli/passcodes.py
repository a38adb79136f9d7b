"""Passcodes: in a file, in a URL, or asked for."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from trio_stomp.cli.running import InvalidUsage, terminable
from trio_stomp.cli.terminal import can_ask

__all__ = ["holds_passcode", "lines_of", "login_of", "prompter"]


def lines_of(file: Path, kind: str = "") -> list[str]:
    """Return the lines of a file that may hold passcodes."""
    try:
        # Not splitlines(), which takes other characters for ends of lines, too.
        return file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        # str() of the second would show bytes of the file.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidUsage(f"{kind}{file} cannot be read: {why}") from None


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        # connect() will report the fault, without showing the URL.
        return urlsplit("")


def login_of(url: str) -> str | None:
    """Return the user that a URL names."""
    return _parts(url).username


def holds_passcode(url: str) -> bool:
    """Return whether a URL contains a passcode."""
    return _parts(url).password is not None


def prompter() -> Callable[[str], str] | None:
    """Return the function that asks the user for a passcode; None if there is no terminal."""
    return _prompt if can_ask() else None


def _prompt(text: str) -> str:
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
        raise InvalidUsage("no passcode was entered") from None
