"""Canceling an operation at each of its steps in turn, in every way in which a program can, on trio and on asyncio.

A task makes a step each time that it goes on after an await that gave way. trio cancels by scopes alone, whose
cancellation is raised at every await until the scope is left. asyncio has them too, by anyio, and besides cancels
tasks: that is raised once, and may meet a wake-up that has happened but has not been seen yet.
"""

from __future__ import annotations

import asyncio
import enum
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import anyio
import anyio.lowlevel
import pytest
import trio

from tests.kit.loops import LoopName

__all__ = ["Moment", "Outcome", "Way", "cancelled_at_step", "in_each_way"]


class Way(enum.Enum):
    """How an operation is canceled.

    Attributes:
        SCOPE: By a cancel scope, trio's or anyio's. The others are asyncio's own.
        TASK: By ``task.cancel()``.
        TWICE: By ``task.cancel()``, and again as soon as it waits for something to clean up.
        TIMEOUT: By ``asyncio.timeout()``.
        WAIT_FOR: By ``task.cancel()`` of a task that runs it in ``asyncio.wait_for()``.
        GROUP: By an ``asyncio.TaskGroup``, another task of which fails.
    """

    SCOPE = "scope"
    TASK = "task"
    TWICE = "twice"
    TIMEOUT = "timeout"
    WAIT_FOR = "wait_for"
    GROUP = "group"


class Moment(enum.Enum):
    """When it is canceled, as to one of its awaits.

    Attributes:
        WAITING: When it has begun to wait.
        WOKEN: When what it waits for is there, and before it goes on.
    """

    WAITING = "waiting"
    WOKEN = "woken"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation under cancellation ended.

    Attributes:
        reached: It made as many steps as it was to be canceled at; if not, the sweep is over.
        cancelled: The cancellation was raised in it, and it let it through.
    """

    reached: bool
    cancelled: bool


def in_each_way(*loops: LoopName) -> pytest.MarkDecorator:
    """Run a test that is marked ``anyio`` in each way and at each moment on these loops: its `way` and `moment`."""
    cases = [
        pytest.param(loop, way, moment, id=f"{loop}-{way.value}-{moment.value}")
        for loop in loops
        for way in ([Way.SCOPE] if loop.startswith("trio") else Way)
        for moment in Moment
    ]
    return pytest.mark.parametrize(("anyio_backend", "way", "moment"), cases, indirect=["anyio_backend"])


async def cancelled_at_step(
    operation: Callable[[], Awaitable[object]], step: int, way: Way = Way.SCOPE, moment: Moment = Moment.WOKEN
) -> Outcome:
    """Run an operation, and cancel it at its `step`-th await that gives way; the first is before it begins."""
    steps = _Steps(operation, step, moment)
    await _RUN_IN[way](steps)
    return Outcome(steps.reached, steps.cancelled)


class _Steps:
    """An operation whose awaits are counted, and which is struck at one of them.

    Attributes:
        strike: Cancels it.
        strike_again: Called when it waits for the first time after that.
        reached: Whether it got so far.
        cancelled: Whether it ended with the cancellation.
    """

    def __init__(self, operation: Callable[[], Awaitable[object]], at: int, moment: Moment) -> None:
        self._operation = operation
        self._at = at
        self._moment = moment
        self.strike: Callable[[], object] = lambda: None
        self.strike_again: Callable[[], object] | None = None
        self._is_over = False
        self.reached = False
        self.cancelled = False

    async def run(self) -> None:
        """Run it, struck as arranged. What it raises is raised here, be it the cancellation."""

        async def operation() -> None:
            # Struck here, a scope is canceled when the operation begins.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            await self._operation()

        try:
            await self._driven(operation())
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        finally:
            self._is_over = True

    def _strike(self) -> None:
        if not self._is_over:
            self.strike()

    def _strike_again(self) -> None:
        if self.strike_again is not None and not self._is_over:
            self.strike_again()

    @types.coroutine
    def _driven(self, operation: Coroutine[object, object, None]) -> Generator[object, object, None]:
        steps = 0
        answer: object = None
        error: BaseException | None = None
        while True:
            try:
                trap = operation.send(answer) if error is None else operation.throw(error)
            except StopIteration:
                return
            steps += 1
            if steps == self._at:
                self.reached = True
                self._strike_while(trap)
            elif steps == self._at + 1:
                _soon(self._strike_again)
            answer, error = None, None
            try:
                answer = yield trap
            except BaseException as thrown:  # noqa: ASYNC103, BLE001  # raised in the operation
                error = thrown
            if steps == self._at and self._moment is Moment.WOKEN and trio.lowlevel.in_trio_run():
                self._strike()

    def _strike_while(self, trap: object) -> None:
        if self._moment is Moment.WAITING:
            _soon(self._strike)
        elif isinstance(trap, asyncio.Future):
            # Before the callback that wakes the task: that one is added when the task sees the future.
            cast("asyncio.Future[object]", trap).add_done_callback(lambda _: self._strike())
        elif not trio.lowlevel.in_trio_run():
            # It waits for nothing but the next round of the loop.
            _soon(self._strike)


def _soon(function: Callable[[], object]) -> None:
    if trio.lowlevel.in_trio_run():
        trio.lowlevel.current_trio_token().run_sync_soon(function)
    else:
        asyncio.get_running_loop().call_soon(function)


async def _in_scope(steps: _Steps) -> None:
    with anyio.CancelScope() as scope:
        steps.strike = scope.cancel
        await steps.run()
    # What comes out of a group of tasks may hold more than one cancellation.
    steps.cancelled = scope.cancelled_caught


async def _in_task(steps: _Steps) -> None:
    await _cancelled_as(steps, asyncio.create_task(steps.run()))


async def _in_task_cancelled_twice(steps: _Steps) -> None:
    task = asyncio.create_task(steps.run())
    steps.strike_again = task.cancel
    await _cancelled_as(steps, task)


async def _in_wait_for(steps: _Steps) -> None:
    await _cancelled_as(steps, asyncio.create_task(asyncio.wait_for(steps.run(), 1e9)))


async def _cancelled_as(steps: _Steps, task: asyncio.Task[None]) -> None:
    steps.strike = task.cancel
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _in_timeout(steps: _Steps) -> None:
    limit = asyncio.timeout(None)
    # By its own timer it would come a round later. The types leave it out.
    steps.strike = getattr(limit, "_on_timeout")  # noqa: B009
    try:
        async with limit:
            await steps.run()
    except TimeoutError:
        assert limit.expired()


async def _beside_a_task_that_fails(steps: _Steps) -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def fail() -> None:
        await failing

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            other = group.create_task(fail())
            await steps.run()
            # A cancellation that the operation did not see ends here, and not behind the group: before Python 3.13, a
            # group does not take it back.
            await asyncio.sleep(0)
            other.cancel()

    steps.strike = partial(failing.set_exception, _OtherError())
    task = asyncio.create_task(run())
    try:
        await task
    except* _OtherError:
        pass


class _OtherError(Exception):
    """What the other task of a group fails with."""


_RUN_IN: Final[dict[Way, Callable[[_Steps], Awaitable[None]]]] = {
    Way.SCOPE: _in_scope,
    Way.TASK: _in_task,
    Way.TWICE: _in_task_cancelled_twice,
    Way.TIMEOUT: _in_timeout,
    Way.WAIT_FOR: _in_wait_for,
    Way.GROUP: _beside_a_task_that_fails,
}
