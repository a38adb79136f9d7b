"""Each way to cancel an operation strikes it at the await that was meant."""

from __future__ import annotations

import anyio
import pytest

from tests.kit.cancelling import Moment, Outcome, Way, cancelled_at_step, in_each_way
from tests.kit.loops import LOOPS, nothing_left

pytestmark = pytest.mark.anyio


class Operation:
    """Three awaits, and one to clean up.

    Attributes:
        reached: The last await that was over.
        cleaned: Whether it could clean up.
    """

    def __init__(self) -> None:
        self.reached = 0
        self.cleaned = False

    async def run(self) -> None:
        try:
            for _ in range(3):
                await anyio.sleep(1)
                self.reached += 1
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            self.cleaned = True


@in_each_way(*LOOPS)
async def test_operation_when_canceled_at_its_second_await_then_struck_there(way: Way, moment: Moment) -> None:
    operation = Operation()
    async with nothing_left():
        outcome = await cancelled_at_step(operation.run, 3, way, moment)
    assert outcome == Outcome(reached=True, cancelled=True)
    if moment is Moment.WAITING or way in (Way.TASK, Way.TWICE, Way.TIMEOUT):
        # asyncio's own cancellation overtakes a wake-up of the same round.
        assert operation.reached == 1
    else:
        assert operation.reached in (1, 2)
    # Only a second cancellation of asyncio's own gets through a shield.
    assert operation.cleaned == (way is not Way.TWICE)


@in_each_way(*LOOPS)
async def test_operation_when_it_has_fewer_awaits_then_it_is_left_alone(way: Way, moment: Moment) -> None:
    operation = Operation()
    outcome = await cancelled_at_step(operation.run, 9, way, moment)
    assert outcome == Outcome(reached=False, cancelled=False)
    assert (operation.reached, operation.cleaned) == (3, True)


@in_each_way(*LOOPS)
async def test_operation_when_it_fails_then_that_is_raised(way: Way, moment: Moment) -> None:
    async def fail() -> None:
        await anyio.sleep(1)
        raise LookupError

    expected = pytest.RaisesGroup(LookupError) if way is Way.GROUP else pytest.raises(LookupError)
    with expected:
        await cancelled_at_step(fail, 9, way, moment)
