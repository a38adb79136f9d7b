"""The states of a session as a table, and the simpler states that a program sees.

A session outlives its connections, and its `SessionState` says what may be done with the newest one; older ones have
ended. It changes only by a `Step`, and only as `SESSION_STEPS` permits. Any other step is a bug in this library, and
raises AssertionError. The diagram in the documentation is drawn from that table.

A program sees a `Phase`, in a `ConnectionState` with host, cause and attempt.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import anyio
import anyio.lowlevel

from trio_stomp.errors import StompError
from trio_stomp.runtime import new_wait_queue

__all__ = [
    "PHASES",
    "SESSION_STEPS",
    "TAKES_FRAMES",
    "ConnectionState",
    "DisconnectResult",
    "Phase",
    "SessionState",
    "StateChanges",
    "StateLog",
    "Step",
    "after",
]

# A watcher that falls this far behind misses the oldest changes.
_REMEMBERED: Final = 64


class Step(enum.Enum):
    """An event that moves a session from one state to the next.

    Attributes:
        MOVE: A preferred host has answered: the connection is left for it.
        CLOSE: The program leaves, and nothing is waited for on another connection: only DISCONNECT may be sent.
        DISCONNECT: DISCONNECT is sent.
        LOSE: The connection has ended, and another one follows.
        INSTALL: Another connection is made.
        RESTORE: Subscriptions and unconfirmed messages are restored on it.
        END: The session has ended for good, and its connection with it.
    """

    MOVE = "move"
    CLOSE = "close"
    DISCONNECT = "disconnect"
    LOSE = "lose"
    INSTALL = "install"
    RESTORE = "restore"
    END = "end"


class SessionState(enum.Enum):
    """The state of a session, and so of its newest connection.

    A program may leave in any of them. From then on new work is refused; what is unconfirmed is still awaited, over
    other connections if it must be, and messages may still be settled until CLOSING.

    Attributes:
        CONNECTED: Everything may be sent.
        MOVING: The connection is being left for a preferred host, and pending receipts are awaited. Messages and
            transactions that belong to it may still be settled; new work waits for the connection that follows.
        MOVED: DISCONNECT was sent on the way to that host: messages are stale, transactions are lost.
        RECONNECTING: There is no connection, and one is dialed; new work waits for it.
        RESTORING: There is a new connection; new work waits until subscriptions and unconfirmed messages are restored.
        CLOSING: The program leaves, and nothing but DISCONNECT may be sent.
        CLOSED: It is over, by its program or for good.
    """

    CONNECTED = "connected"
    MOVING = "moving"
    MOVED = "moved"
    RECONNECTING = "reconnecting"
    RESTORING = "restoring"
    CLOSING = "closing"
    CLOSED = "closed"


# A session begins in RESTORING, with a first connection on which there is nothing to restore.
SESSION_STEPS: Final[Mapping[SessionState, Mapping[Step, SessionState]]] = {
    SessionState.CONNECTED: {
        Step.MOVE: SessionState.MOVING,
        Step.CLOSE: SessionState.CLOSING,
        Step.LOSE: SessionState.RECONNECTING,
        Step.END: SessionState.CLOSED,
    },
    SessionState.MOVING: {
        Step.DISCONNECT: SessionState.MOVED,
        Step.LOSE: SessionState.RECONNECTING,
        Step.END: SessionState.CLOSED,
    },
    SessionState.MOVED: {Step.LOSE: SessionState.RECONNECTING, Step.END: SessionState.CLOSED},
    SessionState.RECONNECTING: {Step.INSTALL: SessionState.RESTORING, Step.END: SessionState.CLOSED},
    SessionState.RESTORING: {
        Step.RESTORE: SessionState.CONNECTED,
        Step.CLOSE: SessionState.CLOSING,
        Step.LOSE: SessionState.RECONNECTING,
        Step.END: SessionState.CLOSED,
    },
    # The last message may be confirmed, and so the program leave, just before the restoration ends.
    SessionState.CLOSING: {
        Step.RESTORE: SessionState.CLOSING,
        Step.DISCONNECT: SessionState.CLOSING,
        Step.END: SessionState.CLOSED,
    },
    SessionState.CLOSED: {},
}

# Where messages and transactions of the connection may be settled. All other calls need CONNECTED, and no leaving.
TAKES_FRAMES: Final = frozenset({SessionState.CONNECTED, SessionState.MOVING, SessionState.RESTORING})


def after(state: SessionState, step: Step) -> SessionState:
    """Return the state after a step.

    Raises:
        AssertionError: The step is impossible in this state.
    """
    try:
        return SESSION_STEPS[state][step]
    except KeyError:
        msg = f"impossible: {step} in {state}"
        raise AssertionError(msg) from None


class Phase(enum.Enum):
    """Whether a client is connected.

    Attributes:
        CONNECTING: The client is trying a host, or restoring subscriptions on a new connection.
        CONNECTED: Connected, with all subscriptions restored and all unconfirmed messages sent again. What the broker
            refuses to restore is retried meanwhile; see `ConnectionState.waiting`.
        LOST: The connection was lost, and the next attempt has not begun.
        CLOSED: The client was closed by this program, or has given up.
    """

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    CLOSED = "closed"


# The phases that a program may see in each state of its session. While a session reconnects, they alternate.
PHASES: Final[Mapping[SessionState, frozenset[Phase]]] = {
    SessionState.CONNECTED: frozenset({Phase.CONNECTED}),
    SessionState.MOVING: frozenset({Phase.CONNECTED}),
    SessionState.MOVED: frozenset({Phase.CONNECTED}),
    SessionState.RECONNECTING: frozenset({Phase.LOST, Phase.CONNECTING}),
    SessionState.RESTORING: frozenset({Phase.LOST, Phase.CONNECTING}),
    SessionState.CLOSING: frozenset({Phase.CONNECTED}),
    SessionState.CLOSED: frozenset({Phase.CLOSED}),
}


class DisconnectResult(enum.Enum):
    """How a DISCONNECT ended.

    Attributes:
        RECEIPT: The broker confirmed it, and so has processed everything sent before.
        CLOSED: The broker closed the connection instead.
        TIMEOUT: The broker did neither in time, but everything was written.
    """

    RECEIPT = "receipt"
    CLOSED = "closed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """The state of a client's connection at one moment.

    Attributes:
        phase: Whether it is connected.
        endpoint: URL of the host, without user and passcode; with `connect_stream`, "the program's own stream".
        cause: Why the connection was lost, or why the last attempt to connect failed.
        attempt: Number of attempts in a row since the connection was last stable.
        waiting: Ids of the subscriptions that the broker has refused after a reconnection, and that are retried.
        since: Time of the change, on the clock of the event loop.
    """

    phase: Phase
    endpoint: str | None = None
    cause: StompError | None = None
    attempt: int = 0
    since: float = 0.0
    waiting: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether messages can flow now."""
        return self.phase is Phase.CONNECTED

    def __str__(self) -> str:
        parts = [self.phase.value]
        parts += [f"to {self.endpoint}"] if self.endpoint is not None else []
        parts += [f"(attempt {self.attempt})"] if self.attempt else []
        parts += [f"because {self.cause}"] if self.cause is not None else []
        parts += [f"(refused, and retried: {', '.join(self.waiting)})"] if self.waiting else []
        return " ".join(parts)


