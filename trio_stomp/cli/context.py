"""``trio-stomp context``: brokers saved by name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from trio_stomp.cli.commands import Command, CommandGroup, argument, option, options, verbose_option
from trio_stomp.cli.options import ConnectionOptions, json_option, management_option
from trio_stomp.cli.passcodes import holds_passcode, prompter
from trio_stomp.cli.running import InvalidUsage
from trio_stomp.cli.saved_contexts import ContextStore, PasscodePlace, is_array, keyring
from trio_stomp.client import ConnectOptions
from trio_stomp.printable import one_line
from trio_stomp.protocol import is_secret_header
from trio_stomp.session import Settings

__all__ = ["context"]


def _is_given(context: click.Context, name: str) -> bool:
    """Whether an option is on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _given(context: click.Context) -> dict[str, object]:
    """Return the options on the command line, as JSON values."""
    found: dict[str, object] = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        value: object = context.params.get(name)
        # --verbose has no value.
        is_saved = isinstance(parameter, click.Option) and name not in _OWN and value is not None
        if is_saved and _is_given(context, name):
            # The command may run in another folder later.
            found[name] = str(value.absolute()) if isinstance(value, Path) else value
    return found


_HIDDEN: Final = "***"
# In a URL, valid or not.
_PASSCODE: Final = re.compile(r"(://[^:@/?]*):.*@")
# That of a WebSocket may hold a token.
_QUERY: Final = re.compile(r"(://[^?]*)\?.*")
# The name and the value of a header.
_PAIR: Final = 2

# Options of `add` itself.
_OWN: Final = frozenset({"ask_passcode", "passcode_store"})


def _shown(option: str, value: object) -> str:
    """Format the value of an option for display. Secrets in headers and URLs are not shown."""
    if is_array(value):
        if option == "connect_header" and len(value) == _PAIR and not is_array(value[0]):
            name, text = str(value[0]), str(value[1])
            return one_line(f"{name}:{_HIDDEN if is_secret_header(name, of_connect=True) else text}")
        return " ".join(_shown(option, each) for each in value)
    return one_line(_QUERY.sub(rf"\1?{_HIDDEN}", _PASSCODE.sub(rf"\1:{_HIDDEN}@", str(value))))


_PLACE: Final = click.Choice([PasscodePlace.KEYRING.value, PasscodePlace.FILE.value])


@dataclass(frozen=True, kw_only=True)
class Add:
    """Save the options that follow as NAME, in place of a context of that name.

    With --ask-passcode, it prompts for the passcode and saves that, too.
    """

    name: str = argument("", required=True)
    passcode_store: str | None = option(
        None,
        "Connection",
        "Where to save the passcode.  [default: the keyring, if the package keyring finds one]",
        type=_PLACE,
    )
    connection: ConnectionOptions = options(ConnectionOptions)
    management: str | None = management_option()

    def start(self, context: click.Context) -> None:
        """Save them."""
        given = self.connection
        if _is_given(context, "url") and any(map(holds_passcode, given.url)):
            why = "the URL contains a passcode, which would be saved readably; leave it out, and add --ask-passcode"
            raise InvalidUsage(why)
        # Refuses what cannot be connected to.
        Settings.of(given.url, ConnectOptions(proxy=given.proxy))
        passcode = given.passcode(ask=prompter()) if given.ask_passcode else None
        default = PasscodePlace.FILE if keyring() is None else PasscodePlace.KEYRING
        place = PasscodePlace(self.passcode_store or default)
        ContextStore.of_user().add(self.name, _given(context), passcode, place)


@dataclass(frozen=True, kw_only=True)
class List:
    """List the saved contexts; a star marks the one in use."""

    as_json: bool = json_option("Print a line of JSON for each.")

    def start(self, _context: click.Context) -> None:
        """Print them."""
        store = ContextStore.of_user()
        for name, saved in store.all().items():
            in_use = name == store.in_use
            if self.as_json:
                shown = {each: _shown(each, value) for each, value in saved.options.items()}
                click.echo(json.dumps({"name": name, "in_use": in_use, "options": shown, "passcode": saved.passcode}))
            else:
                click.echo(f"{'*' if in_use else ' '} {name:<15} {_shown('url', saved.options.get('url', []))}")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Show the options of NAME. The passcode is never shown."""

    name: str = argument("", required=True)

    def start(self, _context: click.Context) -> None:
        """Print them."""
        store = ContextStore.of_user()
        saved = store.find(self.name)
        places = {
            PasscodePlace.NOWHERE: "not saved",
            PasscodePlace.KEYRING: "saved in the keyring",
            PasscodePlace.FILE: f"saved in {store.passcode_file}",
        }
        shown = {each.replace("_", "-"): _shown(each, value) for each, value in saved.options.items()}
        for each, value in {"name": self.name, **shown, "passcode": places[saved.passcode]}.items():
            click.echo(f"{each}: {value}")


@dataclass(frozen=True, kw_only=True)
class Use:
    """Use NAME for commands without --context and --url; without NAME, use none.

    The variables TRIO_STOMP_CONTEXT and TRIO_STOMP_URL come first, too.
    """

    name: str | None = argument(None)

    def start(self, _context: click.Context) -> None:
        """Choose it."""
        ContextStore.of_user().use(self.name)


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove NAME, and its saved passcode."""

    name: str = argument("", required=True)

    def start(self, _context: click.Context) -> None:
        """Remove it."""
        ContextStore.of_user().remove(self.name)


_COMMANDS: Final = [
    Command(
        Add,
        "trio-stomp context add prod --url stomps://broker.example.org:61614 --login ann --ask-passcode",
        "trio-stomp context add local --url stomp://localhost:61613",
        short_help="Save a broker and how to connect to it.",
    ),
    Command(List, "trio-stomp context list", short_help="List the saved contexts."),
    Command(Show, "trio-stomp context show prod", short_help="Show a saved context."),
    Command(Use, "trio-stomp context use prod", short_help="Choose the context for commands that name none."),
    Command(Remove, "trio-stomp context remove prod", short_help="Remove a context and its passcode."),
]

context = CommandGroup(
    "context",
    commands=_COMMANDS,
    help="Save brokers by name, and use them with --context NAME, TRIO_STOMP_CONTEXT, or after `context use NAME`.",
)
context.other_names = {"delete": "remove", "rm": "remove", "select": "use"}
context.params.append(verbose_option())
context.examples = ("trio-stomp context add local --url stomp://localhost:61613", "trio-stomp context use local")
