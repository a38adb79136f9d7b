"""The tables of docs/reference/cli.md, made of the command line itself. Run as a module it prints them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.commands import verbose_option
from trio_stomp.cli.layouts import layout_options
from trio_stomp.cli.options import link_options

__all__ = ["tables"]


@click.command()
@link_options
def _connecting(**_options: object) -> None: ...


@click.command()
@layout_options
def _printing(**_options: object) -> None: ...


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return f"| {names} | {(option.help or '').replace('|', chr(92) + '|')} |"


def _options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _table(options: list[click.Option]) -> str:
    return "\n".join(["| option | what it does |", "|---|---|", *map(_row, options)]) + "\n"


def _commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """The commands, and those of groups by both names."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in _commands(command))
        else:
            yield name, command


def tables() -> Iterator[tuple[str, str]]:
    """The heading and the table of each command, and first of what they share."""
    shared: list[click.Option] = [verbose_option()]
    for heading, command in (("Connecting", _connecting), ("Printing", _printing)):
        options = _options_of(command)
        shared += options
        yield heading, _table(options)
    known = set(map(_row, shared))
    command_line.load_all()
    for name, command in sorted(_commands(command_line)):
        own = [option for option in _options_of(command) if _row(option) not in known]
        if own and name != "tail":
            yield name, _table(own)


if __name__ == "__main__":
    for heading, table in tables():
        print(f"## `{heading}`\n\n{table}")  # noqa: T201  # a command reports by printing
