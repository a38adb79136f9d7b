import os
import signal
import subprocess
import sys
import textwrap

import pytest
import trio

from trio_stomp import connect
from trio_stomp.cli.running import AsyncCommand, CommandFailed, ExitCode, Stop, ending, exit_code_of, run
from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    ConnectionLost,
    HeartBeatTimeout,
    LocalProtocolError,
    OutcomeUnknown,
    RequestTimeout,
    StompError,
    UnconfirmedError,
)
from trio_stomp.testing import BrokerOptions, open_broker


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectError([]), ExitCode.NOT_CONNECTED),
        (AuthenticationError([]), ExitCode.REFUSED),
        (ConnectionLost("x"), ExitCode.LOST),
        (HeartBeatTimeout("x"), ExitCode.LOST),
        (RequestTimeout("x"), ExitCode.TIMED_OUT),
        (UnconfirmedError([]), ExitCode.NOT_CONFIRMED),
        (OutcomeUnknown("x"), ExitCode.NOT_CONFIRMED),
        (LocalProtocolError("x"), ExitCode.USAGE),
        (BrokerError(message="x", headers={}, body=b""), ExitCode.FAILED),
        (CommandFailed("x"), ExitCode.FAILED),
        (CommandFailed("x", ExitCode.TIMED_OUT), ExitCode.TIMED_OUT),
    ],
)
def test_exit_code_when_an_error_ends_the_command_then_tells_its_kind(
    error: StompError | CommandFailed, code: ExitCode
) -> None:
    assert exit_code_of(error) is code


def exit_of(command: AsyncCommand) -> int:
    """The status with which the process would end."""
    with pytest.raises(SystemExit) as end, ending():
        run(command)
        sys.exit(0)
    return int(str(end.value.code))


def test_run_when_the_command_is_done_then_ends_with_its_status() -> None:
    async def quiet(_stop: Stop) -> None:
        await trio.lowlevel.checkpoint()

    async def telling(_stop: Stop) -> ExitCode:
        await trio.lowlevel.checkpoint()
        return ExitCode.REFUSED

    assert exit_of(quiet) == 0
    assert exit_of(telling) == ExitCode.REFUSED


def test_run_when_the_command_fails_then_says_why_and_ends_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> None:
        await trio.lowlevel.checkpoint()
        error = CommandFailed("no such thing", ExitCode.TIMED_OUT)
        error.add_note("and another thing")
        raise error

    assert exit_of(command) == ExitCode.TIMED_OUT
    assert capsys.readouterr().err == "trio-stomp: no such thing\ntrio-stomp: and another thing\n"


def test_run_when_the_login_is_refused_then_advises_options_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> None:
        async with (
            open_broker(options=BrokerOptions(logins={"guest": "x"})) as broker,
            connect(f"stomp://guest:y@127.0.0.1:{broker.port}"),
        ):
            raise AssertionError

    assert exit_of(command) == ExitCode.REFUSED
    assert "See --login, --ask-passcode and --passcode-file" in capsys.readouterr().err


def test_run_when_the_connection_is_lost_then_has_its_code() -> None:
    async def command(_stop: Stop) -> None:
        await trio.lowlevel.checkpoint()
        raise ConnectionLost("gone")

    assert exit_of(command) == ExitCode.LOST


def test_run_when_nobody_reads_the_output_then_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> None:
        await trio.lowlevel.checkpoint()
        raise BrokenPipeError

    assert exit_of(command) == ExitCode.PIPE_CLOSED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_run_when_a_signal_comes_then_work_ends_and_what_is_around_it_leaves_in_order(
    number: signal.Signals, code: ExitCode
) -> None:
    left: list[str] = []

    async def command(stop: Stop) -> None:
        with stop.work():
            os.kill(os.getpid(), number)
            await trio.Event().wait()
        await trio.lowlevel.checkpoint()
        left.append("in order")

    assert exit_of(command) == code
    assert left == ["in order"]


def test_run_when_a_signal_comes_before_the_work_then_ends_at_once() -> None:
    async def command(_stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    assert exit_of(command) == ExitCode.INTERRUPTED


def test_run_when_a_server_is_interrupted_then_that_is_its_end() -> None:
    async def command(stop: Stop) -> None:
        stop.code = ExitCode.OK
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    assert exit_of(command) == 0


async def test_stop_when_asked_twice_then_does_not_wait_for_order() -> None:
    stop = Stop()
    with stop.everything():
        with stop.work():
            stop.request(signal.SIGINT)
            await trio.Event().wait()
        stop.request(signal.SIGINT)
        await trio.Event().wait()

    assert stop.signal is signal.SIGINT


def test_run_when_the_reader_has_gone_then_the_interpreter_does_not_complain_at_exit() -> None:
    program = textwrap.dedent("""
        import sys, trio
        from trio_stomp.cli.running import ending, run

        async def command(stop):
            while True:
                sys.stdout.write("x" * 100_000)
                sys.stdout.flush()
                await trio.lowlevel.checkpoint()

        with ending():
            run(command)
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()

    assert process.stderr.read() == b""
    assert process.wait(120) == ExitCode.PIPE_CLOSED
    process.stderr.close()
