"""A Trio run that is driven step by step from synchronous code: for Hypothesis' state machines, on virtual time.

The run is a guest (`trio.lowlevel.start_guest_run`): between two steps it stands still. A step is an async function; it
is over when it has returned and every task of the run waits for something.
"""

from __future__ import annotations

import queue
from collections.abc import Awaitable, Callable
from typing import Final

import outcome
import trio
import trio.testing

__all__ = ["Guest"]

Step = Callable[[], Awaitable[None]]

# Real seconds in which a step must be over: it has nothing to wait for but other tasks.
_PATIENCE: Final = 120.0


class Guest:
    """A Trio run, and its host.

    Args:
        body: Runs in the background for the whole run; it is cancelled in the end.
    """

    def __init__(self, body: Step) -> None:
        self._body = body
        self._callbacks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._steps_over = 0
        self._steps_given = 0
        self._ended: list[outcome.Outcome[None]] = []
        self._token: trio.lowlevel.TrioToken | None = None
        self._cancel = trio.CancelScope()
        self.clock = trio.testing.MockClock()
        self._send_step, self._receive_step = trio.open_memory_channel[Step](100)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._callbacks.put,
            done_callback=self._ended.append,
            clock=self.clock,
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
        """Run a step to its end.

        Raises:
            BaseException: What ended the run, be it this step or a task in the background.
        """
        assert self._token is not None
        self._steps_given += 1
        given = self._steps_given
        self._token.run_sync_soon(self._send_step.send_nowait, step)
        self._pump(lambda: self._steps_over >= given)

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""

        async def jump() -> None:
            await trio.lowlevel.checkpoint()
            self.clock.jump(seconds)

        self.do(jump)

    def end(self) -> None:
        """End the run, and raise what ended it."""
        self.kill()
        self._ended[0].unwrap()

    def kill(self) -> None:
        """End the run, whatever has happened in it: no other could begin in this thread."""
        if not self._ended:
            assert self._token is not None
            self._token.run_sync_soon(self._cancel.cancel)
            while not self._ended:
                self._callbacks.get(timeout=_PATIENCE)()
