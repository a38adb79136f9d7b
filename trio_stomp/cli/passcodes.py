"""Where the passcode comes from: a prompt, a file, the URL or the environment; never an argument of its own.

Arguments are seen by everybody who lists the processes of a machine, and are kept by the shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode

__all__ = ["VARIABLE", "PasscodeSources"]

VARIABLE: Final = "TRIO_STOMP_PASSCODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasscodeSources:
    """What may name the passcode, in this order.

    Attributes:
        asked_for: The user wants to be asked.
        file: A file whose first line it is.
        urls: The URLs of the brokers, which may hold it.
        environment: The variables of the process.
        login: The user it would be for, where one is named.
        prompt: Asks for it, where there is somebody to ask.
    """

    asked_for: bool
    file: Path | None
    urls: Sequence[str]
    environment: Mapping[str, str]
    login: str | None
    prompt: Callable[[str], str] | None

    def find(self) -> str | None:
        """The passcode to give to `connect`; None where the URL holds it, or where there is none.

        Raises:
            CommandFailed: The file cannot be read, or nobody can be asked.
        """
        if self.asked_for:
            return self._ask(required=True)
        if self.file is not None:
            return _first_line(self.file)
        if any(_holds_passcode(url) for url in self.urls):
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
        # str() of the second would show octets of the file.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandFailed(f"the passcode file {file} cannot be read: {why}", ExitCode.USAGE) from None
    return lines[0] if lines else ""


def _holds_passcode(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        # connect() says what is wrong with it, without showing it.
        return False


def _login_of(url: str) -> str | None:
    try:
        return urlsplit(url).username
    except ValueError:
        return None
