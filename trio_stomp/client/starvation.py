"""Finding handlers that block the event loop, and with it every heart-beat.

Between two awaits that give way, a coroutine runs alone: a long step is a handler that computes, or waits without
``await``. So a handler is driven step by step here, and each step is timed. A Trio instrument could do the same from
outside, but Trio would call it for each step of every task of the program, idle pools included.
"""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Final

__all__ = ["BlockingReport"]

logger: Final = logging.getLogger("trio_stomp")


class BlockingReport:
    """Reports handlers that hold the event loop for too long.

    Args:
        name: The handler, for people.
        after: Seconds from which on a step is reported.
        clock: Seconds of real time, also where Trio's own clock is virtual.
    """

    def __init__(self, name: str, after: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._name = name
        self._after = after
        self._clock = clock

    @types.coroutine
    def watch(self, handling: Coroutine[object, object, None]) -> Generator[object, object, None]:
        """Await a handler, and time its steps.

        Cancellation: as the handler has it.
        """
        value: object = None
        error: BaseException | None = None
        while True:
            began = self._clock()
            try:
                trap = handling.send(value) if error is None else handling.throw(error)
            except StopIteration:
                return
            finally:
                # An exception that leaves must not be referenced by this frame: that would be a cycle.
                error = None
                self._stepped(self._clock() - began)
            try:
                value = yield trap
            except BaseException as thrown:  # noqa: BLE001  # whatever is raised at an await is raised in the handler
                error = thrown

    def _stepped(self, seconds: float) -> None:
        if seconds >= self._after:
            logger.warning(
                "handler %s has blocked the event loop for %.2f s; heart-beats and all other tasks stood still: run "
                "what takes long with trio.to_thread.run_sync()",
                self._name,
                seconds,
            )
