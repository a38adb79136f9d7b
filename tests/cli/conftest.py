"""The command in this process, against an embedded broker in another thread."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner, Result

from trio_stomp.cli.command_line import command_line
from trio_stomp.testing import ThreadedBroker

__all__ = ["Cli"]


class Cli(Protocol):
    """Runs ``trio-stomp`` with these arguments."""

    def __call__(self, *arguments: str, input: str | bytes | None = None) -> Result: ...  # noqa: A002  # click's name


@pytest.fixture
def cli(stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run ``trio-stomp`` with these arguments; the broker is the one that `stomp_broker_thread` gives."""
    for name in ("TRIO_STOMP_CONTEXT", "TRIO_STOMP_LOGIN", "TRIO_STOMP_PASSCODE", "TRIO_STOMP_PASSCODE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRIO_STOMP_URL", stomp_broker_thread.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    # Wide enough for any line to stay one.
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: str, input: str | bytes | None = None) -> Result:  # noqa: A002  # as click calls it
        return CliRunner().invoke(command_line, list(arguments), input=input, prog_name="trio-stomp")

    return run
