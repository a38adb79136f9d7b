"""What ends a command, where no command shows it: notes of an error, and signals at certain moments."""

import errno
import os
import signal
import sys

import pytest
import trio

from tests.cli.exit_code import ExitCode
from trio_stomp.cli.running import AsyncCommand, CommandFailed, Stop, ending, run, terminable


def exit_of(command: AsyncCommand) -> object:
    """The status with which the process would end."""
    with pytest.raises(SystemExit) as end, ending():
        run(command)
    return end.value.code


def test_run_when_an_error_has_notes_then_each_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> None:
        await trio.lowlevel.checkpoint()
        error = CommandFailed("no such thing")
        error.add_note("and another thing")
        raise error

    assert exit_of(command) == ExitCode.FAILED
    assert capsys.readouterr().err == "trio-stomp: no such thing\ntrio-stomp: and another thing\n"


def windows_error(winerror: int | None) -> OSError:
    error = OSError(errno.EINVAL, "Invalid argument")
    # Elsewhere, errors do not have it.
    vars(error)["winerror"] = winerror
    return error


@pytest.mark.parametrize(
    ("error", "platform", "code", "said"),
    [
        (BrokenPipeError(), "linux", ExitCode.PIPE_CLOSED, ""),
        (windows_error(None), "win32", ExitCode.PIPE_CLOSED, ""),
        (windows_error(None), "linux", None, ""),
        (windows_error(10022), "win32", None, ""),
        (OSError(errno.EINVAL, "Invalid argument", "a:b"), "win32", None, ""),
        (OSError(errno.ENOENT, "no file"), "win32", None, ""),
        *(
            (OSError(number, "it is full"), "linux", ExitCode.FAILED, "the output cannot be written: it is full")
            for number in (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT)
        ),
        (OSError(errno.ENOSPC, "it is full", "/a/file"), "linux", None, ""),
    ],
)
def test_ending_when_an_error_is_of_the_output_then_its_status_and_else_raises_it(
    error: OSError,
    platform: str,
    code: ExitCode | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched, pytest.raises((SystemExit, OSError)) as end, ending():
        patched.setattr(sys, "platform", platform)
        raise error

    if code is None:
        assert end.value is error
    else:
        assert isinstance(end.value, SystemExit)
        assert end.value.code == code
    assert capsys.readouterr().err == (f"trio-stomp: {said}\n" if said else "")


def test_terminable_when_sigterm_comes_then_left_by_an_exception_and_the_signal_is_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as end, terminable():
        signal.raise_signal(signal.SIGTERM)

    assert end.value.code == ExitCode.TERMINATED
    assert signal.getsignal(signal.SIGTERM) == before


def test_run_when_a_signal_comes_before_the_work_then_ends_at_once() -> None:
    async def command(_stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    assert exit_of(command) == ExitCode.INTERRUPTED


async def test_stop_when_asked_twice_then_does_not_wait_for_order() -> None:
    stop = Stop()
    with stop.everything:
        with stop.work():
            stop.request(signal.SIGINT)
            await trio.Event().wait()
        stop.request(signal.SIGINT)
        await trio.Event().wait()

    assert stop.signal is signal.SIGINT


async def test_stop_when_asked_after_the_work_then_the_rest_does_not_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stop = Stop()
    with stop.everything:
        with stop.work():
            await trio.sleep(1)
        stop.request(signal.SIGTERM)
        await trio.sleep(1)

    assert trio.current_time() == 1


@pytest.mark.parametrize("signals", [1, 2])
async def test_stop_when_a_block_may_settle_then_it_has_its_time_also_after_a_signal_just_before_it(
    autojump_clock: trio.testing.MockClock, signals: int
) -> None:
    stop = Stop()
    with stop.everything:
        with stop.work():
            stop.request(signal.SIGINT)
            async with stop.settling(2):
                with trio.move_on_after(1):
                    await trio.sleep_forever()
                if signals > 1:
                    stop.request(signal.SIGINT)
                await trio.sleep_forever()

    assert trio.current_time() == (2 if signals == 1 else 1)
