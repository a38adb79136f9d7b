"""The tables of docs/reference/cli.md, made of the command line itself. Run as a module it prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import click

from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.commands import parameters_of, verbose_option
from trio_stomp.cli.layouts import Layout
from trio_stomp.cli.options import LinkOptions

__all__ = ["tables"]


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    text = (option.help or "").replace("|", chr(92) + "|")
    return f"| {names} | {text}{'' if '[default' in text else _default(option)} |"


def _default(option: click.Option) -> str:
    value: object = option.default
    if value is True:
        return f"  [default: {option.opts[0].lstrip('-')}]"
    given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    known = [each for each in given if each and isinstance(each, (int, float, str))]
    return f"  [default: {', '.join(map(str, known))}]" if known else ""


def _options(parameters: list[click.Parameter]) -> list[click.Option]:
    return [each for each in parameters if isinstance(each, click.Option)]


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
    for heading, kind in (("Connecting", LinkOptions), ("Printing", Layout)):
        options = _options(parameters_of(kind))
        shared += options
        yield heading, _table(options)
    known = set(map(_row, shared))
    command_line.load_all()
    for name, command in sorted(_commands(command_line)):
        own = [option for option in _options(command.params) if _row(option) not in known]
        if own and name != "tail":
            yield name, _table(own)


if __name__ == "__main__":
    for heading, table in tables():
        print(f"## `{heading}`\n\n{table}")  # noqa: T201  # a command reports by printing
