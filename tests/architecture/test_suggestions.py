"""What error messages and help texts tell users to type exists: commands, their options, and extras."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache

import click
import pytest

from tests.architecture.source_tree import ROOT, python_files
from trio_stomp.cli.command_line import command_line

EXTRA = re.compile(r"(?:trio-stomp|(?<=['\" ])\.)\[([^\]\n]*)\]")
COMMAND = re.compile(r"trio-stomp +([a-z][\w-]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")

with (ROOT / "pyproject.toml").open("rb") as _file:
    EXTRAS = set(tomllib.load(_file)["project"]["optional-dependencies"])


def texts_of(tree: ast.AST) -> Iterator[str]:
    """All strings of a module, docstrings too; in f-strings, each expression is a pair of braces."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value


@cache
def texts() -> list[tuple[str, str]]:
    """All strings of the package, each with its file."""
    return [(file.path, text) for file in python_files() if file.in_package for text in texts_of(file.tree)]


@cache
def pages() -> list[tuple[str, str]]:
    """The texts of all pages, each with its file."""
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        if "_build" not in path.parts
    ]


def unknown_extras(texts: list[tuple[str, str]]) -> list[str]:
    found = [(path, extra) for path, text in texts for names in EXTRA.findall(text) for extra in names.split(",")]
    return [f"{path}: [{extra}]" for path, extra in found if extra.strip() not in EXTRAS]


def unknown_commands(texts: list[tuple[str, str]]) -> list[str]:
    command_line.load_all()
    found = [(path, name) for path, text in texts for name in COMMAND.findall(text)]
    return [f"{path}: trio-stomp {name}" for path, name in found if name not in command_line.commands]


def commands_of(group: click.Group) -> Iterator[click.Command]:
    yield group
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from commands_of(command)
        else:
            yield command


def unknown_options(texts: list[tuple[str, str]]) -> list[str]:
    command_line.load_all()
    known = {"--help"}
    for command in commands_of(command_line):
        for option in command.params:
            if isinstance(option, click.Option):
                known.update(option.opts, option.secondary_opts)
    found = [(path, name) for path, text in texts for name in OPTION.findall(text)]
    return [f"{path}: {name}" for path, name in found if name not in known]


def test_extra_when_a_text_suggests_it_then_it_exists() -> None:
    assert unknown_extras([*texts(), *pages()]) == []
    assert sum(len(EXTRA.findall(text)) for _, text in texts()) >= 6


def test_command_when_a_text_suggests_it_then_it_exists() -> None:
    assert unknown_commands(texts()) == []


def test_option_when_a_text_of_the_command_suggests_it_then_it_exists() -> None:
    of_the_command = ("trio_stomp/cli/", "trio_stomp/transport/diagnosis.py")
    assert unknown_options([(path, text) for path, text in texts() if path.startswith(of_the_command)]) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install 'trio-stomp[cli, nope]'", ["x: [ nope]"]),
        ("pip install '.[nope]'", ["x: [nope]"]),
        ("pip install 'trio-stomp[{}]'", ["x: [{}]"]),
        ("run trio-stomp docter", ["x: trio-stomp docter"]),
        ("use --no-reciept", ["x: --no-reciept"]),
        ("Run: pip install 'trio-stomp[cli]', then trio-stomp doctor --url", []),
    ],
)
def test_suggestion_when_it_does_not_exist_then_found(text: str, found: list[str]) -> None:
    texts = [("x", text)]
    assert [*unknown_extras(texts), *unknown_commands(texts), *unknown_options(texts)] == found
