"""What an open client consists of, and how posted work is finished when a block is left."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import TracebackType

from trio_stomp.bridge import Bridge, Entered, Lane
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import Statistics, session_of
from trio_stomp.errors import ConnectionClosed

__all__ = ["Dial", "Finish", "Link", "open_link"]

Dial = Callable[[], AbstractAsyncContextManager[AsyncClient]]


class Link:
    """A client in the trio thread, and the way to it.

    Attributes:
        lane: The way for its verbs.
        client: The client in the trio thread.
        session: Its session.
        last: Its statistics when it was closed.
    """

    def __init__(self, lane: Lane, client: AsyncClient) -> None:
        self.lane = lane
        self.client = client
        self.session = session_of(client)
        self.last: Statistics | None = None

    def abandon(self) -> None:
        """Close the socket in a forked process and send nothing: it belongs to the other process.

        Otherwise the broker would not see the end of that process before the end of this one.
        """
        self.session.connection.stream.abandon()

    async def count(self) -> Statistics:  # noqa: ASYNC124  # runs in the trio thread
        """Return the statistics of this moment.

        Cancellation: no cancellation point.
        """
        return self.client.statistics()


@contextmanager
def open_link(dial: Dial, *, has_hooks: bool) -> Generator[Link]:
    """Connect for the length of a block."""
    bridge = Bridge()
    try:
        bridge.start()
        lane = Lane(bridge, keeps_context=has_hooks)
        link: Link | None = None
        try:
            with Entered(bridge, dial()) as client:
                link = Link(lane, client)
                with Finish(lane):
                    yield link
        finally:
            if link is not None and bridge.can_wait:
                with suppress(ConnectionClosed):
                    link.last = bridge.call(link.count)
        lane.raise_failure()
    finally:
        bridge.close()


class Finish:
    """A block at whose end everything that was posted in it is done, well or not.

    Args:
        lane: Where it was posted.
        raises: Raise what has failed of it, unless the block itself has raised.
    """

    def __init__(self, lane: Lane, *, raises: bool = False) -> None:
        self._lane = lane
        self._raises = raises

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until everything posted is done, but not for long when the block was left by Ctrl-C."""
        lane = self._lane
        with suppress(ConnectionClosed):  # then nothing can be done any more
            if not lane.is_empty and lane.bridge.can_wait:
                in_haste = error is not None and not isinstance(error, Exception)
                lane.bridge.call(lane.wait_shortly if in_haste else lane.wait_done)
        if error is None and self._raises:
            lane.raise_failure()
        elif isinstance(error, Exception):
            lane.add_failure_to(error)
