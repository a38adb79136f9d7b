"""Canceling an operation at each of its steps in turn, in every way in which a program can, on trio and on asyncio.

A step is a pass of the loop; or an await of the operation that gave way, and now it is to go on. trio cancels by
scopes alone, whose cancellation is raised at every await until the scope is left. asyncio has them too, by anyio, and
besides cancels tasks: that is raised once, and may meet a wake-up that has happened but has not been seen yet.
"""

from __future__ import annotations

import asyncio
import enum
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Final, cast

import anyio
import anyio.lowlevel
import pytest
import trio

from tests.kit.loops import LoopName
from tests.kit.virtual_loop import VirtualLoop

__all__ = ["SCOPES_PASS_ON_CANCELLATIONS", "Moment", "Outcome", "Way", "cancelled_at_step", "in_each_way"]

# Before, a scope of anyio took a task's cancellation for its own if it expired in the same pass (its issue 1214).
SCOPES_PASS_ON_CANCELLATIONS: Final = tuple(map(int, version("anyio").split(".")[:2])) >= (4, 16)


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
    """When it is canceled.

    Attributes:
        PASS: At the beginning of a pass of the loop, whatever the operation waits for then.
        WOKEN: When what it waits for is there, and before it goes on.
    """

    PASS = "pass"
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
    operation: Callable[[], Awaitable[object]],
    step: int,
    way: Way = Way.SCOPE,
    moment: Moment = Moment.WOKEN,
    *,
    strike: Callable[[], object] | None = None,
) -> Outcome:
    """Run an operation, and cancel it at its `step`-th step; the first is before it begins.

    With `strike`, that is called instead of canceling it, and `way` says nothing.
    """
    steps = _Steps(operation, step, moment)
    if strike is not None:
        steps.strike = strike
        await steps.run()
        return Outcome(steps.reached, steps.cancelled)
    await _RUN_IN[way](steps)
    if way in (Way.TASK, Way.TWICE, Way.TIMEOUT) and SCOPES_PASS_ON_CANCELLATIONS:
        assert steps.cancelled or not steps.struck, "it has swallowed the cancellation"
    return Outcome(steps.reached, steps.cancelled)


class _Steps:
    """An operation whose steps are counted, and which is struck at one of them.

    Attributes:
        strike: Cancels it.
        strike_again: Called when it waits for the first time after that.
        reached: Whether it got so far.
        struck: Whether it was still running then.
        cancelled: Whether it ended with the cancellation.
    """

    def __init__(self, operation: Callable[[], Awaitable[object]], at: int, moment: Moment) -> None:
        self._operation = operation
        self._at = at
        self._moment = moment
        self._steps = 0
        self._is_over = False
        self.strike: Callable[[], object] = lambda: None
        self.strike_again: Callable[[], object] | None = None
        self.reached = False
        self.struck = False
        self.cancelled = False

    async def run(self) -> None:
        """Run it, struck as arranged. What it raises is raised here, be it the cancellation."""

        async def operation() -> None:
            # Struck here, a scope is canceled when the operation begins.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            await self._operation()

        try:
            with _each_pass(self._pass) if self._moment is Moment.PASS else nullcontext():
                await self._driven(operation())
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        finally:
            self._is_over = True

    def _count(self) -> bool:
        self._steps += 1
        self.reached |= self._steps == self._at
        return self._steps == self._at

    def _pass(self) -> None:
        if self._count():
            self._strike()

    def _strike(self) -> None:
        if not self._is_over:
            self.struck = True
            self.strike()

    def _strike_again(self) -> None:
        strike, self.strike_again = self.strike_again, None
        if strike is not None and not self._is_over:
            strike()

    @types.coroutine
    def _driven(self, operation: Coroutine[object, object, None]) -> Generator[object, object, None]:
        answer: object = None
        error: BaseException | None = None
        while True:
            try:
                trap = operation.send(answer) if error is None else operation.throw(error)
            except StopIteration:
                return
            is_the_one = self._moment is Moment.WOKEN and self._count()
            if error is not None and self.struck:
                # It cleans up.
                asyncio.get_running_loop().call_soon(self._strike_again)
            elif is_the_one:
                self._strike_when_woken(trap)
            answer, error = None, None
            try:
                answer = yield trap
            except BaseException as thrown:  # noqa: ASYNC103, BLE001  # raised in the operation
                error = thrown
            if is_the_one and trio.lowlevel.in_trio_run():
                self._strike()

    def _strike_when_woken(self, trap: object) -> None:
        if isinstance(trap, asyncio.Future):
            # Before the callback that wakes the task: that one is added when the task sees the future.
            cast("asyncio.Future[object]", trap).add_done_callback(lambda _: self._strike())
        elif not trio.lowlevel.in_trio_run():
            # It waits for nothing but the next pass of the loop.
            asyncio.get_running_loop().call_soon(self._strike)


class _Passes(trio.abc.Instrument):
    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def after_io_wait(self, timeout: float) -> None:
        del timeout
        self._function()


@contextmanager
def _each_pass(function: Callable[[], object]) -> Generator[None]:
    """Call a function at the beginning of each pass of the loop."""
    if trio.lowlevel.in_trio_run():
        passes = _Passes(function)
        trio.lowlevel.add_instrument(passes)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(passes)
    else:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        loop.on_pass = function
        try:
            yield
        finally:
            loop.on_pass = None


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
