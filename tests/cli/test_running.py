"""What ends a command, where no command shows it: notes of an error, and signals at certain moments."""

import os
import signal

import pytest
import trio

from tests.cli.exit_code import ExitCode
from trio_stomp.cli.running import AsyncCommand, CommandFailed, Stop, ending, run


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
