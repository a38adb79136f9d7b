"""Changes of a connection's state, for synchronous code."""

from __future__ import annotations

from typing import Self

from trio_stomp.blocking.link import Link
from trio_stomp.blocking.thread import Call
from trio_stomp.client import ConnectionState, Phase
from trio_stomp.errors import ConnectionClosed

__all__ = ["StateChanges"]


class StateChanges:
    """The state of a client's connection now, and each change from now on, until it is closed.

    Iterate over it in a thread of its own: ``for state in client.state_changes()``. A watcher that is very slow misses
    the oldest changes, never the newest.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._inner = link.client.state_changes()
        self._over = False

    def __iter__(self) -> Self:
        """Iterate: ``for state in client.state_changes()``."""
        return self

    def __next__(self) -> ConnectionState:
        """Take the next state; waits until there is one.

        Raises:
            StopIteration: The client is closed, and that was seen.
        """
        if self._over:
            raise StopIteration
        try:
            state = self._link.run(Call(self._inner.__anext__))
        except StopAsyncIteration:
            raise StopIteration from None
        except ConnectionClosed:
            # Nothing can be asked any more; what the client said last is still to be told.
            state = self._link.client.state
        self._over = state.phase is Phase.CLOSED
        return state
