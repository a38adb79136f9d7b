import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.exit_code import ExitCode
from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.saved_contexts import ContextStore, PasscodePlace


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_when_a_shell_is_named_then_prints_its_script(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = CliRunner().invoke(command_line, ["completion", shell])
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    found = CliRunner().invoke(command_line, ["completion"])

    assert named.exit_code == 0
    assert f"_TRIO_STOMP_COMPLETE={shell}_complete" in named.stdout
    assert set(re.findall(r"(?<!_)trio-stomp\w*", named.stdout)) == {"trio-stomp"}
    assert found.stdout == named.stdout


def test_completion_when_the_shell_is_not_known_then_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    done = CliRunner().invoke(command_line, ["completion"])

    assert done.exit_code == ExitCode.USAGE
    assert "name your shell" in done.stderr


def test_completion_when_asked_for_help_then_has_a_line_for_each_shell() -> None:
    shown = CliRunner().invoke(command_line, ["completion", "--help"]).stdout

    assert re.findall(r"^  (\w+): +.*trio-stomp completion (\w+)", shown, re.MULTILINE) == [
        (shell, shell) for shell in ("bash", "zsh", "fish")
    ]


def completed(line: str, settings: Path) -> str:
    """What bash is told for the last word of a line."""
    words = {"_TRIO_STOMP_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "trio_stomp.cli"],
        env={**os.environ, **words, "XDG_CONFIG_HOME": str(settings)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.rstrip("\n")


def test_command_line_when_the_shell_asks_then_completes(tmp_path: Path) -> None:
    assert completed("trio-stomp sub", tmp_path) == "plain,subscribe"
    # Behind a command that there is not, also where a module has its name.
    for name in ("zzz", "options"):
        assert completed(f"trio-stomp {name} sub", tmp_path) == "plain,subscribe"


def test_contexts_when_the_shell_asks_then_their_names_unless_they_cannot_be_read(tmp_path: Path) -> None:
    ContextStore(tmp_path / "trio-stomp").add("prod", {}, None, PasscodePlace.NOWHERE)

    assert completed("trio-stomp ping --context pr", tmp_path) == "plain,prod"

    (tmp_path / "trio-stomp" / "contexts.json").write_text("{")
    assert completed("trio-stomp ping --context pr", tmp_path) == ""
