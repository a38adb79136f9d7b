"""How to run a simulation on an event loop: in virtual time, with an order of tasks that the seed decides."""

from __future__ import annotations

import asyncio
import itertools
import random
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

import anyio
import pytest
import trio
from trio.testing import MockClock

from tests.kit.virtual_loop import VirtualLoop

__all__ = ["LOOPS", "run"]

T = TypeVar("T")


def _run_on_trio(main: Callable[[], Awaitable[T]], seed: int) -> T:
    # Trio offers this to Hypothesis alone: the tasks of a pass in a fixed order, which a generator then shuffles.
    scheduler = trio._core._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", value=True)
        patch.setattr(scheduler, "_r", random.Random(seed))  # noqa: S311  # not a secret
        return trio.run(main, clock=MockClock(autojump_threshold=0))


class _SeededLoop(VirtualLoop):
    """Shuffles the steps of tasks, as the seed decides."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  # not a secret
        self._newest = itertools.count()
        self._numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        super().__init__(self._reorder)

    def create_task(self, coro: Coroutine[object, object, T], **options: object) -> asyncio.Task[T]:  # type: ignore[override]  # asyncio's takes a generator too
        # The options are asyncio's, whatever they are.
        task: asyncio.Task[T] = super().create_task(coro, **options)  # type: ignore[arg-type]
        self._numbers[task] = next(self._newest)
        return task

    def _reorder(self, steps: list[asyncio.Handle]) -> None:
        # anyio cancels tasks in the order of a set, which differs from run to run.
        steps.sort(key=self._number)
        self._chance.shuffle(steps)

    def _number(self, step: asyncio.Handle) -> int:
        task: object = getattr(getattr(step, "_callback", None), "__self__", None)
        return self._numbers[task]


def _run_on_asyncio(main: Callable[[], Awaitable[T]], seed: int) -> T:
    return anyio.run(main, backend="asyncio", backend_options={"loop_factory": partial(_SeededLoop, seed)})


LOOPS = {"asyncio": _run_on_asyncio, "trio": _run_on_trio}


def run(main: Callable[[], Awaitable[T]], seed: int, *, loop: str = "trio") -> T:
    """Run an async function to its end, as the seed decides.

    Args:
        main: The function.
        seed: Decides the order of tasks.
        loop: The event loop, by name.
    """
    return LOOPS[loop](main, seed)
