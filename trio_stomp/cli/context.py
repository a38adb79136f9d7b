"""``trio-stomp context``: brokers saved by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from trio_stomp.cli.commands import CommandGroup, command, option, verbose_option
from trio_stomp.cli.options import LinkOptions, connection_options, gathered, management_option
from trio_stomp.cli.passcodes import holds_passcode
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.cli.saved_contexts import ContextStore, PasscodePlace, SavedContext, is_array, keyring
from trio_stomp.printable import one_line
from trio_stomp.protocol import is_secret_header

__all__ = ["context"]


def _given(context: click.Context) -> dict[str, object]:
    """Return the options on the command line, as JSON values."""
    found: dict[str, object] = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        is_written = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_written and isinstance(parameter, click.Option) and name not in _OWN:
            value: object = context.params.get(name)
            # The command may run in another folder later.
            found[name] = str(value.absolute()) if isinstance(value, Path) else value
    # --verbose has no value.
    return {name: value for name, value in found.items() if value is not None}


_HIDDEN: Final = "***"
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
    text = str(value)
    try:
        parts = urlsplit(text)
    except ValueError:
        return one_line(text)
    if parts.scheme and parts.query:
        # That of a WebSocket may hold a token.
        parts = parts._replace(query=_HIDDEN)
        text = parts.geturl()
    if holds_passcode(text):
        text = parts._replace(netloc=f"{parts.username}:{_HIDDEN}@{parts.netloc.rpartition('@')[2]}").geturl()
    return one_line(text)


def _lines(name: str, saved: SavedContext, store: ContextStore) -> list[str]:
    places = {
        PasscodePlace.NOWHERE: "not saved",
        PasscodePlace.KEYRING: "saved in the keyring",
        PasscodePlace.FILE: f"saved in {store.passcode_file}",
    }
    options = {each.replace("_", "-"): _shown(each, value) for each, value in saved.options.items()}
    return [f"{each}: {value}" for each, value in {"name": name, **options, "passcode": places[saved.passcode]}.items()]


_PLACE: Final = click.Choice([PasscodePlace.KEYRING.value, PasscodePlace.FILE.value])


@command(
    "add",
    "Save a broker and how to connect to it.",
    "trio-stomp context add prod --url stomps://broker.example.org:61614 --login ann --ask-passcode",
    "trio-stomp context add local --url stomp://localhost:61613",
)
@click.argument("name")
@option(
    "Connection",
    "--passcode-store",
    type=_PLACE,
    help="Where to save the passcode.  [default: the keyring, if the package keyring finds one]",
)
@connection_options
@management_option
@click.pass_context
def add(context: click.Context, /, name: str, passcode_store: str | None, **_options: object) -> None:
    """Save the options that follow as NAME, in place of a context of that name.

    With --ask-passcode, it prompts for the passcode and saves that, too.
    """
    given = gathered(LinkOptions, context)
    if any(map(holds_passcode, given.url)):
        why = "the URL contains a passcode, which would be saved readably; leave it out, and add --ask-passcode"
        raise CommandFailed(why, ExitCode.USAGE)
    options = _given(context)
    passcode = given.passcode() if given.ask_passcode else None
    default = PasscodePlace.FILE if keyring() is None else PasscodePlace.KEYRING
    place = default if passcode_store is None else PasscodePlace(passcode_store)
    ContextStore.of_user().add(name, options, passcode, place)


@command("list", "List the saved contexts.", "trio-stomp context list")
@option("Output", "--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
def list_all(*, as_json: bool) -> None:
    """List the saved contexts; a star marks the one in use."""
    store = ContextStore.of_user()
    for name, saved in store.all().items():
        in_use = name == store.in_use
        if as_json:
            options = {each: _shown(each, value) for each, value in saved.options.items()}
            click.echo(json.dumps({"name": name, "in_use": in_use, "options": options, "passcode": saved.passcode}))
        else:
            click.echo(f"{'*' if in_use else ' '} {name:<15} {_shown('url', saved.options.get('url', []))}")


@command("show", "Show a saved context.", "trio-stomp context show prod")
@click.argument("name")
def show(name: str) -> None:
    """Show the options of NAME. The passcode is never shown."""
    store = ContextStore.of_user()
    for line in _lines(name, store.find(name), store):
        click.echo(line)


@command("use", "Choose the context for commands that name none.", "trio-stomp context use prod")
@click.argument("name", required=False)
def use(name: str | None) -> None:
    """Use NAME for commands without --context and --url; without NAME, use none.

    The variables TRIO_STOMP_CONTEXT and TRIO_STOMP_URL come first, too.
    """
    ContextStore.of_user().use(name)


@command("remove", "Remove a context and its passcode.", "trio-stomp context remove prod")
@click.argument("name")
def remove(name: str) -> None:
    """Remove NAME, and its saved passcode."""
    ContextStore.of_user().remove(name)


context = CommandGroup(
    "context",
    commands=[add, list_all, show, use, remove],
    help="Save brokers by name, and use them with --context NAME, TRIO_STOMP_CONTEXT, or after `context use NAME`.",
    short_help="Save brokers by name.",
)
context.params.append(verbose_option())
context.examples = ("trio-stomp context add local --url stomp://localhost:61613", "trio-stomp context use local")
