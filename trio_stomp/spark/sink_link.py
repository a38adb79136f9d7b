"""The connection of a task: trio in a thread of its own, one crossing for each chunk of rows.

The thread goes on with heart-beats and receipts while the task waits for its next rows, which may take long: Spark
computes them as they are asked for. A crossing costs 0.4 ms, so a task never makes one for a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager

from anyio.from_thread import BlockingPortal, start_blocking_portal

from trio_stomp.client import Client, OutgoingMessage, Publisher, Transaction

__all__ = ["Dial", "OpenPublisher", "OpenTransaction", "SinkLink", "open_sink_link"]

Dial = Callable[[], AbstractAsyncContextManager[Client]]


class OpenTransaction:
    """A transaction, for synchronous code."""

    def __init__(self, portal: BlockingPortal, transaction: Transaction) -> None:
        self._portal = portal
        self._transaction = transaction

    def send_many(self, messages: Sequence[OutgoingMessage]) -> None:
        """As `Transaction.send_many`."""
        self._portal.call(self._transaction.send_many, messages)

    def commit(self) -> None:
        """As `Transaction.commit`: returns when the broker has confirmed it."""
        self._portal.call(self._transaction.commit)


class OpenPublisher:
    """A publisher, for synchronous code."""

    def __init__(self, portal: BlockingPortal, publisher: Publisher) -> None:
        self._portal = portal
        self._publisher = publisher

    def send_many(self, messages: Sequence[OutgoingMessage]) -> None:
        """As `Publisher.send_many`, for who does not care for the single Publication."""
        # Not the list that send_many returns: nobody reads it here.
        self._portal.call(self._send, messages)

    async def _send(self, messages: Sequence[OutgoingMessage]) -> None:
        await self._publisher.send_many(messages)


class SinkLink:
    """A connected client, for synchronous code. `open_sink_link` makes it."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    @property
    def id_header(self) -> str:
        """The header from which this broker, or its consumers, know a message that came before."""
        return self._client.profile.stable_id_header

    @contextmanager
    def transaction(self) -> Generator[OpenTransaction]:
        """As `Client.transaction`: leaving it commits, unless the block raises, which aborts."""
        with self._portal.wrap_async_context_manager(self._client.transaction()) as transaction:
            yield OpenTransaction(self._portal, transaction)

    @contextmanager
    def publisher(self, max_in_flight: int, max_in_flight_octets: int) -> Generator[OpenPublisher]:
        """As `Client.publisher`: leaving it waits for every receipt."""
        opening = self._client.publisher(max_in_flight, max_in_flight_octets=max_in_flight_octets)
        with self._portal.wrap_async_context_manager(opening) as publisher:
            yield OpenPublisher(self._portal, publisher)


@contextmanager
def open_sink_link(dial: Dial) -> Generator[SinkLink]:
    """Connect for the length of a block.

    Args:
        dial: Makes the connection's context manager, which is entered in the thread of trio.

    Yields:
        The link.

    Raises:
        ConnectError: No broker could be connected to.
    """
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(dial()) as client:
        yield SinkLink(portal, client)
