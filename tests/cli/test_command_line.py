import itertools
import logging
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.cli.exit_code import ExitCode
from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.commands import Command, CommandGroup
from trio_stomp.cli.context import context
from trio_stomp.testing import BrokerOptions

command_line.load_all()
COMMANDS = [
    each
    for command in command_line.commands.values()
    for each in (command, *(command.commands.values() if isinstance(command, CommandGroup) else ()))
    if isinstance(each, Command | CommandGroup)
]
EXAMPLES = {example for command in COMMANDS for example in command.examples}


def test_command_line_when_asked_for_help_then_lists_its_commands() -> None:
    shown = CliRunner().invoke(command_line, ["--help"]).stdout

    for name, command in command_line.commands.items():
        assert re.search(rf"\n  {name} +{re.escape(command.get_short_help_str(200))}\n", shown)
    described = re.findall(r"^  (\w+) +[A-Z][^.]+\.$", shown.partition("\nCommands:\n")[2], re.MULTILINE)
    assert described == list(command_line.commands)


# Those of nats, rabbitmqadmin, kcat, mosquitto, redis-cli and the tools of IBM MQ, and those of shells.
@pytest.mark.parametrize(
    "name",
    [
        *("consume", "delete", "depth", "get", "listen", "produce", "pub", "publish", "put", "req", "rtt", "stats"),
        *("sub", "context delete", "context ls", "context rm", "context select"),
    ],
)
def test_command_when_called_as_elsewhere_then_says_its_name_here(name: str) -> None:
    *group, word = name.split()
    names = context.commands if group else command_line.commands

    done = CliRunner().invoke(command_line, [*group, word])

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    meant = re.search(rf"no such command {word!r}; did you mean '(\w+)'\?\n$", done.stderr)
    assert meant is not None
    assert meant[1] in names


@pytest.mark.parametrize("name", sorted(command_line.commands))
def test_command_when_asked_for_help_then_explains_itself_and_each_option_in_groups_and_with_examples(
    name: str,
) -> None:
    command = command_line.commands[name]
    shown = CliRunner().invoke(command_line, [name, "--help"], env={"COLUMNS": "80"}).stdout

    assert command.help
    assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == []
    assert "\nExamples:\n  " in shown
    assert "\nOptions:\n" not in shown
    # Whichever the command, they are where the eye looks for them.
    assert re.search(r"\nOther options:\n  -v, --verbose .*\n  -h, --help .*\n", shown)


def test_help_of_all_commands_when_read_then_their_options_are_under_these_headings() -> None:
    helps = [command.get_help(click.Context(command)) for command in COMMANDS]

    assert {heading for text in helps for heading in re.findall(r"^([A-Z][\w ]*):$", text, re.MULTILINE)} == {
        *("Access", "Changes", "Commands", "Confirmation", "Connection", "Examples", "Input", "Limits", "Listening"),
        *("Measurement", "Message", "Other options", "Output", "Pace", "Protocol", "Queues", "Reply", "Selection"),
        *("Spool", "Subscription", "TLS", "Target", "View"),
    }


def test_options_when_not_given_then_these_are_their_values() -> None:
    found: dict[str | None, set[object]] = {}
    for parameter in (each for command in COMMANDS for each in command.params):
        default = parameter.to_info_dict()["default"]
        if default:
            found.setdefault(parameter.name, set()).add(default)

    broker = BrokerOptions()
    assert found == {
        "ack": {"client-individual"},
        "batch": {100},
        "connect_timeout": {10.0},
        "count": {1},
        "dead_letter": {"/queue/dead-letter"},
        "delimiter": {b"\n"},
        "heart_beat": {1.0},
        "host": {"127.0.0.1"},
        "idle": {2.0},
        "in_flight": {256},
        # Of `ping`, and of `top`.
        "interval": {1.0, 2.0},
        "max_connections": {broker.max_connections},
        "max_deliveries": {5},
        "max_message_bytes": {broker.limits.body_bytes},
        "max_queue_bytes": {broker.max_queue_bytes},
        "max_stored_bytes": {broker.max_stored_bytes},
        "messages": {10_000},
        "outage": {60.0},
        # Of `bench`, and of `send`.
        "patience": {10.0, 30.0},
        "port": {61613},
        "prefetch": {1000},
        "receipt": {True},
        "size": {100},
        "sort": {"ready"},
        "timeout": {10.0},
        "url": {("stomp://localhost:61613",)},
    }


