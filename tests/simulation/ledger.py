"""The ledger of a run: what was sent and how that ended, what arrived, and what of it must not be.

It sees both ends: what programs call and get, and what a client writes to each link. A message may only be missing, or
come twice, where the ledger knows the reason: a link that broke, a broker that restarted, a program that left.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tests.simulation.network import Link

__all__ = ["Delivery", "Entry", "Kind", "Ledger", "Outcome"]

# Bodies may hold whatever frames are made of.
_FILLING: Final = b"\n\0:\\n\r\n^@ SEND\n"
# More of one kind of trouble in a run tells nothing new.
_MOST_TROUBLES: Final = 5


class Kind(enum.Enum):
    """How a message is sent."""

    PLAIN = enum.auto()
    CONFIRMED = enum.auto()
    TRANSACTED = enum.auto()
    REQUEST = enum.auto()


# A client sends these once, whatever happens.
_SENT_ONCE: Final = frozenset({Kind.PLAIN, Kind.TRANSACTED, Kind.REQUEST})


class Outcome(enum.Enum):
    """What the sender knows about a message."""

    OPEN = "its call has not ended"
    SENT = "its call has returned, and no receipt was asked for"
    CONFIRMED = "the broker has confirmed it"
    UNKNOWN = "it may or may not arrive"
    NEVER = "it must not arrive"


@dataclass(slots=True)
class Delivery:
    """One delivery of a message to a program.

    Attributes:
        link: By which link it came.
        subscription: The task that receives, and the number of its subscription.
        redelivered: Whether the broker said that it had delivered the message before.
        place: Its place among all deliveries.
        settled: Whether the broker was told that it is done with.
    """

    link: Link
    subscription: tuple[int, int]
    redelivered: bool
    place: int = 0
    settled: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the broker must have learned that the message is done with."""
        return self.settled and not self.link.is_faulty


