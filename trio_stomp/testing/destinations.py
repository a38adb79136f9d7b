"""Queues and topics of the embedded broker: plain data structures without I/O.

A queue gives its messages to takers in turn, higher priorities first, otherwise in order of arrival. A requeued message
keeps its place, so it is redelivered before all later ones. A topic copies each message to the backlog of each
subscription. A backlog is a queue with one taker, so prefetch, acknowledgment and redelivery work the same for both.

Theory of operation: the cost of a delivery depends neither on the number of messages nor on the number of takers. A
taker that is not ready leaves the turn (`Taker.rest`) until it calls `Queue.wake`. With selectors or message groups,
the queue classifies each message once by the takers that want it, and again only when a taker comes or leaves.

Accounting: a message is charged to its queue and to the account of all queues from `publish` to `release`, also while
it is delivered and unacknowledged. The copies of a topic share headers and body, which are charged once.
"""

from __future__ import annotations

import heapq
import sys
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from trio_stomp.runtime import current_time
from trio_stomp.testing.imitation import DEFAULT_PRIORITY, NEVER, Pattern, Plan
from trio_stomp.testing.memory import COPY_BYTES, Memory
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.selector import Selector

__all__ = ["TURN", "Dirty", "Queue", "Share", "StoredMessage", "Taker", "Topic"]

# More messages than any queue ever sees: the priority counts before the order of arrival.
_PLACES: Final = 1 << 48
# As in ActiveMQ's MessageGroupHashBucket, groups share this many owners: the memory does not grow with their names.
_GROUP_BUCKETS: Final = 1024
# How much work may be done before others are served: two or three milliseconds.
TURN: Final = 500


@dataclass(slots=True, eq=False)
class Share:
    """What the copies of a topic's message share. Releasing the last copy frees headers and body.

    Attributes:
        destination: The topic.
        holders: The number of copies.
    """

    destination: str
    holders: int


@dataclass(slots=True, eq=False)
class StoredMessage:
    """A message in one queue.

    Not keyword-only: one is made for each SEND, and keywords double the cost.

    Attributes:
        message_id: The message-id, the same for each delivery.
        headers: The headers of the SEND that are passed on, in order, repeats included.
        body: The body.
        size: Its memory in bytes.
        plan: When and in which order to deliver it; None is as soon as possible.
        share: What it shares with the other copies of a topic's message.
        place: Its place in the queue.
        deliveries: How often it has been delivered.
        rejections: How often it has been NACKed.
        order: Its number among the deliveries of the subscription that holds it.
        sender: The session that sent it; None for a message of the broker.
    """

    message_id: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    size: int = 0
    plan: Plan | None = None
    share: Share | None = None
    place: int = 0
    deliveries: int = 0
    rejections: int = 0
    order: int = 0
    sender: str | None = None

    @property
    def expires(self) -> float:
        """When it expires."""
        return NEVER if self.plan is None else self.plan.expires

    @property
    def group(self) -> str | None:
        """Its message group."""
        return None if self.plan is None else self.plan.group

    def copy(self, share: Share) -> StoredMessage:
        """A copy for one of several backlogs."""
        return StoredMessage(self.message_id, self.headers, self.body, self.size, self.plan, share, sender=self.sender)


class Taker(Protocol):
    """A consumer of a queue."""

    @property
    def selector(self) -> Selector | None:
        """Which messages it wants; None is all."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it can take a message now."""
        ...

    def rest(self) -> None:
        """Note that it was not ready: the queue skips it until it calls `Queue.wake`."""
        ...

    def take(self, message: StoredMessage) -> None:
        """Deliver a message."""
        ...