def test_help_of_all_commands_when_read_then_these_are_their_arguments() -> None:
    usages = {command.name: command.collect_usage_pieces(click.Context(command)) for command in COMMANDS}

    assert {name: " ".join(pieces).removeprefix("[OPTIONS]").strip() for name, pieces in usages.items()} == {
        **dict.fromkeys(("broker", "doctor", "list", "ping"), ""),
        **dict.fromkeys(("receive", "subscribe"), "DESTINATION"),
        **dict.fromkeys(("add", "remove", "show"), "NAME"),
        "bench": "[DESTINATION]",
        "completion": "[bash|zsh|fish]",
        "context": "COMMAND [ARGS]...",
        "count": "QUEUE...",
        "move": "SOURCE [TARGET]",
        "purge": "QUEUE",
        "reply": "DESTINATION [BODY]",
        "request": "DESTINATION [BODY]",
        "send": "[DESTINATION] [BODY]...",
        "spool": "LOCATION",
        "top": "[QUEUE]...",
        "use": "[NAME]",
    }


def test_help_of_all_commands_when_read_then_values_have_these_names() -> None:
    helps = [command.get_help(click.Context(command, terminal_width=200)) for command in COMMANDS]

    usages = [word.strip("[].") for text in helps for word in re.findall(r"[A-Z]{2}\S*", text.partition("\n")[0])]
    # Those that list their values have no name.
    values = [name for text in helps for name in re.findall(r"^  (?:-\w, )?--[\w-]+ ([A-Z]\S*)", text, re.MULTILINE)]
    assert {*usages, *values} == {
        *("ARGS", "BODY", "COMMAND", "DESTINATION", "DIR", "FILE", "FORMAT", "INTEGER", "LOCATION", "N", "NAME"),
        *("NAME:VALUE", "NAME=VALUE", "OPTIONS", "ORIGIN", "PATH", "QUEUE", "REGEX", "SECONDS", "SEND,RECEIVE"),
        *("SOURCE", "SQL", "TARGET", "TEXT", "TYPE", "URL", "USER"),
    }


def test_option_when_explained_then_with_its_name_value_variable_default_and_range() -> None:
    shown = CliRunner().invoke(command_line, ["ping", "--help"]).stdout

    assert (
        "--connect-timeout SECONDS The time limit for connecting, for each broker."
        " [env var: TRIO_STOMP_CONNECT_TIMEOUT; default: 10.0; x>0]"
    ) in " ".join(shown.split())


def test_argument_when_any_number_of_values_may_be_given_then_without_a_default() -> None:
    """click refused one before 8.3."""
    arguments = [each for command in COMMANDS for each in command.params if each.nargs == -1]

    assert {each.name: each.to_info_dict()["default"] for each in arguments} == {"body": None, "queue": None}


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_example_in_a_help_text_when_read_then_the_command_takes_it(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("order.json", "query.json", "users.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    pipeline = [list(words) for separator, words in itertools.groupby(words, "|".__eq__) if not separator]

    for words in pipeline:
        if words[0] == "trio-stomp":
            arguments = words[1 : words.index(">") if ">" in words else None]
            command = command_line.commands[arguments[0]]
            command.make_context(arguments[0], arguments[1:])


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (["-v"], [], logging.INFO),
        (["-vv"], [], logging.DEBUG),
        ([], ["-v"], logging.INFO),
        ([], ["--lines", "-vv"], logging.DEBUG),
        (["-v"], ["--verbose"], logging.DEBUG),
        (["-vv"], ["-vv"], logging.DEBUG),
        ([], [], logging.WARNING),
    ],
)
def test_command_line_when_verbose_anywhere_then_logs(
    before: list[str], after: list[str], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    lines: list[str] = []

    def configure(*, handlers: list[logging.Handler], level: int) -> None:
        levels.append(level)
        error = ValueError("one\ntwo\x1b")
        record = logging.LogRecord("a", logging.WARNING, "a.py", 1, "b\nc\x1b", (), (ValueError, error, None))
        lines.extend(line for each in handlers for line in each.format(record).split("\n"))

    # The real one does nothing where pytest's own handlers are.
    monkeypatch.setattr(logging, "basicConfig", configure)

    CliRunner().invoke(command_line, [*before, "send", "--lines", "--json-lines", *after])

    assert levels == [level]
    # Without --verbose, a warning looks like an error of the command.
    plain = level == logging.WARNING
    assert re.fullmatch(rf"{'trio-stomp:' if plain else '[-0-9]+ [0-9:,]+ WARNING a:'} b\\nc\\x1b", lines[0])
    assert lines[1:] == ["    ValueError: one", "    two\\x1b"]


def test_help_when_the_commands_are_listed_then_none_of_them_is_imported() -> None:
    program = """if True:
        import sys
        from trio_stomp.cli.command_line import command_line
        command_line(["--help"], standalone_mode=False)
        print(*sys.modules, file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = set(done.stderr.split())
    assert "click" in loaded
    assert loaded.isdisjoint({"trio_stomp.testing", "trio_stomp.cli.send", "rich.table", "trio", "difflib"})


def test_exit_codes_when_documented_then_those_that_these_tests_expect() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text("utf-8")

    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == list(ExitCode)
