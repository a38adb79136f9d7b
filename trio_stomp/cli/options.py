"""Options that commands share: which broker to connect to, as which user, and how; and some others."""

from __future__ import annotations

import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Final, get_args

import click
from click.core import ParameterSource

from trio_stomp.brokers import ProfileName, profile_named
from trio_stomp.cli.commands import flag, gathered, option, options, parameters_of
from trio_stomp.cli.passcodes import holds_passcode, lines_of, login_of, prompter
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, run
from trio_stomp.cli.saved_contexts import ContextStore, is_array
from trio_stomp.client import Client, ConnectOptions, connect, refuse_misspelled
from trio_stomp.protocol import AckMode, Version

__all__ = [
    "ACK_MODE",
    "COUNT",
    "DEFAULT_URL",
    "FILE",
    "HEADERS",
    "INPUT_FILE",
    "INTERVAL",
    "PAIRS",
    "RATE",
    "SECONDS",
    "VARIABLE",
    "Connecting",
    "ConnectionOptions",
    "Link",
    "LinkOptions",
    "Pairs",
    "Until",
    "Whole",
    "content_type_option",
    "header_option",
    "in_flight_option",
    "json_option",
    "link_of",
    "management_option",
    "receipt_option",
    "text_option",
    "tls_context",
]

DEFAULT_URL: Final = "stomp://localhost:61613"

VARIABLE: Final = "TRIO_STOMP_PASSCODE"

_TLS_SCHEMES: Final = ("stomps:", "wss:")

# --- the values of options --------------------------------------------------------------------------------------------

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Whole(click.IntRange):
    """A whole number within limits."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"expected a whole number, got {value!r}", param, ctx)
        return int(super().convert(number, param, ctx))


class _Number(click.FloatRange):
    """A finite number within limits; click also accepts ``nan`` and ``inf``."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = nan
        if not isfinite(number):
            self.fail(f"expected a number, got {value!r}", param, ctx)
        return float(super().convert(number, param, ctx))


class _Duration(_Number):
    """Seconds, or a number with its unit."""

    name = "duration"

    def get_metavar(self, *_of: object, **_named: object) -> str:
        return "SECONDS"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return super().convert(value, param, ctx)
        number = value.strip().rstrip("msh")
        unit = value.strip()[len(number) :]
        try:
            seconds = float(number) * _UNITS[unit or "s"]
        except (ValueError, KeyError):
            self.fail(f"expected seconds, or a time such as 500ms, 5s, 2m or 1h, got {value!r}", param, ctx)
        return super().convert(seconds, param, ctx)


