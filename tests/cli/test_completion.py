import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.cli.exit_code import ExitCode
from trio_stomp.cli.command_line import command_line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_when_a_shell_is_named_then_prints_its_script(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = CliRunner().invoke(command_line, ["completion", shell])
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    found = CliRunner().invoke(command_line, ["completion"])

    assert named.exit_code == 0
    assert f"_TRIO_STOMP_COMPLETE={shell}_complete" in named.stdout
    assert found.stdout == named.stdout


def test_completion_when_the_shell_is_not_known_then_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    done = CliRunner().invoke(command_line, ["completion"])

    assert done.exit_code == ExitCode.USAGE
    assert "name your shell" in done.stderr


def test_command_line_when_the_shell_asks_then_completes() -> None:
    words = {"_TRIO_STOMP_COMPLETE": "bash_complete", "COMP_WORDS": "trio-stomp sub", "COMP_CWORD": "1"}

    done = subprocess.run(
        [sys.executable, "-m", "trio_stomp.cli"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "plain,subscribe\n"
