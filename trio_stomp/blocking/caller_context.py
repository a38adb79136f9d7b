"""Doing something in the thread of trio as if in the context of the thread that has asked for it.

A task has one context, and the pump is one task for all callers. So the steps of each action are run in the context of
its caller, one by one: what the action awaits goes up to trio, and what trio answers goes down to the action.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Generator
from functools import partial

__all__ = ["in_context"]


class _InContext:
    def __init__(self, context: contextvars.Context, function: Callable[[], Awaitable[object]]) -> None:
        self._context = context
        self._function = function

    def __await__(self) -> Generator[object, object, None]:
        run = self._context.run
        steps: Generator[object, object, object] = run(lambda: self._function().__await__())
        step: Callable[[], object] = partial(steps.send, None)
        while True:
            try:
                wanted = run(step)
            except StopIteration:
                return
            try:
                step = partial(steps.send, (yield wanted))
            except BaseException as error:  # noqa: BLE001  # thrown on, into the action
                step = partial(steps.throw, error)


def in_context(
    context: contextvars.Context, function: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[object]]:
    """A function that does the same in a context.

    Args:
        context: The context, in which nobody else runs.
        function: What to do.
    """
    return lambda: _InContext(context, function)