class _Urls(click.types.StringParamType):
    """Text, of which a variable may hold several: separated by white space or commas, as the library reads it."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return rv.replace(",", " ").split()


SECONDS: Final = _Duration(min=0, min_open=True)
# Zero means none.
INTERVAL: Final = _Duration(min=0)


def header_of(value: str | tuple[str, str]) -> tuple[str, str]:
    """Read a header, ``name:value``; surrounding spaces are dropped."""
    return _split(value, ":", "NAME:VALUE")


def match_of(value: str | tuple[str, str]) -> tuple[str, str]:
    """Read a condition on a header, ``name=value``."""
    return _split(value, "=", "NAME=VALUE")


def heart_beat_of(value: str | tuple[float, float]) -> tuple[float, float]:
    """Read heart-beats in seconds, ``send,receive``, or one number for both."""
    try:
        # A saved context may hold anything.
        send, receive = (INTERVAL(each) for each in (value if isinstance(value, tuple) else _pair(value)))
    except (ValueError, click.BadParameter):
        msg = f"expected two numbers of seconds, such as 10,10 (0 turns one off), or one for both, got {value!r}"
        raise click.BadParameter(msg) from None
    return send, receive


def _pair(text: str) -> list[str]:
    parts = text.split(",")
    return parts * 2 if len(parts) == 1 else parts


def _split(value: str | tuple[str, str], separator: str, expected: str) -> tuple[str, str]:
    # Saved contexts have pairs.
    if isinstance(value, tuple):
        name, text = value
        return name, text
    name, found, rest = value.partition(separator)
    if not found or not name.strip():
        other = "=" if separator == ":" else ":"
        name, found, rest = value.partition(other)
        hint = f"; did you mean {name + separator + rest!r}?" if found and name.strip() else ""
        raise click.BadParameter(f"expected {expected}, got {value!r}{hint}")
    return name.strip(), rest.strip()


RATE: Final = _Number(min=0, min_open=True)
COUNT: Final = Whole(1)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
# A file to read, or - for standard input.
INPUT_FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
# For options that may be repeated: the type of their values, and their attributes.
Pairs = tuple[tuple[str, str], ...]
HEADERS: Final[Mapping[str, object]] = {"type": header_of, "multiple": True, "metavar": "NAME:VALUE"}
PAIRS: Final[Mapping[str, object]] = {"type": match_of, "multiple": True, "metavar": "NAME=VALUE"}
# The default first.
ACK_MODE: Final = click.Choice([each.value for each in reversed(AckMode)])

# --- how to connect ---------------------------------------------------------------------------------------------------


# Without a repr, which would show the passcode.
@dataclass(frozen=True, slots=True, repr=False)
class Link:
    """How to connect: the brokers, tried in order, and the arguments of `connect`. Files are read already."""

    urls: tuple[str, ...]
    options: ConnectOptions

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """Connect, for the length of an ``async with`` block."""
        return connect(self.urls, **self.options)


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to connect."""

    url: tuple[str, ...] = option(
        (DEFAULT_URL,),
        "Connection",
        "The broker: stomp://host:port/vhost, stomps:// for TLS, ws:// or wss://. Repeat it for failover.",
        "-u",
        type=_Urls(),
        multiple=True,
        show_default=DEFAULT_URL,
        envvar="TRIO_STOMP_URL",
        metavar="URL",
    )
    login: str | None = option(None, "Connection", "The user.", "-l", envvar="TRIO_STOMP_LOGIN", metavar="USER")
    passcode_file: Path | None = option(
        None,
        "Connection",
        f"A file with the passcode in its first line. Or set the variable {VARIABLE}.",
        type=FILE,
        envvar="TRIO_STOMP_PASSCODE_FILE",
    )
    ask_passcode: bool = flag("Connection", "Prompt for the passcode.", "-p")
    vhost: str | None = option(
        None, "Connection", "The virtual host, if the broker has them.", envvar="TRIO_STOMP_VHOST", metavar="NAME"
    )
    ca: Path | None = option(
        None, "TLS", "Trust only the CAs in this file (PEM).", type=FILE, envvar="TRIO_STOMP_TLS_CA_FILE"
    )
    cert: Path | None = option(None, "TLS", "The client certificate (PEM).", type=FILE)
    key: Path | None = option(None, "TLS", "The key of --cert, if in another file (PEM).", type=FILE)
    heart_beat: tuple[float, float] | None = option(
        None,
        "Protocol",
        "Heart-beat intervals in seconds, to offer and to request; 0 turns one off.  [default: 10,10]",
        type=heart_beat_of,
        envvar="TRIO_STOMP_HEART_BEAT",
        metavar="SEND,RECEIVE",
    )
    stomp_version: tuple[str, ...] = option(
        (),
        "Protocol",
        "The STOMP version to offer; draft, the early draft of 1.0, only alone.  [default: 1.0, 1.1 and 1.2]",
        type=click.Choice([*(each.value for each in Version), "draft"]),
        multiple=True,
    )
    profile: str | None = option(
        None,
        "Protocol",
        "The kind of broker, if its server header does not identify it.",
        type=click.Choice(get_args(ProfileName)),
        envvar="TRIO_STOMP_PROFILE",
    )
    connect_timeout: float = option(
        10.0,
        "Connection",
        "The time limit for connecting, for each broker.",
        type=SECONDS,
        envvar="TRIO_STOMP_CONNECT_TIMEOUT",
    )
    connect_header: Pairs = option((), "Protocol", "An additional header of CONNECT, such as client-id:me.", **HEADERS)
    proxy: str | None = option(
        None,
        "Connection",
        "Connect through socks5://host:port, or http://host:port for HTTP CONNECT (extra proxy).",
        envvar="TRIO_STOMP_PROXY",
        metavar="URL",
    )
    websocket_message_bytes: int | None = option(
        None,
        "Protocol",
        "Split longer frames into several WebSocket messages.  [default for Spring: 8192]",
        type=Whole(4),
        metavar="N",
    )
    reconnect: bool = flag("Connection", "Reconnect when the connection is lost.", envvar="TRIO_STOMP_RECONNECT")

    def passcode(
        self, environment: Mapping[str, str] = os.environ, *, ask: Callable[[str], str] | None = None
    ) -> str | None:
        """Return the passcode; None if a URL contains it, or there is none.

        There is no option for it: the arguments of a process are visible to other users, and shells record them.

        Args:
            environment: The variables.
            ask: Prompts for it: if --ask-passcode was passed, or if a user is named and no passcode is found elsewhere.
                None if there is no terminal.

        Raises:
            CommandFailed: The file has no passcode, or --ask-passcode was passed without a terminal.
        """
        users = [each for each in (self.login, *map(login_of, self.url)) if each is not None]
        if self.ask_passcode:
            if ask is None:
                raise InvalidUsage(f"--ask-passcode needs a terminal; use --passcode-file or the variable {VARIABLE}")
        elif self.passcode_file is not None:
            first, *_ = lines_of(self.passcode_file, "the passcode file ")
            if not first.strip():
                raise InvalidUsage(f"the passcode file {self.passcode_file}: its first line is empty")
            return first
        elif any(map(holds_passcode, self.url)):
            return None
        elif environment.get(VARIABLE):
            return environment[VARIABLE]
        elif ask is None or not users:
            return None
        user = next(filter(None, users), None)
        return ask("Passcode" if user is None else f"Passcode of {user}")

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context for these options; None means Python's default, or no TLS."""
        has_files = self.ca is not None or self.cert is not None
        if has_files and not all(url.lower().startswith(_TLS_SCHEMES) for url in self.url):
            raise InvalidUsage("--ca and --cert require TLS in every URL: use stomps:// or wss://")
        return tls_context(ssl.Purpose.SERVER_AUTH, self.ca, self.cert, self.key)

    def connect_options(self, passcode: str | None) -> ConnectOptions:
        """Return the arguments of `connect`.

        Raises:
            CommandFailed: A file for TLS cannot be used.
        """
        options = ConnectOptions(
            login=self.login,
            passcode=passcode,
            vhost=self.vhost,
            headers=self.connect_header,
            profile=None if self.profile is None else profile_named(self.profile),
            tls=self.tls() or False,
            proxy=self.proxy,
            websocket_message_bytes=self.websocket_message_bytes,
            connect_timeout=self.connect_timeout,
            reconnect=self.reconnect,
        )
        if self.heart_beat is not None:
            options["heart_beat"] = self.heart_beat
        if self.stomp_version:
            options["versions"] = self.stomp_version
        return options


