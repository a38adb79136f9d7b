"""The command ``trio-stomp``: its subcommands.

Each is imported when it is used, as they import more than the list of them needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

import click

from trio_stomp.cli.commands import CommandGroup, verbose_option
from trio_stomp.cli.running import ending

__all__ = ["command_line"]

# By the name of each: what it does.
_COMMANDS: Final[Mapping[str, str]] = {
    "bench": "Measure throughput and latency.",
    "broker": "Run a broker in memory, for development.",
    "completion": "Print the completion script for your shell.",
    "context": "Save brokers by name.",
    "count": "Count the messages in queues.",
    "doctor": "Find out why a connection fails.",
    "move": "Move messages, for example out of a dead-letter queue.",
    "ping": "Measure how long the broker takes to answer.",
    "purge": "Remove messages from a queue.",
    "receive": "Receive messages into a spool, for Spark.",
    "reply": "Answer requests.",
    "request": "Send a request, and print the reply.",
    "send": "Send messages.",
    "spool": "Look after a spool of Spark's.",
    "subscribe": "Print messages as they arrive.",
    "tail": "Print messages as they arrive.",
    "top": "Watch the queues of a broker, or a connection.",
}
# The modules that do not have the name of their command.
_MODULES: Final = {"purge": "move", "tail": "subscribe"}
# What the tools of other brokers call them, unless that is similar.
_MEANT: Final = {
    "consume": "subscribe",
    "delete": "purge",
    "depth": "count",
    "get": "subscribe",
    "listen": "subscribe",
    "produce": "send",
    "pub": "send",
    "publish": "send",
    "put": "send",
    "rtt": "ping",
    "stats": "top",
    "sub": "subscribe",
}


class _CommandLine(CommandGroup):
    """The group of all commands. It handles how each of them ends."""

    other_names = _MEANT

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # as above
        if cmd_name not in self.commands and cmd_name in _COMMANDS:
            module = importlib.import_module(f"trio_stomp.cli.{_MODULES.get(cmd_name, cmd_name)}")
            found: click.Command = getattr(module, cmd_name)
            found.short_help = _COMMANDS[cmd_name]
            self.add_command(found, cmd_name)
        return self.commands.get(cmd_name)

    def load_all(self) -> None:
        """Fill `commands`, for those who read it."""
        context = click.Context(self)
        for name in _COMMANDS:
            self.get_command(context, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as above
        """Write what each does, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the arguments; prints help and version, too."""
        with ending():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with ending():
            return super().invoke(ctx)


@click.group(cls=_CommandLine, context_settings={"max_content_width": 110})
@click.version_option(package_name="trio-stomp", prog_name="trio-stomp", message="%(prog)s, version %(version)s")
def command_line() -> None:
    """Send, receive and move STOMP messages, and find out why a connection fails.

    The passcode comes from --ask-passcode, --passcode-file, a saved context, the URL, or the variable
    TRIO_STOMP_PASSCODE. SECONDS may have a unit: 500ms, 5s, 2m or 1h.
    """


command_line.params.append(verbose_option())
