"""What goes wrong, when, and for whom: a schedule that its seed determines."""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["CHEAP_KINDS", "EMBEDDED_KINDS", "PARTIES", "REAL_KINDS", "Fault", "Kind", "Party", "kinds_of", "plan"]


class Party(enum.StrEnum):
    """Who takes part, each with a connection of its own."""

    WINDOW = "publisher with a window"
    RECEIPTS = "tasks that await each receipt"
    BATCHES = "batches of sends"
    ITERATION = "async for, async with message"
    CUMULATIVE = "batches, acknowledged up to the last"
    POOL = "pool of workers"
    TRANSACTIONS = "batches, acknowledged in transactions"


PARTIES: Final = tuple(Party)


class Kind(enum.StrEnum):
    """What goes wrong; the values are what the table calls it."""

    RESTART = "broker stopped, started again"
    KILL = "broker killed (-9), started again"
    MOVE = "moved to the other host, and back"
    MOVE_CUT = "moved to the other host, and back over a link that is cut"
    RESET_UP = "reset, cutting what goes to the broker"
    RESET_DOWN = "reset, cutting what comes from the broker"
    END_UP = "end of stream, cutting what goes to the broker"
    END_DOWN = "end of stream, cutting what comes from the broker"
    SILENCE = "half-open: nothing passes, no end, no reset"
    BROKER_GONE = "half-open: the broker's end is gone, ours is not told"
    CLIENT_GONE = "half-open: our end is gone, the broker is not told"
    DEAF_BROKER = "what we send vanishes, what comes passes"
    DEAF_CLIENT = "what comes vanishes, what we send passes"
    RESET_AGAIN = "reset, and so are the three connections that follow"
    SILENCE_AGAIN = "half-open, and so is the connection that follows"
    STALL = "stalled for a while"
    LONG_STALL = "stalled for longer than the heart-beats allow"
    POISON = "a message at which the connection is closed each time"
    STARTING = "links dropped, CONNECT answered with ERROR for a while"
    SLOW = "slowed to 1 KiB/s"
    ALARM = "memory alarm up and down"
    SWALLOWED = "receipts withheld, then the links dropped"
    REFUSED = "links dropped, connections refused for a while"
    UNANSWERED = "links dropped, CONNECT not answered"
    BROKER_STALL = "broker stops reading and writing"


_LINK_KINDS: Final = (
    Kind.RESET_UP,
    Kind.RESET_DOWN,
    Kind.END_UP,
    Kind.END_DOWN,
    Kind.SILENCE,
    Kind.BROKER_GONE,
    Kind.CLIENT_GONE,
    Kind.DEAF_BROKER,
    Kind.DEAF_CLIENT,
    Kind.RESET_AGAIN,
    Kind.SILENCE_AGAIN,
    Kind.STALL,
    Kind.LONG_STALL,
    Kind.SLOW,
    Kind.POISON,
    Kind.STARTING,
)
REAL_KINDS: Final = (Kind.KILL, Kind.RESTART, Kind.MOVE, Kind.MOVE_CUT, *_LINK_KINDS)
EMBEDDED_KINDS: Final = (*REAL_KINDS, Kind.SWALLOWED, Kind.REFUSED, Kind.UNANSWERED, Kind.BROKER_STALL)
# What costs little time, so that a schedule may have many of them: the rest of a schedule once each kind is in it.
CHEAP_KINDS: Final = (Kind.RESET_UP, Kind.RESET_DOWN, Kind.END_UP, Kind.END_DOWN)
# How often one of the others is drawn, where a cheap one is drawn once.
_WEIGHTS: Final[Mapping[Kind, float]] = {Kind.KILL: 0.3, Kind.RESTART: 0.3, Kind.ALARM: 0.3}
_DEFAULT_WEIGHT: Final = 0.5
# At least one fault in ten is of each of these kinds, however the others are drawn: 20 of 200.
_SURE: Final = (Kind.KILL, Kind.MOVE)
_ONE_IN: Final = 10

# Some frames long: a cut lands in a command, a header, a body, or between two frames.
_MOST_BYTES: Final = 6000
# Fewer for one of the connections that follow: while it is made, while subscriptions are, or soon after.
_MOST_BYTES_AGAIN: Final = 1000
# For the others, while they are made: a client takes a message that is hit three times in a row for poison.
_MOST_BYTES_AT_ONCE: Final = 40
_AGAIN: Final[Mapping[Kind, int]] = {Kind.RESET_AGAIN: 3, Kind.SILENCE_AGAIN: 1, Kind.MOVE_CUT: 1}


def kinds_of(broker: str) -> Sequence[Kind]:
    """What can go wrong with that broker."""
    if broker == "embedded":
        return EMBEDDED_KINDS
    return (*REAL_KINDS, Kind.ALARM) if broker.startswith("rabbitmq") else REAL_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        number: Its place in the schedule, from 1.
        kind: What it is.
        after: Which part of its share of the messages is handled before it strikes, 0 to 1.
        parties: Whose connections it strikes. Some kinds strike them all.
        after_bytes: How many bytes still pass before it strikes.
        again: The same for each connection that follows and is struck too; odd: of those to the broker, even: of those
            to the client.
    """

    number: int
    kind: Kind
    after: float
    parties: tuple[Party, ...]
    after_bytes: int
    again: tuple[int, ...] = ()

    def __str__(self) -> str:
        whom = "all" if len(self.parties) == len(PARTIES) else ", ".join(party.name.lower() for party in self.parties)
        return f"{self.number:3}. {self.kind} (after {self.after_bytes} bytes; {whom})"


def plan(seed: int, count: int, kinds: Sequence[Kind]) -> tuple[Fault, ...]:
    """A schedule with the given number of faults: each kind once, kills and moves once in ten, the rest by chance.

    Args:
        seed: Decides everything.
        count: How many.
        kinds: What may go wrong; the first ones come in any case.
    """
    chance = random.Random(seed)  # noqa: S311  # not a secret
    weights = [1.0 if kind in CHEAP_KINDS else _WEIGHTS.get(kind, _DEFAULT_WEIGHT) for kind in kinds]
    chosen = list(kinds[:count])
    for kind in _SURE:
        if kind in kinds:
            missing = min(count // _ONE_IN - chosen.count(kind), count - len(chosen))
            chosen += [kind] * max(0, missing)
    chosen += chance.choices(kinds, weights, k=count - len(chosen))
    chance.shuffle(chosen)
    return tuple(
        Fault(
            number=number,
            kind=kind,
            after=chance.uniform(0.1, 0.6),
            parties=_parties(chance),
            after_bytes=chance.randrange(_MOST_BYTES),
            again=_again(chance, _AGAIN.get(kind, 0)),
        )
        for number, kind in enumerate(chosen, 1)
    )


def _again(chance: random.Random, count: int) -> tuple[int, ...]:
    late = chance.randrange(max(1, count))
    return tuple(chance.randrange(_MOST_BYTES_AGAIN if n == late else _MOST_BYTES_AT_ONCE) for n in range(count))


def _parties(chance: random.Random) -> tuple[Party, ...]:
    """All at once now and then; mostly some."""
    if chance.random() < 0.25:
        return PARTIES
    struck = set(chance.sample(PARTIES, chance.randint(1, 3)))
    return tuple(party for party in PARTIES if party in struck)
