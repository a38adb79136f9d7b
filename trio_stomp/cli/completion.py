"""``trio-stomp completion``: completion for the shell."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Final

import click
from click.shell_completion import get_completion_class

from trio_stomp.cli.commands import command
from trio_stomp.cli.running import ExitCode

__all__ = ["completion"]

_SHELLS: Final = ("bash", "zsh", "fish")

_PROGRAM: Final = "trio-stomp"
# click's name for it. When it is set, the program prints completions.
_VARIABLE: Final = "_TRIO_STOMP_COMPLETE"


def _this_shell() -> str | None:
    name = PurePath(os.environ.get("SHELL", "")).name
    return name if name in _SHELLS else None


@command('eval "$(trio-stomp completion bash)"')
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
def completion(context: click.Context) -> None:
    r"""Print the completion script for SHELL; by default for the shell in use.

    \b
    bash:  eval "$(trio-stomp completion bash)"    in ~/.bashrc
    zsh:   eval "$(trio-stomp completion zsh)"     in ~/.zshrc
    fish:  trio-stomp completion fish > ~/.config/fish/completions/trio-stomp.fish
    """
    chosen: str | None = context.params["shell"] or _this_shell()
    kind = None if chosen is None else get_completion_class(chosen)
    if kind is None:
        click.echo(f"trio-stomp: name your shell, one of {', '.join(_SHELLS)}", err=True)
        context.exit(ExitCode.USAGE)
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
