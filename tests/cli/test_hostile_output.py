"""What a broker or a producer says is shown by a terminal, and not obeyed: the real command on a real terminal."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import suppress

import pytest

from tests.cli.conftest import Cli
from tests.cli.processes import OnTerminal, Terminal
from trio_stomp.testing import ThreadedBroker

# Sets the title, clears the screen, rings; C1, DEL, CR, text from right to left, and what looks like a line of ours.
EVIL = "\x1b]0;OWNED\x07\x1b[2J\x9b5n\x7f\r\u202eabc\u2066\u2028"
FORGED = "\nFORGED LINE"
# rich moves the cursor itself, to draw a progress bar; none of that is what the peer sent.
OBEYED = (b"\x1b]0;OWNED", b"\x1b[2J", b"\xc2\x9b", b"\x7f", "\u202e".encode(), "\u2066".encode(), "\u2028".encode())


def written_by(terminal: Terminal) -> bytes:
    """What the command writes to a terminal, standard error included."""
    terminal.finish()
    return terminal.shown


def assert_harmless(written: bytes) -> None:
    assert not [each for each in OBEYED if each in written], written
    assert b"\\x1b]0;OWNED\\x07" in written or b"\\u001b]0;OWNED\\u0007" in written, written


@pytest.fixture
def evil_broker() -> Generator[str]:
    """The URL of a server that lets everybody in and then refuses, both in its own words."""
    listener = socket.create_server(("127.0.0.1", 0))
    words = (EVIL + FORGED).replace("\r", "\\r").replace("\n", "\\n").encode()

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(b"CONNECTED\nversion:1.2\nserver:Evil%s/1\nsession:%s\n\n\0" % (words, words))
            connection.recv(4096)
            connection.sendall(b"ERROR\nmessage:%s\n\n%s\0" % (words, (EVIL + FORGED).encode()))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=[connection]).start()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"stomp://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def queue(stomp_broker_thread: ThreadedBroker) -> str:
    """The URL of a broker with two messages in /queue/evil."""
    for _ in range(2):
        stomp_broker_thread.call(
            lambda broker: broker.publish("/queue/evil", EVIL + FORGED, [("x-evil", EVIL + FORGED)])
        )
    return stomp_broker_thread.url


@pytest.mark.parametrize("layout", [(), ("--headers",), ("--json",), ("--format", r"{header:x-evil}\n")])
def test_message_when_printed_on_a_terminal_then_nothing_in_it_is_obeyed(
    on_terminal: OnTerminal, queue: str, layout: tuple[str, ...]
) -> None:
    written = written_by(on_terminal("subscribe", "/queue/evil", "--count", "1", "--url", queue, *layout))

    assert_harmless(written)
    if layout:
        # A header is one line, and so is a message as JSON.
        assert written.count(b"\nFORGED LINE") == (1 if layout == ("--headers",) else 0)


def test_reply_when_printed_on_a_terminal_then_nothing_in_it_is_obeyed(on_terminal: OnTerminal, queue: str) -> None:
    # The request itself comes back as its reply.
    written = written_by(on_terminal("request", "/queue/echo", EVIL, "--reply-to", "/queue/echo", "--url", queue))

    assert_harmless(written)


def test_message_when_raw_is_asked_for_then_the_terminal_gets_it_as_it_is(on_terminal: OnTerminal, queue: str) -> None:
    written = written_by(on_terminal("subscribe", "/queue/evil", "--count", "1", "--url", queue, "--raw"))

    assert b"\x1b]0;OWNED\x07\x1b[2J" in written


def test_message_when_printed_into_a_pipe_then_its_bytes_are_untouched(cli: Cli, queue: str) -> None:
    body = cli("subscribe", "/queue/evil", "--count", "1").stdout_bytes
    line = cli("subscribe", "/queue/evil", "--count", "1", "--json").stdout_bytes

    assert body == (EVIL + FORGED).encode() + b"\n"
    assert json.loads(line)["body"] == EVIL + FORGED


@pytest.mark.parametrize(
    "arguments",
    [
        ("-vv", "send", "/queue/a", "hello"),
        ("send", "/queue/a", "hello"),
        ("subscribe", "/queue/a", "--count", "1"),
        ("request", "/queue/a", "hello"),
        ("move", "/queue/a", "/queue/b"),
        ("bench", "/queue/a"),
        ("doctor",),
        ("doctor", "--json"),
        ("top", "--once"),
        ("top", "--once", "--json"),
    ],
)
def test_command_when_the_broker_says_something_then_nothing_in_it_is_obeyed(
    on_terminal: OnTerminal, evil_broker: str, arguments: tuple[str, ...]
) -> None:
    written = written_by(on_terminal(*arguments, "--url", evil_broker))

    assert_harmless(written)
    assert b"\nFORGED LINE" not in written
