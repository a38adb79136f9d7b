"""Finding handlers that block the event loop, and with it everybody's heart-beats.

Trio tells an instrument when a task begins and ends a step. Between the two nothing else runs: a long step of a
worker is a handler that computes, or waits without ``await``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import trio

__all__ = ["BlockingReport"]

logger: Final = logging.getLogger("trio_stomp")


class BlockingReport(trio.abc.Instrument):
    """Reports steps of its tasks that take too long.

    Args:
        name: Who runs in these tasks.
        after: Seconds from which on a step is reported.
        clock: Seconds of real time, also where Trio's own clock is virtual.

    Attributes:
        tasks: The tasks to watch.
        reported: How many steps were reported.
        longest: Seconds of the longest step.
    """

    def __init__(self, name: str, after: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._name = name
        self._after = after
        self._clock = clock
        self._began: float | None = None
        self.tasks: set[trio.lowlevel.Task] = set()
        self.reported = 0
        self.longest = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task begins a step."""
        if task in self.tasks:
            self._began = self._clock()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task ends a step."""
        began, self._began = self._began, None
        # A task that has joined in the middle of a step has no beginning.
        if began is None or task not in self.tasks:
            return
        seconds = self._clock() - began
        self.longest = max(self.longest, seconds)
        if seconds >= self._after:
            self.reported += 1
            logger.warning(
                "handler %s has blocked the event loop for %.2f s; heart-beats and all other tasks stood still: run "
                "what takes long with trio.to_thread.run_sync()",
                self._name,
                seconds,
            )
