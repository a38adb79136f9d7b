"""A run of an event loop that is driven step by step from synchronous code: for Hypothesis' state machines.

Time is virtual, and passes only when it is told to. Between two steps the run stands still. A step is an async
function; it is over when it has returned and every task of the run waits for something.
"""

from __future__ import annotations

import abc
import asyncio
import queue
from collections.abc import Callable, Coroutine
from typing import Final

import outcome
import trio
import trio.testing

from tests.kit.loops import LoopName
from tests.kit.virtual_loop import VirtualLoop

__all__ = ["Guest", "guest"]

Step = Callable[[], Coroutine[object, object, None]]

# Real seconds in which a step must be over: it has nothing to wait for but other tasks.
_PATIENCE: Final = 120.0


class Guest(abc.ABC):
    """A run, and its host."""

    @abc.abstractmethod
    def do(self, step: Step) -> None:
        """Run a step to its end.

        Raises:
            BaseException: What ended the run, be it this step or a task in the background.
        """

    @abc.abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""

    @abc.abstractmethod
    def kill(self) -> None:
        """End the run, whatever has happened in it: no other could begin in this thread."""

    @abc.abstractmethod
    def end(self) -> None:
        """End the run, and raise what ended it."""


def guest(loop: LoopName, body: Step) -> Guest:
    """Begin a run on this loop.

    Args:
        loop: One that has virtual time.
        body: Runs in the background for the whole run; it is canceled in the end.
    """
    return _TrioGuest(body) if loop == "trio" else _AsyncioGuest(body)


class _TrioGuest(Guest):
    def __init__(self, body: Step) -> None:
        self._body = body
        self._callbacks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._steps_over = 0
        self._steps_given = 0
        self._ended: list[outcome.Outcome[None]] = []
        self._token: trio.lowlevel.TrioToken | None = None
        self._cancel = trio.CancelScope()
        self._clock = trio.testing.MockClock()
        self._send_step, self._receive_step = trio.open_memory_channel[Step](100)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._callbacks.put,
            done_callback=self._ended.append,
            clock=self._clock,
        )
        self._pump(lambda: self._token is not None)

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._cancel = nursery.cancel_scope
            nursery.start_soon(self._body)
            await trio.testing.wait_all_tasks_blocked()
            self._token = trio.lowlevel.current_trio_token()
            async for step in self._receive_step:
                await step()
                await trio.testing.wait_all_tasks_blocked()
                self._steps_over += 1

    def _pump(self, until: Callable[[], bool]) -> None:
        while not until():
            if self._ended:
                self._ended[0].unwrap()
                return
            self._callbacks.get(timeout=_PATIENCE)()

    def do(self, step: Step) -> None:
        assert self._token is not None
        self._steps_given += 1
        given = self._steps_given
        self._token.run_sync_soon(self._send_step.send_nowait, step)
        self._pump(lambda: self._steps_over >= given)

    def pass_time(self, seconds: float) -> None:
        async def jump() -> None:
            await trio.lowlevel.checkpoint()
            self._clock.jump(seconds)

        self.do(jump)

    def kill(self) -> None:
        if not self._ended:
            assert self._token is not None
            self._token.run_sync_soon(self._cancel.cancel)
            while not self._ended:
                self._callbacks.get(timeout=_PATIENCE)()

    def end(self) -> None:
        self.kill()
        self._ended[0].unwrap()


class _AsyncioGuest(Guest):
    def __init__(self, body: Step) -> None:
        self._loop = VirtualLoop()
        self._runner = asyncio.Runner(loop_factory=lambda: self._loop)
        self._background = self._runner.get_loop().create_task(body())
        self.pass_time(0)

    def do(self, step: Step) -> None:
        async def run() -> None:
            await step()
            await self._loop.wait_all_tasks_blocked()

        try:
            self._runner.run(run())
        finally:
            if self._background.done():
                self._background.result()

    def pass_time(self, seconds: float) -> None:
        async def nothing() -> None:
            pass

        self._loop.jump(seconds)
        self.do(nothing)

    def kill(self) -> None:
        self._background.cancel()
        self._runner.close()

    def end(self) -> None:
        self.kill()
        if not self._background.cancelled():
            self._background.result()
