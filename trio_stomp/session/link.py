"""A stream on which a broker has accepted CONNECT, and the race of several attempts to make one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from trio_stomp.brokers import Profile
from trio_stomp.protocol import ClientEvent, ClientProtocol, Connected
from trio_stomp.runtime import ByteStream
from trio_stomp.transport import Endpoint, StepFailed

__all__ = ["Link", "Race"]

# What an attempt is made to.
K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream to a broker after CONNECT and CONNECTED.

    Attributes:
        stream: The stream.
        protocol: The protocol state.
        connected: The broker's CONNECTED.
        profile: The broker.
        endpoint: Its URL.
        early: Events that came in the same chunk after CONNECTED.
    """

    stream: ByteStream
    protocol: ClientProtocol
    connected: Connected
    profile: Profile
    endpoint: Endpoint
    early: tuple[ClientEvent, ...] = ()


class Race(Generic[K]):
    """The attempts to connect to several hosts, or to several addresses of one, of which one wins.

    Its link is used, and those of the others are closed.

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
