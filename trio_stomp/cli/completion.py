"""``trio-stomp completion``: completion for the shell."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import click
from click.shell_completion import get_completion_class

from trio_stomp.cli.commands import Command, argument
from trio_stomp.cli.running import InvalidUsage

__all__ = ["completion"]

_SHELLS: Final = ("bash", "zsh", "fish")

_PROGRAM: Final = "trio-stomp"
# click's name for it. When it is set, the program prints completions.
_VARIABLE: Final = "_TRIO_STOMP_COMPLETE"


def _this_shell() -> str | None:
    name = PurePath(os.environ.get("SHELL", "")).name
    return name if name in _SHELLS else None


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print the completion script for SHELL; by default for the shell in use.

    \b
    bash:  eval "$(trio-stomp completion bash)"    in ~/.bashrc
    zsh:   eval "$(trio-stomp completion zsh)"     in ~/.zshrc
    fish:  trio-stomp completion fish > ~/.config/fish/completions/trio-stomp.fish
    """  # noqa: D301  # click takes the character, not its escape, for the mark of lines to leave as they are

    shell: str | None = argument(None, type=click.Choice(_SHELLS))

    def start(self, context: click.Context) -> None:
        """Print it."""
        chosen = self.shell or _this_shell()
        kind = None if chosen is None else get_completion_class(chosen)
        if kind is None:
            raise InvalidUsage(f"name your shell, one of {', '.join(_SHELLS)}")
        click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())


completion = Command(Completion, 'eval "$(trio-stomp completion bash)"')
