"""Several attempts to connect at a time: the first link is used, and the others are closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Generic, TypeVar

import anyio

from trio_stomp.session.link import Link
from trio_stomp.transport import StepFailed

__all__ = ["Race"]

# What an attempt is made to.
K = TypeVar("K")


class Race(Generic[K]):
    """The attempts to connect to several hosts, or to several addresses of one, of which one wins.

    Attributes:
        winner: The first link.
        failures: The attempts that failed.
        error: An error that is not about an attempt; it ends the race.
        is_run: Whether all attempts have ended, or one has won.
    """

    def __init__(self) -> None:
        self._losers: list[Link] = []
        self.winner: Link | None = None
        self.failures: dict[K, StepFailed] = {}
        self.error: Exception | None = None
        self.is_run = False

    async def attempt(
        self, name: K, connect: Callable[[], Awaitable[Link]], over: anyio.Event, race: anyio.CancelScope
    ) -> None:
        """Make one attempt; the first that is connected ends the race."""
        try:
            link = await connect()
        except StepFailed as failed:
            self.failures[name] = failed
        except Exception as error:  # noqa: BLE001  # no other host can help: raised outside of the nursery
            self.error = error
            race.cancel()
        else:
            if self.winner is None:
                self.winner = link
                race.cancel()
            else:
                # Both were connected within one turn of the scheduler.
                self._losers.append(link)
        over.set()

    def result(self) -> Link | None:
        """Return the winner, or None if all attempts failed.

        Raises:
            Exception: An error that is not about an attempt.
        """
        if self.error is not None:
            raise self.error
        return self.winner

    async def close_losers(self) -> None:
        """Close all connections that are not used, even when canceled."""
        if self.winner is not None and (self.error is not None or not self.is_run):
            # The call was canceled just as it succeeded.
            self._losers.append(self.winner)
        # Without the shield, the first checkpoint of a canceled call would leave the other links open.
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as closing:  # one may raise KeyboardInterrupt, which no shield stops
                for link in self._losers:
                    closing.push_async_callback(anyio.aclose_forcefully, link.stream)
