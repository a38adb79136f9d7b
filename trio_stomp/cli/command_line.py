"""The command ``trio-stomp``: its subcommands."""

from __future__ import annotations

import click

from trio_stomp.cli.bench import bench
from trio_stomp.cli.broker import broker
from trio_stomp.cli.commands import CommandGroup, verbose_option
from trio_stomp.cli.completion import completion
from trio_stomp.cli.context import context
from trio_stomp.cli.doctor import doctor
from trio_stomp.cli.move import move
from trio_stomp.cli.receive import receive
from trio_stomp.cli.request import request
from trio_stomp.cli.running import ending
from trio_stomp.cli.send import send
from trio_stomp.cli.subscribe import subscribe
from trio_stomp.cli.top import top

__all__ = ["command_line"]


class _CommandLine(CommandGroup):
    """The group of all commands. It handles how each of them ends."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the arguments; prints help and version, too."""
        with ending():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with ending():
            return super().invoke(ctx)


@click.group(cls=_CommandLine, context_settings={"max_content_width": 110})
@click.version_option(
    package_name="trio-stomp",
    prog_name="trio-stomp",
    message="%(prog)s, version %(version)s",
)
def command_line() -> None:
    """Send, receive and move STOMP messages, and find out why a connection fails.

    The passcode comes from --ask-passcode, --passcode-file, a saved context, the URL, or the variable
    TRIO_STOMP_PASSCODE.
    """


command_line.params.append(verbose_option())

for _command in (send, subscribe, request, move, receive, top, doctor, bench, broker, context, completion):
    command_line.add_command(_command)
command_line.add_command(subscribe, "tail")