class StateLog:
    """The newest states of one client, for any number of watchers."""

    def __init__(self) -> None:
        self._states: deque[ConnectionState] = deque([ConnectionState(phase=Phase.CONNECTING)], maxlen=_REMEMBERED)
        self.count = 1
        self.changed = new_wait_queue()

    @property
    def newest(self) -> ConnectionState:
        """The current state."""
        return self._states[-1]

    def add(self, state: ConnectionState) -> None:
        """Add a change."""
        self._states.append(state)
        self.count += 1
        self.changed.unpark_all()

    def at(self, number: int) -> tuple[int, ConnectionState]:
        """Return the state with a number (from 1), or the oldest one still stored; with its number."""
        number = max(number, self.count - len(self._states) + 1)
        return number, self._states[number - self.count - 1]


class StateChanges:
    """The current state of a client and each later one, until the client is closed; see `Client.state_changes`.

    Iterate over it: ``async for state in client.state_changes()``. A very slow watcher misses the oldest changes, never
    the newest.
    """

    def __init__(self, log: StateLog) -> None:
        self._log = log
        self._next = log.count
        self._over = False

    def __aiter__(self) -> Self:
        """Iterate: ``async for state in client.state_changes()``."""
        return self

    async def __anext__(self) -> ConnectionState:
        """Return the next state; wait until there is one.

        Raises:
            StopAsyncIteration: The client is closed, and the state CLOSED was returned before.

        Cancellation: no state was taken.
        """
        await anyio.lowlevel.checkpoint()
        if self._over:
            raise StopAsyncIteration
        while self._next > self._log.count:
            await self._log.changed.park()
        number, state = self._log.at(self._next)
        self._next = number + 1
        self._over = state.phase is Phase.CLOSED
        return state
