"""Who may send the next message, and when: so that there is traffic whenever something breaks, and to the end."""

from __future__ import annotations

from typing import Final

import trio

from tests.chaos.ledger import Ledger
from tests.chaos.looking import wait_until

__all__ = ["Pacer"]

# Publishers stay this close to the workers: long queues would show nothing but memory.
_MOST_ON_THE_WAY: Final = 2000
# What is borrowed from the shares of later faults while one takes its time: recovery is seen by what moves.
_TRICKLE_SECONDS: Final = 0.05
# What is left of a fault's share is spread over so many seconds once it has struck.
_SPREAD_SECONDS: Final = 3.0


class Pacer:
    """Hands out the numbers of the messages, each once.

    Each fault of the schedule has a share of them, and so has the time after the last one.

    Args:
        ledger: What has become of those that were handed out.
        shares: How many shares there are.
    """

    def __init__(self, ledger: Ledger, shares: int) -> None:
        self._ledger = ledger
        self._shares = shares
        self._next = 0
        self._limit = 0
        self._pause = 0.0
        self._turn = trio.Lock()

    def open_share(self, number: int) -> range:
        """Hand out the messages of a share (from 0), as fast as they are asked for; returns which they are."""
        begin, self._limit = (self._ledger.total * each // self._shares for each in (number, number + 1))
        self._pause = 0.0
        return range(begin, self._limit)

    def spread(self) -> None:
        """Make what is left of this share last."""
        self._pause = _SPREAD_SECONDS / max(1, self._limit - self._next)

    @property
    def is_done(self) -> bool:
        """Whether all numbers are handed out."""
        return self._next >= self._ledger.total

    async def take(self) -> int | None:
        """The next number; None when there is none left.

        Cancellation: no number was taken.
        """
        # The lock is fair: whoever waits is served in turn, the slow ones too.
        async with self._turn:
            await wait_until(lambda: self._ledger.on_the_way < _MOST_ON_THE_WAY or self.is_done)
            if self._next >= self._limit and not self.is_done:
                with trio.move_on_after(_TRICKLE_SECONDS):
                    await wait_until(lambda: self._next < self._limit)
            elif self._pause:
                await trio.sleep(self._pause)
            if self.is_done:
                return None
            number = self._next
            self._next += 1
            return number
