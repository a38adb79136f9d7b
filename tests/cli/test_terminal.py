import io
import os
import pty
from contextlib import suppress

import pytest
import trio

from tests.cli.conftest import Pipe
from trio_stomp.cli.terminal import Output, progress, say
from trio_stomp.printable import harmless, one_line


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


async def test_output_when_written_to_then_flushes() -> None:
    raw = io.BytesIO()
    buffered = io.BufferedWriter(raw, 1000)
    output = Output(buffered)

    await output.write(b"one\n")

    assert raw.getvalue() == b"one\n"
    assert not output.is_terminal


async def test_output_when_the_reader_takes_nothing_then_can_be_cancelled(pipe: Pipe) -> None:
    reader, writer = pipe
    with trio.move_on_after(0.05) as scope:
        await Output(writer).write(b"x" * 1_000_000)
    # Lets the thread go that still writes.
    await trio.to_thread.run_sync(reader.read, 1_000_000)

    assert scope.cancelled_caught


async def test_output_when_the_reader_has_gone_then_raises(pipe: Pipe) -> None:
    reader, writer = pipe
    reader.close()

    with pytest.raises(BrokenPipeError):
        await Output(writer).write(b"x")
