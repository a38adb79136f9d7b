"""What a client's connection is doing, for health checks: its state, and each change of it."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Final, Self

import trio

from trio_stomp.errors import StompError

__all__ = ["ConnectionState", "Phase", "StateChanges", "StateLog"]

# A watcher that falls this far behind misses the oldest changes; nobody needs a longer history of health.
_REMEMBERED: Final = 64


class Phase(enum.Enum):
    """What a client's connection is doing.

    Attributes:
        CONNECTING: A host is being tried.
        CONNECTED: It stands; after a loss: its subscriptions stand again, and what was unconfirmed was sent again.
        LOST: It was lost, and the next attempt is waited for.
        CLOSED: It is over, by this program or for good.
    """

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """The state of a client's connection at one moment.

    Attributes:
        phase: What it is doing.
        endpoint: The host in question, without user and passcode.
        cause: What it was lost by, or why the last attempt failed.
        attempt: Attempts in a row since it last was stable.
        since: Clock time of the change.
    """

    phase: Phase
    endpoint: str | None = None
    cause: StompError | None = None
    attempt: int = 0
    since: float = 0.0

    @property
    def healthy(self) -> bool:
        """Whether messages can flow now."""
        return self.phase is Phase.CONNECTED

    def __str__(self) -> str:
        parts = [self.phase.value]
        parts += [f"to {self.endpoint}"] if self.endpoint is not None else []
        parts += [f"(attempt {self.attempt})"] if self.attempt else []
        parts += [f"because {self.cause}"] if self.cause is not None else []
        return " ".join(parts)


class StateLog:
    """The newest states of one client, for any number of watchers."""

    def __init__(self) -> None:
        self._states: deque[ConnectionState] = deque([ConnectionState(phase=Phase.CONNECTING)], maxlen=_REMEMBERED)
        self.count = 1
        self.changed = trio.lowlevel.ParkingLot()

    @property
    def newest(self) -> ConnectionState:
        """The state of this moment."""
        return self._states[-1]

    def add(self, state: ConnectionState) -> None:
        """Enter a change."""
        self._states.append(state)
        self.count += 1
        self.changed.unpark_all()

    def at(self, number: int) -> tuple[int, ConnectionState]:
        """The state of a number (from 1), or the oldest that is remembered; with its number."""
        number = max(number, self.count - len(self._states) + 1)
        return number, self._states[number - self.count - 1]


class StateChanges:
    """The state of a client's connection now, and each change from now on, until it is closed.

    Iterate it: ``async for state in client.state_changes()``. A watcher that is very slow misses the oldest changes,
    never the newest.
    """

    def __init__(self, log: StateLog) -> None:
        self._log = log
        self._next = log.count
        self._over = False

    def __aiter__(self) -> Self:
        """Iterate: ``async for state in client.state_changes()``."""
        return self

    async def __anext__(self) -> ConnectionState:
        """Take the next state; waits until there is one.

        Raises:
            StopAsyncIteration: The client is closed, and that was seen.

        Cancellation: no state was taken.
        """
        await trio.lowlevel.checkpoint()
        if self._over:
            raise StopAsyncIteration
        while self._next > self._log.count:
            await self._log.changed.park()
        number, state = self._log.at(self._next)
        self._next = number + 1
        self._over = state.phase is Phase.CLOSED
        return state
