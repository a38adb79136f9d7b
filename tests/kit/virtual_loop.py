"""An asyncio event loop on virtual time: what `trio.testing.MockClock` with autojump is to Trio.

Nothing waits. When no callback is ready, the clock jumps to the next timer; when there is no timer either and nothing
from outside can come, the loop raises `Hang`, which says where each task waits. Worker threads and sockets are outside:
for them it waits in real time.

Two packages do much the same. async-solipsism has no real sockets at all, and looptime patches the loop of a plugin of
its own; neither can wait until all tasks are blocked without letting time pass, nor shuffle what is ready.
"""

# The key of a selector, as typeshed has it, holds whatever was registered.
# mypy: disable-error-code="explicit-any"

from __future__ import annotations

import asyncio
import collections
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar, TypeVarTuple, Unpack

from anyio._backends._asyncio import WorkerThread

__all__ = ["Hang", "VirtualLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Real seconds that a worker thread may take.
_PATIENCE: Final = 60.0
# Passes in which some callback was ready and no time passed. More than any test needs; a task that swallows the
# cancellation of an anyio scope is canceled again in each of them, for ever.
_TOO_MANY_PASSES: Final = 1_000_000


class Hang(AssertionError):
    """Nothing will ever happen in this loop, and yet it is to run on."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while anything can run, and then jumps.

    Args:
        shuffle: Called with the list of the task steps that are ready, in each pass with more than one, and may
            reorder it: ``random.Random(seed).shuffle`` gives another schedule for each seed, and the same one for the
            same seed. Callbacks that are not tasks keep their places, because asyncio's own transports rely on them.

    Attributes:
        on_pass: Called at the beginning of each pass of the loop, before anything of it runs.
    """

    # asyncio's own, which the types leave out.
    _ready: collections.deque[asyncio.Handle]

    def __init__(self, shuffle: Callable[[list[asyncio.Handle]], object] | None = None) -> None:
        self._selector_of_time = _JumpingSelector()
        self._now = 0.0
        self._shuffle = shuffle
        self._calls_of_executors = 0
        self._idle_waiters: list[asyncio.Future[None]] = []
        self.on_pass: Callable[[], object] | None = None
        super().__init__(self._selector_of_time)
        self._selector_of_time.loop = self

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass at once. What falls due in it runs afterwards, in the order of its time."""
        self._now += seconds

    async def wait_all_tasks_blocked(self) -> None:
        """Wait until every other task waits for something. No time passes meanwhile.

        As on Trio, a task that waits for a thread or a socket is blocked too.
        """
        waiter = self.create_future()
        self._idle_waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._idle_waiters:
                self._idle_waiters.remove(waiter)

    # --- for the selector -----------------------------------------------------------------------------------------

    def begin_pass(self) -> bool:
        """Do what is to be done at the beginning of a pass; returns whether something is ready then."""
        if self.on_pass is not None:
            self.on_pass()
        self._order_ready()
        return bool(self._ready)

    def _order_ready(self) -> None:
        if self._shuffle is None or len(self._ready) < 2:
            return
        places = [number for number, handle in enumerate(self._ready) if _is_task_step(handle)]
        steps = [self._ready[place] for place in places]
        if len(steps) > 1:
            self._shuffle(steps)
            for place, handle in zip(places, steps, strict=True):
                self._ready[place] = handle

    def wake_idle_waiters(self) -> bool:
        """Wake those who wait until all others are blocked; returns whether there were any."""
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return bool(waiters)

    def has_threads_at_work(self) -> bool:
        """Whether a worker thread has something to do for this loop: an executor's, or anyio's."""
        return self._calls_of_executors > 0 or any(
            isinstance(thread, WorkerThread)
            and thread.loop is self
            and thread not in thread.idle_workers
            and not thread.stopping
            for thread in threading.enumerate()
        )

    def hang(self, reason: str) -> Hang:
        """The error that says where all tasks wait."""
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return Hang("\n  ".join([f"{reason} at {self._now} s of virtual time; tasks:", *map(_where, tasks)]))

    # --- what runs in threads -------------------------------------------------------------------------------------

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._calls_of_executors += 1
        future.add_done_callback(self._executor_is_done)
        return future

    def _executor_is_done(self, _future: object) -> None:
        self._calls_of_executors -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncio's
        # asyncio waits for the executor's threads in a thread of its own, and since Python 3.12 not for ever.
        del timeout
        self._calls_of_executors += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._calls_of_executors -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Asked once in each pass of the loop, with the time until the next timer."""

    loop: VirtualLoop

    def __init__(self) -> None:
        super().__init__()
        self._passes = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self.loop
        is_busy = loop.begin_pass()
        # While something is ready, there is no need to look at the loop's own pipe, by which threads wake it.
        found = [] if is_busy and len(self.get_map()) == 1 else super().select(0)
        if found or is_busy or timeout == 0:
            self._passes += 1
            if self._passes > _TOO_MANY_PASSES:
                raise loop.hang("the tasks keep running, but no time passes")
            return found
        self._passes = 0
        if loop.wake_idle_waiters():
            return []
        if loop.has_threads_at_work():
            found = super().select(_PATIENCE)
            if not found:
                raise loop.hang(f"a worker thread has taken {_PATIENCE:g} s")
        elif len(self.get_map()) > 1:
            # Not only that pipe.
            begin = time.monotonic()
            found = super().select(timeout)
            loop.jump(time.monotonic() - begin if found or timeout is None else timeout)
        elif timeout is None:
            raise loop.hang("nothing will ever happen")
        else:
            loop.jump(timeout)
        return found


def _is_task_step(handle: asyncio.Handle) -> bool:
    # As asyncio itself finds out which task a slow callback belongs to.
    return isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), asyncio.Task)


def _where(task: asyncio.Task[object]) -> str:
    """The awaits of a task that wait for each other, from its function inwards."""
    places: list[str] = []
    waiting: object = task.get_coro()
    while waiting is not None:
        frame: FrameType | None = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
        if frame is not None:
            code = frame.f_code
            places.append(f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})")
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)
    return f"{task.get_name()}: {' > '.join(places)}"
