import os
import pty
from contextlib import suppress

import pytest

from trio_stomp.cli.feedback import progress, say


def all_of(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    shown = b""
    # Linux says so by an error, others by an end.
    with os.fdopen(terminal, "rb", buffering=0) as stream, suppress(OSError):
        while piece := stream.read(4096):
            shown += piece
    return shown.decode()


def test_say_when_nobody_is_there_then_silent(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    with progress("sending", 10) as advance:
        advance(5)

    assert capsys.readouterr() == ("", "")


def test_progress_when_somebody_watches_then_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        say("[bold]hello[/bold]")
        with progress("sending", 2000) as advance:
            advance(1000)
            advance(1000)
    shown = all_of(ours)

    assert "[bold]hello[/bold]" in shown
    assert "sending" in shown
    assert "2,000 messages" in shown