@dataclass(slots=True, eq=False)
class Dirty:
    """The queues that may have something to deliver.

    Attributes:
        memory: The accounts that messages are charged to. Nothing is delivered while the output account is full.
        more_to_do: Called when a turn ends with something left to deliver; the next turn is then expected soon.
        queues: The queues, in the order in which they were touched.
        work: The work done so far: a message accepted, delivered, or tested by a selector counts one.
        clock: Seconds, for the expiry of messages.
    """

    memory: Memory
    more_to_do: Callable[[], None]
    queues: OrderedDict[Queue, None] = field(default_factory=OrderedDict["Queue", None])
    work: int = 0
    clock: Callable[[], float] = current_time

    def dispatch(self) -> None:
        """Deliver what can be delivered in a turn."""
        end = self.work + TURN
        while self.queues and not self.memory.output.full:
            if self.work >= end:
                self.more_to_do()
                return
            self.queues.popitem(last=False)[0].dispatch(end)


class Queue:
    """Messages in order, and takers in turn: a queue, or the backlog of a topic subscription.

    Args:
        name: The destination.
        dirty: Where to report that there may be something to deliver.
        limit: How many messages may wait.
        limit_bytes: How much memory its messages may take, unacknowledged ones included.

    Attributes:
        in_flight: The number of messages delivered and not yet acknowledged.
        held_bytes: The memory of its messages.
        topic: The topic of a backlog.
        pattern: The pattern of a backlog, where the subscription has wildcards.
        durable: Client-id and name of the durable subscription of a backlog.
        not_from: The session whose messages a backlog leaves out.
    """

    __slots__ = (
        "_classed",
        "_classes",
        "_closed",
        "_dirty",
        "_fresh",
        "_grouped",
        "_next_expiry",
        "_next_place",
        "_output",
        "_owners",
        "_returned",
        "_selective",
        "_stored",
        "_swept_at",
        "_takers",
        "_turn",
        "durable",
        "held_bytes",
        "in_flight",
        "limit",
        "limit_bytes",
        "name",
        "not_from",
        "pattern",
        "topic",
    )

    def __init__(self, name: str, *, dirty: Dirty, limit: int, limit_bytes: int = sys.maxsize) -> None:
        self.name = name
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.in_flight = 0
        self.held_bytes = 0
        self.topic: Topic | None = None
        self.pattern: Pattern | None = None
        self.durable: tuple[str, str] | None = None
        self.not_from: str | None = None
        self._dirty = dirty
        self._stored = dirty.memory.stored
        self._output = dirty.memory.output
        self._closed = False
        self._next_place = 0
        # Messages of the default priority that have not been delivered yet: nearly all.
        self._fresh: deque[StoredMessage] = deque()
        # All others, a heap ordered by their places.
        self._returned: list[tuple[int, StoredMessage]] = []
        # Classified messages, by the takers that want them.
        self._classes: dict[frozenset[Taker], list[tuple[int, StoredMessage]]] = {}
        self._classed = 0
        self._takers: dict[Taker, None] = {}
        # Takers that may be ready, the next one first.
        self._turn: OrderedDict[Taker, None] = OrderedDict()
        self._selective = 0
        self._grouped = False
        self._owners: dict[int, Taker] = {}
        # A lower bound.
        self._next_expiry = NEVER
        # The place of the next message when the expired ones were dropped last.
        self._swept_at = 0

    @property
    def depth(self) -> int:
        """The number of messages that wait."""
        self._drop_expired()
        return self._waiting

    @property
    def _waiting(self) -> int:
        return len(self._fresh) + len(self._returned) + self._classed

    @property
    def takers(self) -> int:
        """The number of takers."""
        return len(self._takers)

    @property
    def idle(self) -> bool:
        """Whether it has neither messages nor takers."""
        return not (self._takers or self.in_flight or self.depth)

    def waiting(self) -> list[StoredMessage]:
        """The messages that wait, in order."""
        self._drop_expired()
        heaps = (self._returned, *self._classes.values())
        returned = [message for heap in heaps for _, message in heap]
        return sorted([*returned, *self._fresh], key=lambda message: message.place)

    # --- messages in ------------------------------------------------------------------------------------------------

    def check_room(self, count: int, size: int) -> None:
        """Make sure that messages can be published.

        Args:
            count: The number of messages.
            size: Their memory.

        Raises:
            Refusal: This queue, or all queues together, would be too full.
        """
        if count > self.limit - self.depth:
            raise Refusal(
                "queue is full",
                f"{self.name} would hold {self._waiting + count} messages, the limit is {self.limit} "
                "(max_queue_length)",
            )
        if self.held_bytes + size > self.limit_bytes:
            raise Refusal(
                "queue is full",
                f"{self.name} would hold {self.held_bytes + size} bytes, the limit is {self.limit_bytes} "
                "(max_queue_bytes)",
            )
        self._stored.require(size)

    def publish(self, message: StoredMessage) -> None:
        """Append a message.

        Raises:
            Refusal: This queue is full, or all queues together are.
        """
        size, stored = message.size, self._stored
        if (
            len(self._fresh) + len(self._returned) + self._classed >= self.limit
            or self.held_bytes + size > self.limit_bytes
            or stored.used + size > stored.limit
        ):
            self.check_room(1, size)
        self.accept(message)

    def accept(self, message: StoredMessage) -> None:
        """Append a message without checking for room."""
        size, place = message.size, self._next_place
        message.place = place
        self._next_place = place + 1
        self._stored.used += size
        self.held_bytes += size
        self._dirty.work += 1
        self._dirty.queues[self] = None
        plan = message.plan
        if plan is not None:
            self._next_expiry = min(self._next_expiry, plan.expires)
            self._grouped = self._grouped or plan.group is not None
            if plan.priority != DEFAULT_PRIORITY:
                message.place += (DEFAULT_PRIORITY - plan.priority) * _PLACES
                heapq.heappush(self._returned, (message.place, message))
                return
        self._fresh.append(message)

    def keep(self, message: StoredMessage) -> None:
        """Append a copy of a topic's message; a full backlog drops its oldest messages."""
        size = message.size
        # The topic has charged what the copies share.
        self._stored.used += COPY_BYTES - size
        while self._waiting and (self._waiting >= self.limit or self.held_bytes + size > self.limit_bytes):
            self._merge_classes()
            self.release(self._pop())
        self.accept(message)
        if self.held_bytes > self.limit_bytes:
            # Unacknowledged messages leave no room.
            self._remove_last(message)

    def _remove_last(self, message: StoredMessage) -> None:
        if self._fresh and self._fresh[-1] is message:
            self._fresh.pop()
        else:
            self._returned.remove((message.place, message))
            heapq.heapify(self._returned)
        self.release(message)

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """Put messages back into their places."""
        for message in messages:
            if self._closed:
                self.release(message)
                continue
            self._next_expiry = min(self._next_expiry, message.expires)
            heapq.heappush(self._returned, (message.place, message))
        self.touch()

    # --- messages out -----------------------------------------------------------------------------------------------

    def release(self, message: StoredMessage) -> None:
        """Stop charging for a message that was consumed, dropped or expired."""
        size, share = message.size, message.share
        self.held_bytes -= size
        if share is None:
            self._stored.used -= size
            return
        self._stored.used -= COPY_BYTES
        share.holders -= 1
        if not share.holders:
            self._stored.used -= size

    def close(self) -> None:
        """Drop all messages, also those that are given back later."""
        self._closed = True
        self._merge_classes()
        for message in self.waiting():
            self.release(message)
        self._fresh.clear()
        self._returned.clear()

    def _drop_expired(self) -> None:
        """Drop expired messages. This visits all messages, but only once one has expired."""
        if self._next_expiry == NEVER or (now := self._dirty.clock()) < self._next_expiry:
            return
        self._swept_at = self._next_place
        self._merge_classes()
        waiting = [*self._fresh, *(message for _, message in self._returned)]
        self._fresh = deque(message for message in self._fresh if message.expires > now)
        self._returned = [(place, message) for place, message in self._returned if message.expires > now]
        heapq.heapify(self._returned)
        self._next_expiry = min((message.expires for message in waiting if message.expires > now), default=NEVER)
        for message in waiting:
            if message.expires <= now:
                self.release(message)

    # --- takers -----------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Report that there may be something to deliver."""
        self._dirty.queues[self] = None

    def wake(self, taker: Taker) -> None:
        """Give a taker that rested its turn again."""
        if taker in self._takers:
            self._turn[taker] = None
            self.touch()

    def attach(self, taker: Taker) -> None:
        """Add a taker."""
        self._takers[taker] = self._turn[taker] = None
        self._selective += taker.selector is not None
        self._merge_classes()
        self.touch()

    def detach(self, taker: Taker) -> None:
        """Remove a taker, and free its message groups for others."""
        del self._takers[taker]
        self._turn.pop(taker, None)
        self._selective -= taker.selector is not None
        if self._owners:
            self._owners = {bucket: owner for bucket, owner in self._owners.items() if owner is not taker}
        self._merge_classes()
        self.touch()

    # --- dispatch ---------------------------------------------------------------------------------------------------

    def dispatch(self, end: int) -> None:
        """Deliver messages until all are gone, no taker is ready, or `Dirty.work` reaches the end of the turn."""
        # Not each time that one has expired: that would visit all messages for each of them.
        expiring = self._next_expiry != NEVER
        if expiring and self._next_place - self._swept_at > self._waiting // 2:
            self._drop_expired()
        if self._selective or self._grouped:
            self._dispatch_by_class(end)
            return
        output, dirty = self._output, self._dirty
        while self._fresh or self._returned:
            taker = self._next_taker()
            if taker is None:
                return
            if output.used >= output.limit or dirty.work >= end:
                self.touch()
                return
            dirty.work += 1
            message = self._pop()
            if expiring and message.expires <= dirty.clock():
                self.release(message)
                continue
            taker.take(message)

    def _next_taker(self, among: frozenset[Taker] | None = None) -> Taker | None:
        """The next ready taker, which moves to the end of the turn; takers that are not ready leave it."""
        turn = self._turn
        if among is None:
            while turn:
                taker = next(iter(turn))
                if taker.ready:
                    turn.move_to_end(taker)
                    return taker
                del turn[taker]
                taker.rest()
            return None
        chosen = next((taker for taker in turn if taker in among), None)
        if chosen is not None:
            turn.move_to_end(chosen)
        return chosen

    def _pop(self) -> StoredMessage:
        returned, fresh = self._returned, self._fresh
        if returned and (not fresh or returned[0][0] < fresh[0].place):
            return heapq.heappop(returned)[1]
        return fresh.popleft()

    # --- dispatch by selector and message group ---------------------------------------------------------------------

    def _dispatch_by_class(self, end: int) -> None:
        self._classify(end)
        while self._classes:
            self._dirty.work += 1 + len(self._turn)
            for taker in [taker for taker in self._turn if not taker.ready]:
                del self._turn[taker]
                taker.rest()
            ready = self._turn.keys()
            due = [(heap[0][0], wanting) for wanting, heap in self._classes.items() if not ready.isdisjoint(wanting)]
            if not due:
                return
            if self._output.full or self._dirty.work >= end:
                self.touch()
                return
            _, wanting = min(due, key=lambda each: each[0])
            self._give_first_of(wanting)

    def _classify(self, end: int) -> None:
        """Find out for each new message which takers want it, in order, until the end of the turn."""
        everybody = frozenset(self._takers)
        while self._fresh or self._returned:
            if self._dirty.work >= end:
                self.touch()
                return
            self._dirty.work += 1 + self._selective
            self._file(self._pop(), everybody)

    def _file(self, message: StoredMessage, everybody: frozenset[Taker]) -> None:
        owner = None if message.group is None else self._owners.get(_bucket(message.group))
        wanting = everybody if owner is None else frozenset({owner})
        if self._selective:
            wanting = frozenset(
                taker for taker in wanting if taker.selector is None or taker.selector.matches(message.headers)
            )
        heapq.heappush(self._classes.setdefault(wanting, []), (message.place, message))
        self._classed += 1

    def _give_first_of(self, wanting: frozenset[Taker]) -> None:
        heap = self._classes[wanting]
        _, message = heapq.heappop(heap)
        self._classed -= 1
        if not heap:
            del self._classes[wanting]
        if message.group is not None:
            owner = self._owners.get(_bucket(message.group))
            if owner is not None and wanting != frozenset({owner}):
                # The group got its owner after the message was classified.
                self._file(message, frozenset(self._takers))
                return
        taker = self._next_taker(wanting)
        if taker is None:
            raise AssertionError("a class without a taker that is ready was chosen")
        if message.expires != NEVER and message.expires <= self._dirty.clock():
            self.release(message)
            return
        if message.group is not None:
            self._owners[_bucket(message.group)] = taker
        taker.take(message)

    def _merge_classes(self) -> None:
        """Undo the classification, because the takers have changed."""
        if not self._classes:
            return
        for heap in self._classes.values():
            self._returned += heap
        heapq.heapify(self._returned)
        self._classes.clear()
        self._classed = 0


