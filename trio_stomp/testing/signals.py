"""Waking tasks that wait for something to change, on either event loop."""

from __future__ import annotations

from trio_stomp.runtime import WaitQueue, new_wait_queue

__all__ = ["Signal"]


class Signal:
    """Something changes, again and again. May be created where no event loop runs."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # Of the event loop of the first task that waits: only there is it known which one that is.
        self._waiting: WaitQueue | None = None

    def notify(self) -> None:
        """Wake all tasks that wait now."""
        if self._waiting:
            self._waiting.unpark_all()

    async def wait(self) -> None:
        """Wait for the next `notify`.

        Cancellation: nothing has happened.
        """
        if self._waiting is None:
            self._waiting = new_wait_queue()
        await self._waiting.park()
