"""Connect options from environment variables."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Collection, Mapping
from typing import Final, Required, TypedDict, TypeVar, cast

from trio_stomp.brokers import Profile, profile_named
from trio_stomp.errors import LocalProtocolError
from trio_stomp.session import Settings

__all__ = ["EnvironmentOptions", "options_from_environment", "refuse_misspelled"]

T = TypeVar("T")


class EnvironmentOptions(TypedDict, total=False):
    """What `options_from_environment` returns: arguments for `connect`, `open` and their blocking counterparts."""

    urls: Required[list[str]]
    login: str
    passcode: str
    vhost: str
    tls: ssl.SSLContext
    heart_beat: tuple[float, float]
    timeout: float
    connect_timeout: float
    disconnect_timeout: float
    reconnect: bool
    profile: Profile
    proxy: str


def options_from_environment(
    environment: Mapping[str, str] | None = None, *, prefix: str = "TRIO_STOMP_"
) -> EnvironmentOptions:
    """Read connect options from environment variables: ``connect(**options_from_environment())``.

    The variables are, each after the prefix: ``URL`` (required; several are separated by commas or spaces), ``LOGIN``,
    ``PASSCODE`` or ``PASSCODE_FILE`` (a file with the passcode in its first line), ``VHOST``, ``TLS_CA_FILE`` (the
    certificates to trust, for ``stomps://``), ``HEART_BEAT`` (``10`` or ``10,20``), ``TIMEOUT``, ``CONNECT_TIMEOUT``,
    ``DISCONNECT_TIMEOUT``, ``RECONNECT`` (``true`` or ``false``), ``PROFILE`` and ``PROXY``. Times are in seconds. An
    empty variable counts as not set. Files are read now, and not again.

    Args:
        environment: The variables. Default: those of the process.
        prefix: What their names begin with.

    Returns:
        The options that are set. More options go beside them: ``connect(**options_from_environment(), hooks=...)``.

    Raises:
        LocalProtocolError: A variable is missing, invalid or misspelled, or a file cannot be read. The message names
            the variable, and shows no passcode.
    """
    environment = os.environ if environment is None else environment
    read = _Reader(environment, prefix)
    found = {option: read.value(name, convert) for name, (option, convert) in _VARIABLES.items()}
    urls = read.value("URL", _urls)
    if urls is None:
        raise LocalProtocolError(f"{prefix}URL is not set; for example {prefix}URL=stomp://localhost:61613")
    given, in_file = read.value("PASSCODE", str), read.passcode_file()
    if given is not None and in_file is not None:
        raise LocalProtocolError(f"{prefix}PASSCODE and {prefix}PASSCODE_FILE are both set; unset one")
    found["passcode"] = given if in_file is None else in_file
    refuse_misspelled(environment, prefix)
    options = {option: value for option, value in found.items() if value is not None}
    try:
        Settings.of(urls, options)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"the environment variables {prefix}... are invalid: {error}") from error
    # Each function of the table returns the type of its option.
    return cast("EnvironmentOptions", {"urls": urls, **options})


class _Reader:
    """Reads variables."""

    def __init__(self, environment: Mapping[str, str], prefix: str) -> None:
        self._environment = environment
        self._prefix = prefix

    def value(self, name: str, convert: Callable[[str], T]) -> T | None:
        """Return the value of a variable; None if it is not set.

        Raises:
            LocalProtocolError: It cannot be converted.
        """
        full = self._prefix + name
        text = self._environment.get(full, "")
        if not text:
            return None
        try:
            return convert(text)
        except (OSError, ValueError, LocalProtocolError) as error:
            raise LocalProtocolError(f"the environment variable {full}={text!r} is invalid: {error}") from error

    def passcode_file(self) -> str | None:
        """Return the first line of the file that a variable names; None if it is not set.

        Raises:
            LocalProtocolError: It cannot be read. Neither the variable nor the file is shown: either may hold the
                passcode.
        """
        path = self.value("PASSCODE_FILE", str)
        if path is None:
            return None
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib is slow to import, and few need it
                first, _, _ = file.read().partition("\n")
        except OSError as error:
            reason = error.strerror or "it cannot be read"
        except ValueError:
            reason = "it is not text in UTF-8"
        else:
            if first.strip():
                return first
            reason = "its first line is empty"
        # Without the cause, which holds the text.
        raise LocalProtocolError(
            f"the file in the environment variable {self._prefix}PASSCODE_FILE: {reason}"
        ) from None


def refuse_misspelled(environment: Mapping[str, str], prefix: str, others: Collection[str] = ()) -> None:
    """Check the variables with the prefix that are neither read here nor among the others; programs may have their own.

    Raises:
        LocalProtocolError: The name of one is close to one of those.
    """
    known = {*(prefix + name for name in _NAMES), *others}
    for name in sorted(environment):
        if name.startswith(prefix) and name not in known:
            import difflib  # noqa: PLC0415  # for an error alone

            near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
            if near:
                raise LocalProtocolError(f"there is no environment variable {name}; did you mean {near[0]}?")


def _urls(text: str) -> list[str] | None:
    # The command separates them by white space.
    return text.replace(",", " ").split() or None


def _heart_beat(text: str) -> tuple[float, float]:
    sent, _, received = text.partition(",")
    return float(sent), float(received or sent)


def _flag(text: str) -> bool:
    match text.strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError("expected true or false")


def _context(path: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


# The end of a variable's name: the option that it sets, and what makes its value of the text.
_VARIABLES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "LOGIN": ("login", str),
    "VHOST": ("vhost", str),
    "TLS_CA_FILE": ("tls", _context),
    "HEART_BEAT": ("heart_beat", _heart_beat),
    "TIMEOUT": ("timeout", float),
    "CONNECT_TIMEOUT": ("connect_timeout", float),
    "DISCONNECT_TIMEOUT": ("disconnect_timeout", float),
    "RECONNECT": ("reconnect", _flag),
    "PROFILE": ("profile", profile_named),
    "PROXY": ("proxy", str),
}

_NAMES: Final = ("URL", "PASSCODE", "PASSCODE_FILE", *_VARIABLES)
