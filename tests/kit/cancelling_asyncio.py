"""Cancelling an operation on asyncio at each of its steps in turn, in two ways."""

from __future__ import annotations

import asyncio
import enum
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import cast

from tests.kit.cancelling import Outcome

__all__ = ["Moment", "Sweep", "cancelled_at_step"]

# The trio thread may be done with a call before its task begins to wait. So a wait that did not come is tried again.
_ATTEMPTS = 3
# More waits than any operation has: a sweep that gets so far does not end by itself, and is wrong.
_TOO_MANY = 60


class Moment(enum.Enum):
    """When a waiting task is cancelled.

    Attributes:
        WHILE_WAITING: Right after it has begun to wait.
        WHEN_WOKEN: In the moment when what it waits for is there, and before it goes on.
    """

    WHILE_WAITING = "while waiting"
    WHEN_WOKEN = "when woken"


@types.coroutine
def _cancelling(
    operation: Coroutine[object, object, object], step: int, moment: Moment, reached: list[int]
) -> Generator[object, object, object]:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    steps = 0
    error: BaseException | None = None
    while True:
        try:
            trap = operation.send(None) if error is None else operation.throw(error)
        except StopIteration as end:
            return cast("object", end.value)
        steps += 1
        if steps == step:
            reached.append(step)
            if isinstance(trap, asyncio.Future) and moment is Moment.WHEN_WOKEN:
                # Before the callback that wakes the task: that one is added when the task sees the future.
                cast("asyncio.Future[object]", trap).add_done_callback(lambda _: task.cancel())
            else:
                loop.call_soon(task.cancel)
        error = None
        try:
            yield trap
        except BaseException as thrown:  # noqa: ASYNC103, BLE001  # raised in the operation
            error = thrown


async def cancelled_at_step(
    operation: Callable[[], Coroutine[object, object, object]], step: int, moment: Moment
) -> Outcome:
    """Run an operation in a task of its own, and cancel it at its `step`-th wait."""
    reached: list[int] = []

    async def run() -> None:
        await _cancelling(operation(), step, moment, reached)

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return Outcome(bool(reached), task.cancelled())


class Sweep:
    """The waits of an operation, in turn: ``for step in sweep``, with `note` at the end of each round.

    Attributes:
        cancelled: How often the operation was cancelled.
    """

    def __init__(self) -> None:
        self.cancelled = 0
        self._missed = 0
        self._step = 1

    def __iter__(self) -> Iterator[int]:
        """Go on until a wait does not come."""
        while self._missed < _ATTEMPTS:
            assert self._step < _TOO_MANY
            yield self._step

    def note(self, outcome: Outcome) -> None:
        """Note what came of a round."""
        self.cancelled += outcome.cancelled
        if outcome.reached:
            self._step, self._missed = self._step + 1, 0
        else:
            self._missed += 1