@dataclass(slots=True)
class Entry:
    """A message.

    Attributes:
        number: Its number.
        sender: The number of the task that sends it. Each task's numbers grow.
        destination: Where it goes.
        kind: How it is sent.
        size: The length of its body.
        persistent: Whether the broker keeps it when it restarts.
        transaction: The number of its transaction; 0 is none.
        outcome: What the sender knows.
        known_at: How many links there were when the outcome was known.
        written: The links that it was written to, once for each time.
        link: The link that its sender had all the while.
        deliveries: Its deliveries.
        handled: How many times a program was done with it.
        has_failed: Whether a handler has failed on it, which may make it a dead letter.
        dead: Whether it is in the queue for dead letters.
        forgotten: Whether a restart of the broker has removed it.
    """

    number: int
    sender: int
    destination: str
    kind: Kind
    size: int
    persistent: bool
    transaction: int = 0
    outcome: Outcome = Outcome.OPEN
    known_at: int = 0
    written: list[Link] = field(default_factory=list[Link])
    link: Link | None = None
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    handled: int = 0
    has_failed: bool = False
    dead: bool = False
    forgotten: bool = False

    @property
    def body(self) -> bytes:
        """Its body: a mark that the network finds, and a filling."""
        mark = b"#%d#" % self.number
        return (mark + _FILLING * (self.size // len(_FILLING) + 1))[: max(self.size, len(mark))]

    @property
    def has_arrived(self) -> bool:
        """Whether a program is done with it, or may find it among the dead letters."""
        return bool(self.handled) or self.dead


class Ledger:
    """All messages of a run.

    Attributes:
        links: All links so far.
        counts: How much of each kind of trouble there was.
        troubles: The first of them, in words.
        auto: The destinations whose subscriptions are in auto mode.
        is_calm: Whether nothing may go wrong, because the seed has no faults.
    """

    def __init__(self) -> None:
        self.links: Sequence[Link] = ()
        self.entries: list[Entry] = []
        self.counts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self.auto: set[str] = set()
        self.is_calm = False
        self._deliveries = 0
        self._newest: dict[tuple[int, int], int] = {}

    def trouble(self, kind: str, what: str) -> None:
        """Note what must not be."""
        self.counts[kind] += 1
        if self.counts[kind] <= _MOST_TROUBLES:
            self.troubles.append(f"{kind}: {what}")

    # --- sending --------------------------------------------------------------------------------------------------

    def new(
        self, sender: int, destination: str, kind: Kind, size: int, *, persistent: bool, transaction: int = 0
    ) -> Entry:
        """Enter a message that is about to be sent."""
        entry = Entry(len(self.entries), sender, destination, kind, size, persistent, transaction)
        self.entries.append(entry)
        return entry

    def ended(self, entry: Entry, outcome: Outcome, link: Link | None = None) -> None:
        """Note how the sending of a message has ended."""
        entry.outcome, entry.link, entry.known_at = outcome, link, len(self.links)

    def wrote(self, link: Link, body: bytes, is_whole: bool) -> None:  # as the network calls it
        """A client has written a message to a link, or the beginning of one before it closed the link."""
        digits, mark, _ = body[1:].partition(b"#")
        if not body.startswith(b"#") or not mark:
            return  # a reply, or too little to know
        number = int(digits) if digits.isdigit() else len(self.entries)
        entry = self.entries[number] if number < len(self.entries) else None
        if entry is None or (entry.body != body if is_whole else not entry.body.startswith(body)):
            self.trouble("phantom", f"{body[:40]!r}, {len(body)} bytes, was written to {link} and is not what was sent")
            return
        if not is_whole:
            return
        if entry.has_failed:
            # It may be a dead letter, in another queue.
            entry.written.append(link)
            return
        if link in entry.written or (entry.written and entry.kind in _SENT_ONCE):
            self.trouble("doubled", f"{_name(entry)} was written again, to {link}, after {entry.written}")
        elif entry.outcome is not Outcome.OPEN and link.number >= entry.known_at:
            self.trouble("doubled", f"{_name(entry)} was written to {link} when its outcome was known")
        entry.written.append(link)
        key = (link.number, entry.sender)
        if self._newest.get(key, -1) > number:
            self.trouble("reordered", f"{_name(entry)} was written to {link} after #{self._newest[key]}")
        self._newest[key] = number

    # --- receiving ------------------------------------------------------------------------------------------------

    def find(self, body: bytes, destination: str) -> Entry | None:
        """Find a message by what a program has received."""
        digits = body[1 : body.find(b"#", 1)]
        entry = self.entries[int(digits)] if digits.isdigit() and int(digits) < len(self.entries) else None
        if entry is None or body != entry.body or destination != entry.destination:
            self.trouble("phantom", f"{body[:40]!r}, {len(body)} bytes, at {destination}, is not what was sent")
            return None
        return entry

    def entry_of(self, body: bytes) -> Entry:
        """The message with the mark of a body."""
        return self.entries[int(body[1 : body.index(b"#", 1)])]

    def delivered(self, body: bytes, destination: str, delivery: Delivery) -> Entry | None:
        """A program has received a message."""
        entry = self.find(body, destination)
        if entry is not None:
            self._deliveries += 1
            delivery.place = self._deliveries
            entry.deliveries.append(delivery)
        return entry

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Look at all messages once more, when nothing happens any more."""
        groups: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            self._judge(entry)
            if entry.transaction and not entry.forgotten:
                groups[entry.transaction].append(entry)
        for group in groups.values():
            if len({each.has_arrived for each in group}) > 1 and not any(map(self._may_vanish, group)):
                self.trouble("torn", f"of one transaction, only some have arrived: {', '.join(map(_name, group))}")
        self._judge_order()

    def _may_vanish(self, entry: Entry) -> bool:
        """Whether a delivery may be lost: in auto mode, with the link or with a program that leaves."""
        return entry.destination in self.auto and not self.is_calm

    def _judge(self, entry: Entry) -> None:
        used = entry.written[-1] if entry.written else entry.link
        must_arrive = entry.outcome is Outcome.CONFIRMED or (
            entry.outcome is Outcome.SENT and used is not None and not used.is_faulty
        )
        if entry.outcome is Outcome.OPEN:
            self.trouble("hang", f"the sending of {_name(entry)} has not ended")
        if must_arrive and not entry.has_arrived and not entry.forgotten and not self._may_vanish(entry):
            self.trouble("lost", f"{_name(entry)} has not arrived")
        if entry.outcome is Outcome.NEVER and (entry.deliveries or entry.dead):
            self.trouble("phantom", f"{_name(entry)} has arrived")
        # Each delivery but one needs a reason: the message was sent again, or an earlier delivery was not done with.
        # What comes by a link that has broken may have been on its way for long, so that a later delivery overtakes it.
        in_order = sorted(entry.deliveries, key=lambda each: not each.link.is_faulty)
        reasons = len(entry.written) - 1 + sum(not each.is_final for each in in_order[:-1])
        if len(entry.deliveries) - 1 > reasons:
            self.trouble("doubled", f"{_name(entry)} was delivered {len(entry.deliveries)} times")

    def _judge_order(self) -> None:
        """Messages of one task, by one link to the broker and one subscription from it, come in the order of sending.

        Those that were sent or delivered more than once may come again later, in any place.
        """
        came: defaultdict[tuple[Link, Link, tuple[int, int], int], list[tuple[int, Entry]]] = defaultdict(list)
        for entry in self.entries:
            if len(entry.written) == len(entry.deliveries) == 1 and not entry.transaction:
                delivery = entry.deliveries[0]
                if not delivery.redelivered:
                    way = entry.written[0], delivery.link, delivery.subscription, entry.sender
                    came[way].append((delivery.place, entry))
        for entries in came.values():
            for (before, first), (after, second) in pairwise(entries):
                if before > after:
                    self.trouble("reordered", f"{_name(second)} was delivered before {_name(first)}")


def _name(entry: Entry) -> str:
    how = f"{entry.kind.name.lower()} to {entry.destination} by task {entry.sender}"
    return f"#{entry.number} ({how}: {entry.outcome.value})"
