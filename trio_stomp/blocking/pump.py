"""What is done in the thread of trio without anybody waiting for it: unconfirmed sends and acknowledgments.

A crossing between threads costs some hundred times what a send costs. So such verbs are put into a queue, and one task,
the pump, does them in the order of the calls. It is woken once for all that has gathered. The queue is bounded in
octets: who adds to a full one waits for the pump.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from trio_stomp.blocking.trio_thread import TrioThread
from trio_stomp.errors import StompError

__all__ = ["Pump"]

Action = Callable[[], Awaitable[object]]
Failed = Callable[[StompError], None]

# As much as the outbox of a connection holds by default.
_HIGH_WATER_BYTES: Final = 1024 * 1024
# What an action weighs besides its body: about the size of an ACK, and of the objects that stand for it.
_ACTION_BYTES: Final = 256


class Pump:
    """A queue of actions for the thread of trio, and the task that does them. Any thread may add.

    Args:
        thread: That thread.
    """

    def __init__(self, thread: TrioThread) -> None:
        self._thread = thread
        self._lock = threading.Lock()
        self._queue: list[tuple[Action, int, Failed]] = []
        self._asleep = True
        self._put = 0
        self._put_bytes = 0
        # Only the pump writes these two.
        self._done = 0
        self._done_bytes = 0
        self._bell = trio.lowlevel.ParkingLot()
        self._waiting: list[tuple[Callable[[], bool], trio.Event]] = []

    @property
    def newest(self) -> int:
        """The number of the newest action; 0 when there was none."""
        return self._put

    def is_done(self, number: int) -> bool:
        """Whether an action and all before it are done."""
        return self._done >= number

    # --- in any thread ----------------------------------------------------------------------------------------------

    def add(self, action: Action, octets: int, failed: Failed) -> int:
        """Have something done after all that was added before.

        Args:
            action: What to do.
            octets: How much memory it holds.
            failed: Called with the error when it fails, in the thread of trio.

        Returns:
            Its number, for `is_done`.

        Raises:
            ConnectionClosed: The client is closed.
        """
        octets += _ACTION_BYTES
        if self._bytes + octets > _HIGH_WATER_BYTES and self._bytes:
            self._thread.call(self._wait_room)
        with self._lock:
            number = self._put = self._put + 1
            self._put_bytes += octets
            self._queue.append((action, octets, failed))
            wake, self._asleep = self._asleep, False
        if wake:
            self._thread.soon(self._bell.unpark)
        return number

    @property
    def _bytes(self) -> int:
        return self._put_bytes - self._done_bytes

    # --- in the thread of trio --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is added, for ever.

        Cancellation: what was not begun is not done.
        """
        while True:  # noqa: ASYNC913  # each round waits for the bell, or does something
            with self._lock:
                actions, self._queue = self._queue, []
                self._asleep = not actions
            if not actions:
                await self._bell.park()
            for action, octets, failed in actions:
                try:
                    await action()
                except StompError as error:
                    failed(error)
                self._done += 1
                self._done_bytes += octets
                if self._waiting:
                    self._wake()

    def _wake(self) -> None:
        for is_met, event in self._waiting:
            if is_met():
                event.set()

    async def wait_done(self, number: int) -> None:
        """Wait until an action and all before it are done.

        Cancellation: nothing changes.
        """
        if not self.is_done(number):
            await self._wait(lambda: self.is_done(number))

    async def _wait_room(self) -> None:
        # Not for room for one: then each of the next calls would wait again.
        if self._bytes > _HIGH_WATER_BYTES // 2:
            await self._wait(lambda: self._bytes <= _HIGH_WATER_BYTES // 2)

    async def _wait(self, is_met: Callable[[], bool]) -> None:
        waiting = (is_met, trio.Event())
        self._waiting.append(waiting)
        try:
            await waiting[1].wait()
        finally:
            self._waiting.remove(waiting)
