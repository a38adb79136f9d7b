"""Changes of a connection's state, for asyncio code."""

from __future__ import annotations

from collections import deque
from typing import Self

from trio_stomp.asyncio.crossing import Crossing
from trio_stomp.client import Client as TrioClient
from trio_stomp.client import ConnectionState, Phase
from trio_stomp.errors import ConnectionClosed

__all__ = ["StateChanges"]


class StateChanges:
    """The current state of a client and each later one, until the client is closed; see `Client.state_changes`.

    Iterate over it: ``async for state in client.state_changes()``. A very slow watcher misses the oldest changes, never
    the newest.
    """

    def __init__(self, crossing: Crossing, client: TrioClient) -> None:
        self._crossing = crossing
        self._client = client
        self._inner = client.state_changes()
        self._returned: deque[ConnectionState] = deque()
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
        if self._over:
            raise StopAsyncIteration
        if self._returned:
            return self._returned.popleft()
        try:
            state = await self._crossing.at_once(self._inner.__anext__, undo=self._returned.append)
        except ConnectionClosed:
            # The bridge is closed; what the client said last is still to be told.
            state = self._client.state
        self._over = state.phase is Phase.CLOSED
        return state
