"""Clients that the program leaves open: they are dropped, or still there when the interpreter exits.

Each is named in a ResourceWarning and closed in good order. That happens in the trio thread alone, because the garbage
collector may run in any thread and must not wait. The exit of the interpreter can wait, and does so for a short time.
"""

from __future__ import annotations

import asyncio
import atexit
import time
import warnings
import weakref
from contextlib import suppress
from typing import Final

from trio_stomp.bridge import EXIT_SECONDS, Bridge, Entered, Lane, wait_done
from trio_stomp.client import Client as TrioClient
from trio_stomp.client import session_of
from trio_stomp.errors import ConnectionClosed

__all__ = ["Unclosed"]


class Unclosed:
    """Ends a client if nothing else does.

    Args:
        lane: The way of the client into the trio thread, on a bridge of its own.
        held: The client there, entered.
    """

    # tracemalloc of Python 3.11 does not know where an object with a __dict__ was created.
    __slots__ = ("__weakref__", "_held", "_is_watched", "_lane", "_loop")

    def __init__(self, lane: Lane, held: Entered[TrioClient]) -> None:
        self._lane = lane
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._is_watched = True
        _all.add(self)

    def forget(self) -> None:
        """The program closes the client."""
        self._is_watched = False

    def drop(self) -> None:
        """The program has dropped the client: close it, and warn; does not wait."""
        if self.is_in_question:
            self.end()
            self.warn()

    @property
    def is_in_question(self) -> bool:
        """Whether nothing has closed the client, and it belongs to this process."""
        return self._is_watched and not self.bridge.forked

    @property
    def is_in_use(self) -> bool:
        """Whether its event loop runs. At exit, that is a loop in a daemon thread, which Python stops soon.

        If its client were closed, its tasks would fail, and print tracebacks.
        """
        return self._loop.is_running()

    @property
    def bridge(self) -> Bridge:
        """The bridge of the client; its `stopped` is done when the client has ended."""
        return self._lane.bridge

    def end(self) -> None:
        """Close the client in good order; does not wait."""
        self._is_watched = False
        bridge, held = self.bridge, self._held

        async def leave() -> None:  # noqa: ASYNC124  # runs in the trio thread
            held.leave(None)

        with suppress(ConnectionClosed):
            bridge.serve(self._lane.in_turn(leave, raises_earlier=False))
        bridge.expire()
        held.call.outcome.add_done_callback(lambda _: bridge.close())

    def warn(self) -> None:
        """Say that the program has not closed the client."""
        url = session_of(self._held.value.result()).link.endpoint
        text = f"the client of {url} was not closed; await its aclose(), or use async with trio_stomp.asyncio.connect()"
        # With python -X tracemalloc=20, Python adds where it was opened.
        warnings.warn(text, ResourceWarning, stacklevel=4, source=self)


_all: Final[weakref.WeakSet[Unclosed]] = weakref.WeakSet()


def _exit() -> None:
    ending = [each for each in _all if each.is_in_question and not each.is_in_use]
    try:
        for each in ending:
            each.end()
        for each in ending:
            each.warn()
    finally:
        deadline = time.monotonic() + EXIT_SECONDS + 1
        for each in ending:
            wait_done(each.bridge.stopped, deadline - time.monotonic())


atexit.register(_exit)
