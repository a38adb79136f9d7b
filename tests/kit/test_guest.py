"""A run that is driven step by step stands still between the steps, on each loop."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.kit.guest import guest
from tests.kit.loops import LOOPS, LoopName

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Background:
    """Counts the seconds, and fails when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0
        self.fails = False
        self.steps = 0

    async def run(self) -> None:
        while not self.fails:
            await anyio.sleep(1)
            self.seconds += 1
        raise LookupError

    async def step(self) -> None:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.steps += 1


def test_time_when_told_to_pass_then_as_much_and_none_in_a_step(loop: LoopName) -> None:
    background = Background()
    run = guest(loop, background.run)
    run.do(background.step)
    assert (background.steps, background.seconds) == (1, 0)
    run.pass_time(1)
    assert background.seconds == 1
    run.pass_time(0.5)
    run.do(background.step)
    assert (background.steps, background.seconds) == (2, 1)
    run.end()


def test_error_when_the_background_fails_then_raised_by_that_step(loop: LoopName) -> None:
    background = Background()
    run = guest(loop, background.run)
    background.fails = True
    with pytest.RaisesGroup(LookupError, flatten_subgroups=True, allow_unwrapped=True):
        run.pass_time(1)
    run.kill()


def test_error_when_a_step_fails_then_raised_there(loop: LoopName) -> None:
    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise LookupError

    run = guest(loop, Background().run)
    with pytest.RaisesGroup(LookupError, flatten_subgroups=True, allow_unwrapped=True):
        run.do(fail)
    run.kill()
