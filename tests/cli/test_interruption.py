"""Ctrl-C, SIGTERM and closed pipes, as a shell sees them: the real command in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import bodies, publish, wait_until_left
from tests.cli.exit_code import ExitCode
from tests.cli.processes import COMMAND, PATIENCE, OnPipes, OnTerminal
from trio_stomp.cli.command_line import command_line
from trio_stomp.testing import Broker, BrokerOptions, DelayReceipts, Fault, SwallowReceipts, ThreadedBroker
from trio_stomp.types import Command

pytest.importorskip("fcntl", reason="spools are not for Windows")
pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `spool`")

from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolLocation

SIGNALS = [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    """However busy the machine is: no command is taken for dead while it waits for its turn."""
    return BrokerOptions(heart_beat_grace=100)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("receipt", [True, False])
def test_send_when_interrupted_while_it_waits_for_lines_then_says_what_was_sent(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker, number: signal.Signals, code: ExitCode, receipt: bool
) -> None:
    more = () if receipt else ("--no-receipt",)
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, "rb"),
        os.fdopen(writer, "wb", buffering=0) as lines,
        on_pipes("send", "/queue/a", "--lines", "-u", stomp_broker_thread.url, *more, stdin=reader) as piped,
    ):
        lines.write(b"one\ntwo\nnot a whole li")
        wait_until_left(stomp_broker_thread, 2)
        piped.process.send_signal(number)
        status, _, errors = piped.finish()

    assert (status, errors.decode()) == (
        code,
        f"trio-stomp: interrupted; 2 messages sent{', 2 confirmed' if receipt else ', without confirmation'}\n",
    )
    assert bodies(stomp_broker_thread) == [b"one", b"two"]


def test_send_when_its_input_was_made_non_blocking_then_waits_for_its_end(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with (
        os.fdopen(reader, "rb"),
        os.fdopen(writer, "wb", buffering=0) as lines,
        on_pipes("send", "/queue/a", "--lines", "-u", stomp_broker_thread.url, stdin=reader) as piped,
    ):
        for number in (1, 2):
            lines.write(b"x\n")
            wait_until_left(stomp_broker_thread, number)
        lines.close()

        assert piped.finish() == (0, b"", b"")


def test_send_when_interrupted_at_a_terminal_then_leaves_it_as_it_was(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    terminal = on_terminal("send", "/queue/a", "--lines", "-u", stomp_broker_thread.url)
    terminal.type(b"one\n")
    wait_until_left(stomp_broker_thread, 1)
    terminal.type(b"\x03")
    status = terminal.finish()

    assert status == ExitCode.INTERRUPTED
    assert b"1 message sent, 1 confirmed" in terminal.shown
    assert terminal.echoes


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_passcode_when_the_prompt_is_left_by_a_signal_then_the_terminal_echoes_again(
    on_terminal: OnTerminal, number: signal.Signals, code: ExitCode
) -> None:
    terminal = on_terminal("send", "/queue/a", "x", "--ask-passcode", "-u", "stomp://ann@localhost:1")
    terminal.wait_for_prompt()
    terminal.type(b"s3cret")
    ctrl_c = partial(terminal.type, b"\x03")
    sigterm = partial(terminal.process.send_signal, signal.SIGTERM)
    terminal.until_it_answers(ctrl_c if number is signal.SIGINT else sigterm)
    status = terminal.finish()

    assert status == code
    assert terminal.echoes
    assert b"s3cret" not in terminal.shown
    assert b"Traceback" not in terminal.shown


def test_passcode_when_the_prompt_is_left_by_ctrl_d_then_said_so(on_terminal: OnTerminal) -> None:
    terminal = on_terminal("send", "/queue/a", "x", "--ask-passcode", "-u", "stomp://ann@localhost:1")
    terminal.wait_for_prompt()
    terminal.type(b"\x04")
    status = terminal.finish()

    assert status == ExitCode.USAGE
    assert b"no passcode" in terminal.shown


def test_passcode_when_two_connections_need_it_then_asked_for_once(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    url = f"stomp://ann@127.0.0.1:{stomp_broker_thread.port}"
    terminal = on_terminal("bench", "-n", "10", "--ask-passcode", "-u", url)
    terminal.wait_for_prompt()
    terminal.type(b"s3cret\n")
    status = terminal.finish()

    assert status == 0, terminal.shown
    assert terminal.shown.count(b"Passcode of ann") == 1


def test_subscribe_when_interrupted_while_it_prints_then_what_is_read_is_acknowledged(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(lambda broker: broker.publish("/queue/a", b"x" * 1_000_000))
    with on_pipes("subscribe", "/queue/a", "-u", stomp_broker_thread.url) as piped:
        # It writes, and then waits for room in the pipe.
        first = piped.output.read(1)
        piped.process.send_signal(signal.SIGINT)
        status, rest, errors = piped.finish()

    assert (status, len(first + rest), errors) == (ExitCode.INTERRUPTED, 1_000_001, b"")
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 0


def test_subscribe_when_interrupted_while_its_output_is_not_read_then_ends_all_the_same(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "x" * 1_000_000)
    with on_pipes("subscribe", "/queue/a", "-u", stomp_broker_thread.url) as piped:
        # It writes, and then waits for room in the pipe.
        piped.output.read(1)
        piped.process.send_signal(signal.SIGINT)
        status, errors = piped.process.wait(PATIENCE), piped.errors.read()

    assert (status, errors) == (ExitCode.INTERRUPTED, b"")
    assert len(bodies(stomp_broker_thread)) == 1


@pytest.mark.parametrize(
    ("receipt", "signals", "said"),
    [
        (DelayReceipts(command=Command.COMMIT, seconds=1), [signal.SIGINT], "3 messages moved\n"),
        (
            SwallowReceipts(command=Command.COMMIT),
            [signal.SIGINT, signal.SIGTERM],
            "0 messages moved, perhaps 3 more\n",
        ),
    ],
    ids=["once", "twice"],
)
def test_move_when_interrupted_during_a_commit_then_waits_for_it_unless_told_twice_and_counts_it(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker, receipt: Fault, signals: list[signal.Signals], said: str
) -> None:
    def prepare(broker: Broker) -> None:
        broker.faults.plan(receipt)
        for _ in range(6):
            broker.publish("/queue/a", "x")

    stomp_broker_thread.call(prepare)
    arguments = ("move", "/queue/a", "/queue/b", "--batch", "3", "-u", stomp_broker_thread.url)
    with on_pipes(*arguments) as piped:
        # The COMMIT has taken effect, and its RECEIPT has not come.
        wait_until_left(stomp_broker_thread, 3, "/queue/b")
        for number in signals:
            piped.process.send_signal(number)
        ended = piped.finish()

    assert ended == (ExitCode.INTERRUPTED, said.encode(), b"")
    wait_until_left(stomp_broker_thread, 3)


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 0), (b"\n", 1), (b"\x04", 1)], ids=["yes", "no", "ctrl-d"])
def test_purge_when_asked_then_removes_only_after_yes(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker, answer: bytes, left: int
) -> None:
    publish(stomp_broker_thread, "one")
    terminal = on_terminal("purge", "/queue/a", "--idle", "0.5", "-u", stomp_broker_thread.url)
    terminal.wait_for(b"Remove the messages of /queue/a? [y/N]")
    terminal.type(answer)
    status = terminal.finish()

    assert status == (ExitCode.INTERRUPTED if left else 0)
    assert (b" removing " in terminal.shown) is (left == 0)
    assert len(bodies(stomp_broker_thread)) == left


def test_context_when_added_with_a_prompt_then_the_passcode_is_saved_and_never_shown(
    on_terminal: OnTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    arguments = ("context", "add", "prod", "-u", "stomp://a", "--login", "ann", "-p", "--passcode-store", "file")
    terminal = on_terminal(*arguments)
    terminal.wait_for_prompt()
    terminal.type(b"s3cret\n")
    status = terminal.finish()

    assert status == 0
    assert b"s3cret" not in terminal.shown
    assert json.loads((tmp_path / "trio-stomp" / "passcodes.json").read_text("utf-8")) == {"prod": "s3cret"}
    saved = json.loads((tmp_path / "trio-stomp" / "contexts.json").read_text("utf-8"))["contexts"]["prod"]
    # Without what was only for this command.
    assert saved == {"options": {"url": ["stomp://a"], "login": "ann"}, "passcode": "file"}
    assert terminal.echoes


def test_top_when_on_a_terminal_then_redraws_in_place_until_ctrl_c(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    terminal = on_terminal("top", "--interval", "0.01", "-u", stomp_broker_thread.url)
    terminal.wait_for(b"CONNECTION", times=3)
    terminal.type(b"\x03")
    status = terminal.finish()

    assert status == 0
    assert terminal.shown.count(b"\x1b[2J") == 1
    assert terminal.shown.count(b"\x1b[Htrio-stomp-testing/") >= 3


def test_top_when_the_terminal_is_dumb_then_each_look_follows_the_one_before(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = on_terminal("top", "--interval", "0.01", "-u", stomp_broker_thread.url)
    terminal.wait_for(b"CONNECTION", times=3)
    terminal.type(b"\x03")

    assert terminal.finish() == 0
    assert b"\x1b" not in terminal.shown


PRINTING: list[tuple[str, ...]] = [
    ("--help",),
    ("--version",),
    ("send", "--help"),
    ("completion", "bash"),
    ("subscribe", "/queue/a"),
    ("tail", "/queue/a", "--json"),
    ("request", "/queue/a", "x", "--reply-to", "/queue/a"),
    ("move", "/queue/a", "/queue/b", "--idle", "0.1"),
    ("ping", "--count", "1"),
    ("purge", "/queue/a", "--yes", "--idle", "0.1"),
    ("receive", "/queue/a", "--spool", "SPOOL", "--timeout", "0.1"),
    ("doctor",),
    ("doctor", "--json"),
    ("bench", "-n", "10"),
    ("bench", "-n", "10", "--json"),
    ("broker", "--port", "0"),
    ("context", "--help"),
    ("spool", "SPOOL"),
    ("top", "--once"),
]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_command_when_the_reader_of_its_output_has_gone_then_ends_quietly(
    on_pipes: OnPipes,
    stomp_broker_thread: ThreadedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("TRIO_STOMP_URL", stomp_broker_thread.url)
    publish(stomp_broker_thread, "one")
    if arguments[0] == "spool":
        mark_spool(SpoolLocation.of(str(tmp_path)).open("queue-a", "stream"), "/queue/a")
    spooled = [str(tmp_path) if each == "SPOOL" else each for each in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb"), on_pipes(*spooled, stdout=writer) as piped:
        ended = piped.finish()

    assert ended == (ExitCode.PIPE_CLOSED, b"", b"")


def test_commands_when_compared_with_those_above_then_each_that_prints_is_among_them() -> None:
    command_line.load_all()

    # `send` and `reply` write nothing to standard output, and `count` asks a management interface.
    assert {arguments[0] for arguments in PRINTING} >= set(command_line.commands) - {"send", "reply", "count"}


def test_command_when_the_reader_of_its_errors_has_gone_then_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([*COMMAND, "send", "--nonsense"], stderr=writer, timeout=PATIENCE, check=False)
    finally:
        os.close(writer)

    assert done.returncode == ExitCode.PIPE_CLOSED


def test_send_when_a_message_is_typed_then_says_how_to_end_it_and_no_progress_bar_is_over_it(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    terminal = on_terminal("send", "/queue/a", "--url", stomp_broker_thread.url)
    terminal.wait_for(b"end it with Ctrl-D")
    terminal.type(b"tea\n\x04")

    assert terminal.finish() == 0
    assert b"sending" not in terminal.shown
    assert bodies(stomp_broker_thread) == [b"tea\n"]
