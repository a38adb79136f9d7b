"""The lane: waited-for calls behind posted ones, and where failures of the posted ones show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest
import trio

from trio_stomp.blocking.lane import Finish, Lane
from trio_stomp.blocking.pump import Pump
from trio_stomp.blocking.trio_thread import open_trio_thread
from trio_stomp.errors import StompError

CtrlC = Callable[[threading.Event], None]


@pytest.fixture
def lane() -> Generator[Lane]:
    with open_trio_thread() as thread:
        pump = Pump(thread)
        thread.serve(pump.run)
        yield Lane(thread, pump)


async def succeed() -> str:
    await trio.lowlevel.checkpoint()
    return "done"


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise StompError("no")


def test_call_when_something_was_posted_then_comes_after_it(lane: Lane) -> None:
    notes: list[str] = []

    async def slow() -> None:
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        notes.append("posted")

    async def called() -> None:
        await trio.lowlevel.checkpoint()
        notes.append("called")

    number = lane.post(slow)
    lane.call(called)

    assert notes == ["posted", "called"]
    assert lane.is_done(number)
    assert not lane.has_posted


def test_failure_when_posted_then_raised_by_the_next_call_once_and_says_so(lane: Lane) -> None:
    lane.post(fail)

    with pytest.raises(StompError, match="no") as caught:
        lane.call(succeed)

    assert "an earlier call" in caught.value.__notes__[0]
    assert lane.call(succeed) == "done"


def test_failure_when_it_is_known_then_raised_by_the_next_post(lane: Lane) -> None:
    lane.post(fail)
    lane.call(lane.wait_done, raises_earlier=False)

    with pytest.raises(StompError):
        lane.post(succeed)


def test_failure_when_of_a_branch_then_raised_there_alone(lane: Lane) -> None:
    branch = lane.branch()
    branch.post(fail)

    assert lane.call(succeed) == "done"
    with pytest.raises(StompError):
        branch.catch_up()
    branch.catch_up()


def test_finish_when_the_block_ends_then_all_is_done(lane: Lane) -> None:
    with Finish(lane):
        number = lane.post(succeed)

    assert lane.is_done(number)


@pytest.mark.parametrize("raises", [False, True])
def test_finish_when_something_failed_then_raised_or_kept(lane: Lane, *, raises: bool) -> None:
    if raises:
        with pytest.raises(StompError):
            with Finish(lane, raises=True):
                lane.post(fail)
        assert lane.take_failure() is None
    else:
        with Finish(lane):
            lane.post(fail)
        assert lane.take_failure() is not None


def test_finish_when_the_block_raises_then_its_error_bears_a_note_of_the_other(lane: Lane) -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        with Finish(lane, raises=True):
            lane.post(fail)
            raise ValueError("mine")

    assert any("has failed: no" in note for note in caught.value.__notes__)


def test_finish_when_interrupted_then_not_waited_for_long(lane: Lane) -> None:
    gate = trio.Event()

    with pytest.raises(KeyboardInterrupt):
        with Finish(lane):
            lane.post(gate.wait)
            raise KeyboardInterrupt

    assert lane.has_posted
