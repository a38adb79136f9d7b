"""Where the passcode comes from: a prompt, a file, the URL or the environment.

There is no option for it: the arguments of a process are visible to other users, and shells record them.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from trio_stomp.cli.running import InvalidUsage, terminable

__all__ = ["VARIABLE", "find_passcode", "holds_passcode", "lines_of", "prompt"]

VARIABLE: Final = "TRIO_STOMP_PASSCODE"


def find_passcode(
    *,
    asked_for: bool,
    file: Path | None,
    urls: Sequence[str],
    environment: Mapping[str, str],
    login: str | None,
    ask: Callable[[str], str] | None,
) -> str | None:
    """Return the passcode to pass to `connect`; None if a URL contains it, or there is none.

    Without one elsewhere, a user who is named is asked for it, if there is a terminal: `ask` is None without.
    """
    logins = [each for each in (login, *(parts.username for parts in map(_parts, urls))) if each is not None]
    if asked_for:
        if ask is None:
            raise InvalidUsage(f"--ask-passcode needs a terminal; use --passcode-file or the variable {VARIABLE}")
    elif file is not None:
        first, *_ = lines_of(file, "the passcode file ")
        if not first.strip():
            raise InvalidUsage(f"the passcode file {file}: its first line is empty")
        return first
    elif any(map(holds_passcode, urls)):
        return None
    elif environment.get(VARIABLE):
        return environment[VARIABLE]
    elif ask is None or not logins:
        return None
    user = next(filter(None, logins), None)
    return ask("Passcode" if user is None else f"Passcode of {user}")


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


def holds_passcode(url: str) -> bool:
    """Return whether a URL contains a passcode."""
    return _parts(url).password is not None


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
        raise InvalidUsage("no passcode was entered") from None
