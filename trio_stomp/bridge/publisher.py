"""A publisher's messages, and the window that bounds them, for code that does not run on trio."""

# The window and its publications are one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

from trio_stomp.bridge.lane import Lane
from trio_stomp.client import OutgoingMessage, Publication, Publisher
from trio_stomp.errors import Delivery, StompError, UnconfirmedError, UnconfirmedMessage

__all__ = ["CrossedPublication", "PublisherWindow"]


class CrossedPublication:
    """The state of a message that was added to a lane to be published. `blocking` derives its own, which can wait.

    Attributes:
        destination: Where it is sent.
        body_bytes: The length of its body.
    """

    __slots__ = ("_error", "_inner", "body_bytes", "destination")

    _inner: Publication | None
    _error: StompError | None
    destination: str
    body_bytes: int

    def __init__(self, message: OutgoingMessage, inner: Publication | None) -> None:
        self._inner = inner
        self._error = None
        self.destination = message.destination
        self.body_bytes = len(message.body)

    @property
    def delivery(self) -> Delivery:
        """Whether the broker has the message; UNKNOWN until it answers."""
        return Delivery.UNKNOWN if self._inner is None else self._inner.delivery

    @property
    def error(self) -> StompError | None:
        """Why it was not confirmed, once that is final."""
        return self._error if self._inner is None else self._inner.error

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is final."""
        return self._error is not None if self._inner is None else self._inner.is_settled

    def _sent(self) -> Publication:
        """Return the publication in the trio thread, once it was its turn."""
        if self._inner is None:
            raise self._error or AssertionError  # it was its turn, so it was sent or has failed
        return self._inner

    def _unsent(self) -> UnconfirmedMessage | None:
        """Return its entry in an error if it failed before it was sent. It has no id, because sending assigns that."""
        if self._inner is not None or self._error is None:
            return None
        reason = f"it was not sent: {self._error}"
        return UnconfirmedMessage(id="", destination=self.destination, delivery=Delivery.UNKNOWN, reason=reason)

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        await self._sent().wait()

    async def _wait_settled(self) -> None:
        if self._inner is not None:
            await self._inner.wait_settled()

    def __repr__(self) -> str:
        if self._inner is None:
            return f"<Publication to {self.destination!r}: {self.delivery.value}>"
        return repr(self._inner)


P = TypeVar("P", bound=CrossedPublication)


class PublisherWindow(Generic[P]):
    """What a publisher has in flight, as the threads see it that use it.

    The publisher in the trio thread has a window too. This one keeps acknowledgments, which share the queue of the
    lane, from waiting behind a message that has no room.

    Args:
        lane: The lane of the publisher.
        publisher: The publisher in the trio thread.
        max_messages: Maximum number of messages in flight.
        max_bytes: Maximum size of their bodies together. A larger message is sent alone.

    Attributes:
        lock: Hold it to call `has_room`, `add` and `add_many`.
    """

    def __init__(self, lane: Lane, publisher: Publisher, max_messages: int, max_bytes: int) -> None:
        self._lane = lane
        self._publisher = publisher
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._open: list[P] = []
        self._bytes = 0
        self.lock = threading.Lock()

    @property
    def in_flight(self) -> int:
        """Number of messages that await their RECEIPT, including those in the queue to the trio thread."""
        return sum(not each.is_settled for each in tuple(self._open))

    def has_room(self, size: int) -> bool:
        """Whether a message may be sent; a single large one always may."""
        if self._fits(size):
            return True
        self._forget_settled()
        return self._fits(size)

    def add(self, publication: P) -> None:
        """Count a message."""
        self._open.append(publication)
        self._bytes += publication.body_bytes

    def add_many(self, publications: Sequence[P]) -> None:
        """Count messages that the trio thread had room for."""
        self._forget_settled()
        self._open += publications
        self._bytes += sum(each.body_bytes for each in publications)

    def _fits(self, size: int) -> bool:
        fits = len(self._open) < self._max_messages and self._bytes + size <= self._max_bytes
        return fits or not self._open

    def _forget_settled(self) -> None:
        self._open = [each for each in self._open if not each.is_settled]
        self._bytes = sum(each.body_bytes for each in self._open)

    def raise_failure(self) -> None:
        """Raise what was added to the lane and has failed, with the messages that were never sent.

        Raises:
            UnconfirmedError: That.
        """
        failure = self._lane.take_failure()
        if failure is None:
            return
        known = failure.messages if isinstance(failure, UnconfirmedError) else ()
        unsent = [each._unsent() for each in self._open]
        raise UnconfirmedError([*known, *(each for each in unsent if each is not None)]) from failure

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def send(self, publication: P, message: OutgoingMessage) -> None:
        """Send a message.

        Cancellation: the frame was sent whole or not at all.
        """
        try:
            (publication._inner,) = await self._publisher.send_many((message,))
        except StompError as error:
            publication._error = error
            raise

    async def wait_room(self) -> None:
        """Wait until about a quarter of the window is free: room for one would make each later message wait.

        Cancellation: nothing changes.
        """
        waiting = self._open
        if waiting:
            await waiting[len(waiting) // 4]._wait_settled()
