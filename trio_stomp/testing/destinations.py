"""Queues and topics of the embedded broker: plain data structures without I/O.

A queue gives its messages to takers in turn, in the order in which they came. A message that comes back keeps its
place, so it is redelivered before all later ones. A topic copies each message to the backlog of each subscription; a
backlog is a queue of its own with one taker, so prefetch, acknowledgment and redelivery are the same for both.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.selector import Selector

__all__ = ["Dirty", "Queue", "StoredMessage", "Taker", "Topic"]


@dataclass(slots=True, kw_only=True, eq=False)
class StoredMessage:
    """A message in one queue.

    Attributes:
        message_id: Its identity, which stays the same from delivery to delivery.
        headers: The headers of its SEND that are passed on, in order, repeats included.
        body: Its body.
        place: Its place in the queue.
        deliveries: How often it has been delivered.
        rejections: How often it has been NACKed.
        order: Its number among the deliveries of the subscription that holds it.
    """

    message_id: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    place: int = 0
    deliveries: int = 0
    rejections: int = 0
    order: int = 0


class Taker(Protocol):
    """Who takes messages out of a queue."""

    @property
    def selector(self) -> Selector | None:
        """Which messages it wants; None is all."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it can take a message now."""
        ...

    def take(self, message: StoredMessage) -> None:
        """Deliver a message."""
        ...


@dataclass(slots=True, eq=False)
class Dirty:
    """The queues that may have something to deliver, in the order in which that became so."""

    queues: dict[Queue, None] = field(default_factory=dict["Queue", None])

    def dispatch(self) -> None:
        """Deliver what can be delivered."""
        while self.queues:
            batch = list(self.queues)
            self.queues.clear()
            for queue in batch:
                queue.dispatch()


class Queue:
    """Messages in order, and those who take them in turn.

    Args:
        name: Its destination.
        dirty: Where it reports that it may have something to deliver.
        limit: How many messages it holds.

    Attributes:
        in_flight: Messages delivered and not yet acknowledged.
        dropped: Messages that a full backlog has lost.
    """

    __slots__ = ("_dirty", "_fresh", "_next_place", "_returned", "_takers", "dropped", "in_flight", "limit", "name")

    def __init__(self, name: str, *, dirty: Dirty, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.in_flight = 0
        self.dropped = 0
        self._dirty = dirty
        self._next_place = 0
        self._fresh: deque[StoredMessage] = deque()
        # Messages that came back, by their place. A heap: giving back one of many costs no walk through all.
        self._returned: list[tuple[int, StoredMessage]] = []
        self._takers: deque[Taker] = deque()

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._fresh) + len(self._returned)

    @property
    def takers(self) -> int:
        """How many take from it."""
        return len(self._takers)

    def waiting(self) -> list[StoredMessage]:
        """The messages that wait, in order."""
        returned = [message for _, message in self._returned]
        return sorted([*returned, *self._fresh], key=lambda message: message.place)

    def room(self) -> int:
        """How many messages it can still take."""
        return self.limit - self.depth

    def publish(self, message: StoredMessage) -> None:
        """Append a message.

        Raises:
            Refusal: The queue is full.
        """
        if len(self._fresh) + len(self._returned) >= self.limit:
            raise Refusal("queue is full", f"{self.name} holds {self.limit} messages already (max_queue_length)")
        self._append(message)

    def keep(self, message: StoredMessage) -> None:
        """Append a message; a full queue loses its oldest for it."""
        if self.depth >= self.limit:
            self._pop()
            self.dropped += 1
        self._append(message)

    def _append(self, message: StoredMessage) -> None:
        message.place = self._next_place
        self._next_place += 1
        self._fresh.append(message)
        self._dirty.queues[self] = None

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """Put messages back into their places."""
        for message in messages:
            heapq.heappush(self._returned, (message.place, message))
        self.touch()

    def touch(self) -> None:
        """Say that there may be something to deliver: a message or room with a taker."""
        self._dirty.queues[self] = None

    def attach(self, taker: Taker) -> None:
        """Let somebody take messages."""
        self._takers.append(taker)
        self.touch()

    def detach(self, taker: Taker) -> None:
        """Give no more messages to `taker`."""
        self._takers.remove(taker)

    def dispatch(self) -> None:
        """Give out messages in order, in turn, until none is left or nobody is ready."""
        if any(taker.selector is not None for taker in self._takers):
            self._dispatch_by_selectors()
            return
        while self._fresh or self._returned:
            taker = self._next_taker()
            if taker is None:
                return
            taker.take(self._pop())

    def _next_taker(self) -> Taker | None:
        takers = self._takers
        for _ in range(len(takers)):
            taker = takers[0]
            takers.rotate(-1)
            if taker.ready:
                return taker
        return None

    def _pop(self) -> StoredMessage:
        returned, fresh = self._returned, self._fresh
        if returned and (not fresh or returned[0][0] < fresh[0].place):
            return heapq.heappop(returned)[1]
        return fresh.popleft()

    def _dispatch_by_selectors(self) -> None:
        """As `dispatch`, past the messages that nobody who is ready wants. It looks at each message that waits."""
        unwanted: list[StoredMessage] = []
        while self.depth and any(taker.ready for taker in self._takers):
            message = self._pop()
            taker = self._taker_for(message)
            if taker is None:
                unwanted.append(message)
            else:
                taker.take(message)
        # Not give_back(): nothing has changed that could make them deliverable.
        for message in unwanted:
            heapq.heappush(self._returned, (message.place, message))

    def _taker_for(self, message: StoredMessage) -> Taker | None:
        for _ in range(len(self._takers)):
            taker = self._takers[0]
            self._takers.rotate(-1)
            if taker.ready and (taker.selector is None or taker.selector.matches(message.headers)):
                return taker
        return None


class Topic:
    """Copies each message to the backlogs of its subscriptions; without one, messages vanish.

    Args:
        name: Its destination.
    """

    __slots__ = ("_backlogs", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._backlogs: dict[Queue, Selector | None] = {}

    @property
    def backlogs(self) -> list[Queue]:
        """The backlogs of its subscriptions, the oldest first."""
        return list(self._backlogs)

    def add(self, backlog: Queue, selector: Selector | None) -> None:
        """Copy messages to a backlog from now on."""
        self._backlogs[backlog] = selector

    def remove(self, backlog: Queue) -> None:
        """Copy no more messages to a backlog."""
        del self._backlogs[backlog]

    def room(self) -> int:
        """More than any transaction holds: a full backlog loses its oldest."""
        return 1 << 62

    def publish(self, message: StoredMessage) -> None:
        """Copy a message to each backlog whose selector wants it."""
        for backlog, selector in self._backlogs.items():
            if selector is None or selector.matches(message.headers):
                backlog.keep(replace(message))
