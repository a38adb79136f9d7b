"""Each way to cancel an operation strikes it at the await that was meant."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest

from tests.kit.cancelling import Moment, Outcome, Way, cancelled_at_step, in_each_way
from tests.kit.loops import LOOPS, nothing_left, on_loops

pytestmark = pytest.mark.anyio


class Operation:
    """Three awaits, and one to clean up.

    Attributes:
        begun: Whether it has begun.
        reached: The last await that was over.
        cleaned: Whether it could clean up.
    """

    def __init__(self) -> None:
        self.begun = False
        self.reached = 0
        self.cleaned = False

    async def run(self) -> None:
        self.begun = True
        try:
            for _ in range(3):
                await anyio.sleep(1)
                self.reached += 1
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            self.cleaned = True


@in_each_way(*LOOPS)
async def test_operation_when_canceled_at_each_step_then_struck_everywhere_and_left_alone_behind_its_end(
    way: Way, moment: Moment
) -> None:
    at: set[int] = set()
    cleaned: set[bool] = set()
    for step in range(1, 100):
        operation = Operation()
        async with nothing_left():
            outcome = await cancelled_at_step(operation.run, step, way, moment)
        if not outcome.reached:
            assert outcome == Outcome(reached=False, cancelled=False)
            assert (operation.reached, operation.cleaned) == (3, True)
            break
        if operation.begun and outcome.cancelled and operation.reached < 3:
            at.add(operation.reached)
            cleaned.add(operation.cleaned)
    assert at == {0, 1, 2}
    # Only a second cancellation of asyncio's own gets through a shield.
    assert cleaned == {way is not Way.TWICE}


@pytest.mark.parametrize("way", [Way.TASK, Way.TIMEOUT])
@on_loops("asyncio")
async def test_operation_when_it_swallows_a_cancellation_of_asyncio_then_told(way: Way) -> None:
    async def swallow() -> None:
        with suppress(asyncio.CancelledError):
            await anyio.sleep(1)

    with pytest.raises(AssertionError, match="swallowed"):
        await cancelled_at_step(swallow, 2, way, Moment.WOKEN)


@in_each_way(*LOOPS)
async def test_operation_when_it_fails_then_that_is_raised(way: Way, moment: Moment) -> None:
    async def fail() -> None:
        await anyio.sleep(1)
        raise LookupError

    expected = pytest.RaisesGroup(LookupError) if way is Way.GROUP else pytest.raises(LookupError)
    with expected:
        await cancelled_at_step(fail, 9, way, moment)
