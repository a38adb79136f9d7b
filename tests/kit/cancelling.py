"""Cancelling an operation at each of its steps in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

__all__ = ["Outcome", "cancelled_at_step"]


class _AtStep(trio.abc.Instrument):
    """Cancels a scope when a task is about to make its n-th step."""

    def __init__(self, task: trio.lowlevel.Task, step: int, scope: trio.CancelScope) -> None:
        self._task = task
        self._step = step
        self._scope = scope
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self.steps += 1
            if self.steps == self._step:
                self._scope.cancel()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation under cancellation ended.

    Attributes:
        reached: It made as many steps as it was to be cancelled at; if not, the sweep is over.
        cancelled: The cancellation was raised in it, and it let it through.
    """

    reached: bool
    cancelled: bool


async def cancelled_at_step(operation: Callable[[], Awaitable[object]], step: int) -> Outcome:
    """Run an operation in a task of its own, and cancel it when it is about to make its `step`-th step.

    A task makes a step each time that it goes on after an await that gave way: cancelled before one of them, it is
    raised at that await if it still waits there, and at the next checkpoint otherwise.
    """
    outcome: list[Outcome] = []

    async def run() -> None:
        scope = trio.CancelScope()
        instrument = _AtStep(trio.lowlevel.current_task(), step, scope)
        with scope:
            trio.lowlevel.add_instrument(instrument)
            try:
                # The first step is already under way when the instrument is there.
                await trio.lowlevel.cancel_shielded_checkpoint()
                await operation()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        outcome.append(Outcome(instrument.steps >= step, scope.cancelled_caught))

    # A task of its own: only its steps are counted.
    async with trio.open_nursery() as nursery:  # noqa: ASYNC112  # the task is what is wanted
        nursery.start_soon(run)
    return outcome[0]