def _bucket(group: str) -> int:
    return zlib.crc32(group.encode()) % _GROUP_BUCKETS


class Topic:
    """Copies each message to the backlogs of its subscriptions; without subscriptions, messages are dropped.

    Args:
        name: The destination.
        dirty: Has the account that messages are charged to.
        by_pattern: The backlogs of all subscriptions with wildcards.
    """

    __slots__ = ("_backlogs", "_by_pattern", "_dirty", "_stored", "name")

    def __init__(self, name: str, *, dirty: Dirty, by_pattern: dict[Queue, Selector | None]) -> None:
        self.name = name
        self._dirty = dirty
        self._stored = dirty.memory.stored
        self._backlogs: dict[Queue, Selector | None] = {}
        self._by_pattern = by_pattern

    @property
    def backlogs(self) -> list[Queue]:
        """The backlogs of its subscriptions without wildcards, oldest first."""
        return list(self._backlogs)

    @property
    def idle(self) -> bool:
        """Whether it has no subscription without wildcards."""
        return not self._backlogs

    def add(self, backlog: Queue, selector: Selector | None) -> None:
        """Start to copy messages to a backlog."""
        self._backlogs[backlog] = selector

    def remove(self, backlog: Queue) -> None:
        """Stop copying messages to a backlog."""
        del self._backlogs[backlog]

    def check_room(self, count: int, size: int) -> None:
        """Make sure that messages can be published.

        Args:
            count: The number of messages.
            size: Their memory.

        Raises:
            Refusal: All queues together would be too full.
        """
        subscriptions = len(self._backlogs) + len(self._by_pattern)
        if subscriptions:
            self._stored.require(size + count * subscriptions * COPY_BYTES)

    def publish(self, message: StoredMessage) -> None:
        """Copy a message to each backlog whose selector wants it.

        Raises:
            Refusal: All queues together are full.
        """
        if not self._backlogs and not self._by_pattern:
            return
        wanting = self._wanting(message)
        if wanting:
            self._stored.require(message.size + len(wanting) * COPY_BYTES)
            self._copy(message, wanting)

    def accept(self, message: StoredMessage) -> None:
        """Copy a message to each backlog whose selector wants it, without checking for room."""
        wanting = self._wanting(message)
        if wanting:
            self._copy(message, wanting)

    def _wanting(self, message: StoredMessage) -> list[Queue]:
        """The backlogs that want a message: those of subscriptions without wildcards first."""
        subscriptions = (*self._backlogs.items(), *self._by_pattern.items())
        self._dirty.work += len(subscriptions)
        return [
            backlog
            for backlog, selector in subscriptions
            if (backlog.pattern is None or backlog.pattern.matches(self.name))
            and (selector is None or selector.matches(message.headers))
            and (backlog.not_from is None or backlog.not_from != message.sender)
        ]

    def _copy(self, message: StoredMessage, wanting: list[Queue]) -> None:
        # Headers and body once; `keep` charges the copies.
        self._stored.used += message.size
        share = Share(self.name, len(wanting))
        for backlog in wanting:
            backlog.keep(message.copy(share))
