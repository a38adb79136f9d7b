import os
import pty
import re
from contextlib import suppress

import pytest

from trio_stomp.cli.terminal import progress, say
from trio_stomp.printable import harmless, one_line


def all_of(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    shown = b""
    # Linux says so by an error, others by an end.
    with os.fdopen(terminal, "rb", buffering=0) as stream, suppress(OSError):
        while piece := stream.read(4096):
            shown += piece
    return shown.decode()


def test_progress_when_somebody_watches_then_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        say("[bold]hello :tea:[/bold]")
        with progress("sending", 3000) as advance:
            for _ in range(3):
                advance(1000)
        with progress("nothing", hidden=True) as advance:
            advance(1)
    shown = all_of(ours)

    assert shown.startswith("[bold]hello :tea:[/bold]\r\n")
    # The cursor is hidden, and shown again when the bar has gone.
    bar = r"sending (\x1b\[[\d;]*m)*━.* 3,000 messages, [1-9][\d,]*/s"
    assert re.search(rf"\x1b\[\?25l.*{bar}.*\x1b\[\?25h.*\x1b\[2K$", shown, re.DOTALL)
    assert "nothing" not in shown


def test_progress_when_colors_are_forced_without_a_terminal_then_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    say("hello")
    with progress("sending", 2) as advance:
        advance(1)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof two lines, ä", "plain\ttext\nof two lines, ä"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\rb\x00\x7f\x9b", "a\\x0db\\x00\\u007f\\u009b"),
        ("a\u202eb\u2066\u200f\u2028\udcff", "a\\u202eb\\u2066\\u200f\\u2028\\udcff"),
    ],
)
def test_harmless_when_text_would_drive_a_terminal_then_shows_its_controls(text: str, shown: str) -> None:
    assert harmless(text) == shown
    assert one_line(text) == shown.replace("\n", "\\n").replace("\t", "\\t")
