import logging

import click
import pytest
from click.testing import CliRunner

from trio_stomp.cli.command_line import command_line


def test_command_line_when_asked_for_help_then_lists_its_commands() -> None:
    shown = CliRunner().invoke(command_line, ["--help"]).stdout

    for name in command_line.commands:
        assert f"\n  {name}" in shown


@pytest.mark.parametrize("name", sorted(command_line.commands))
def test_command_when_asked_for_help_then_each_option_and_the_command_explain_themselves(name: str) -> None:
    command = command_line.commands[name]

    assert command.help
    unexplained = [option.name for option in command.params if isinstance(option, click.Option) and not option.help]
    assert unexplained == []


@pytest.mark.parametrize(("flag", "level"), [("-v", logging.INFO), ("-vv", logging.DEBUG)])
def test_command_line_when_verbose_then_logs(flag: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[object] = []

    def configure(**settings: object) -> None:
        levels.append(settings["level"])

    # The real one does nothing where pytest's own handlers are.
    monkeypatch.setattr(logging, "basicConfig", configure)

    CliRunner().invoke(command_line, [flag, "send", "--lines", "--json-lines"])
    CliRunner().invoke(command_line, ["send", "--lines", "--json-lines"])

    assert levels == [level]


@pytest.mark.parametrize("arguments", [["nonsense"], ["send", "--nonsense"]])
def test_command_line_when_it_cannot_be_read_then_ends_with_two(arguments: list[str]) -> None:
    assert CliRunner().invoke(command_line, arguments).exit_code == 2