def _names_of_contexts(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    # Without usable contexts there is nothing to complete; a command says why.
    with suppress(CommandFailed):
        return [name for name in ContextStore.of_user().all() if name.startswith(begun)]
    return []


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """What `link_of` reads: how to connect, and a saved context."""

    saved_context: str | None = option(
        None,
        "Connection",
        "Connect as trio-stomp context add has saved it; options that are given come first.",
        "--context",
        "-c",
        envvar="TRIO_STOMP_CONTEXT",
        metavar="NAME",
        shell_complete=_names_of_contexts,
    )
    connection: ConnectionOptions = options(ConnectionOptions)


# What a context may set: how to connect, and never what a command does, even if a user has edited its file.
_SAVED: Final = frozenset({"management", *(each.name for each in parameters_of(ConnectionOptions))})
# Options that do not apply to another user or broker: secrets, and headers, which may be tokens.
_OF_THE_USER: Final = frozenset({"passcode_file", "cert", "key", "connect_header"})


def link_of(context: click.Context) -> Link:
    """Return how a command connects. This may prompt for the passcode, so call it before `run`.

    The options of a saved context replace those of the command, except for those on the command line.

    Raises:
        CommandFailed: A file or the passcode cannot be read, or there is no such context.
        LocalProtocolError: The name of an environment variable is misspelled.
    """
    own = [str(each.envvar) for each in context.command.params if each.envvar is not None]
    refuse_misspelled(os.environ, "TRIO_STOMP_", own)
    store = ContextStore.of_user()
    name: str | None = context.params["saved_context"] or None
    # A URL without a context means that broker alone: the context in use is ignored.
    if name is None and context.get_parameter_source("url") is ParameterSource.DEFAULT:
        name = store.in_use
    passcode = None
    if name is not None:
        written = {each for each in context.params if context.get_parameter_source(each) is ParameterSource.COMMANDLINE}
        # A passcode belongs to the broker and the user that it was saved with.
        is_other = not written.isdisjoint({"url", "login"})
        kept = written | _OF_THE_USER if is_other else written
        if "url" in written:
            # It shows the queues of the broker that it was saved with.
            kept = kept | {"management"}
        saved = store.find(name).options
        replaced = _SAVED & (saved.keys() - kept)
        for parameter in context.command.params:
            key = parameter.name or ""
            if key in replaced:
                context.params[key] = _restored(context, parameter, saved[key], name)
        if not (is_other or context.params["ask_passcode"] or "passcode_file" in written):
            passcode = store.passcode_of(name)
    given = gathered(ConnectionOptions, context)
    if not given.url:
        raise InvalidUsage("the variable TRIO_STOMP_URL names no broker; for example TRIO_STOMP_URL=" + DEFAULT_URL)
    if passcode is None:
        passcode = given.passcode(ask=prompter())
    return Link(given.url, given.connect_options(passcode))


def _restored(context: click.Context, parameter: click.Parameter, value: object, name: str) -> object:
    """The value of a parameter from that of a saved option."""
    # click would take each letter of a text for a value.
    is_many = isinstance(parameter, click.Option) and parameter.multiple
    if (is_array(value) and value) or not is_many:
        with suppress(click.BadParameter, AttributeError, OverflowError, TypeError, ValueError):
            return parameter.type_cast_value(context, _tuples(value))
    # Without the value, which may be a secret.
    what = f"context {name!r} has an invalid {(parameter.name or '').replace('_', '-')}"
    raise InvalidUsage(f"{what}; add the context again")


def _tuples(value: object) -> object:
    """Return a value from JSON as click represents it."""
    return tuple(map(_tuples, value)) if is_array(value) else value


class Connecting(ABC):
    """A command that connects to a broker, with the options of `LinkOptions`."""

    def check(self) -> None:  # noqa: B027  # most commands have nothing to refuse
        """Refuse contradictory arguments."""

    def start(self, context: click.Context) -> None:
        """Run the command. This may prompt for the passcode."""
        self.check()
        link = link_of(context)
        # Once more, as a saved context may have replaced some of the options.
        run(partial(gathered(type(self), context).run, link))

    @abstractmethod
    async def run(self, link: Link, stop: Stop) -> ExitCode | None:
        """Do what the command is for, and return the exit status; None means OK."""


def tls_context(purpose: ssl.Purpose, ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return a TLS context with these files; None without any."""
    if ca is None and cert is None:
        if key is not None:
            raise InvalidUsage("--key requires --cert")
        return None
    try:
        context = ssl.create_default_context(purpose, cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(str(file) for file in (ca, cert, key) if file is not None)
        raise InvalidUsage(f"cannot load the TLS files ({files}): {error}; expected PEM") from error
    return context


# --- options that several commands have -------------------------------------------------------------------------------


def management_option() -> str | None:
    """The option ``--management``."""
    return option(
        None,
        "Connection",
        "The management interface, such as http://localhost:15672 (RabbitMQ) or http://localhost:8161 (ActiveMQ).",
        envvar="TRIO_STOMP_MANAGEMENT",
        metavar="URL",
    )


@dataclass(frozen=True, kw_only=True)
class Until:
    """When a command that receives messages stops."""

    count: int | None = option(None, "Selection", "Stop after N messages.", "-n", type=COUNT, metavar="N")
    timeout: float | None = option(None, "Selection", "Stop after this time without a message.", "-w", type=SECONDS)


def in_flight_option(heading: str) -> int:
    """The option ``--in-flight``, for a publisher."""
    return option(256, heading, "How many messages may await confirmation.", type=COUNT)


def receipt_option(heading: str, help_text: str) -> bool:
    """The options ``--receipt`` and ``--no-receipt``."""
    return option(True, heading, help_text, "--receipt/--no-receipt")  # noqa: FBT003  # it is a default


def header_option(heading: str, help_text: str) -> Pairs:
    """The option ``--header``, for the headers of messages."""
    return option((), heading, help_text, "-H", **HEADERS)


def content_type_option(heading: str, help_text: str) -> str | None:
    """The option ``--content-type``, for the bodies of messages."""
    return option(None, heading, help_text, "-t", metavar="TYPE")


def json_option(help_text: str) -> bool:
    """The option ``--json`` for output."""
    return flag("Output", help_text, "--json", "-j")


def text_option() -> bool:
    """The option ``--text``, for bodies to send."""
    return flag("Input", "Send the input as text instead of bytes; JMS brokers distinguish them.")
