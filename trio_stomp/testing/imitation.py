"""What STOMP leaves open, done as the broker named by the ``server`` header does it: wildcards, headers of SEND.

The behavior of each real broker was measured; see `docs/brokers.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trio_stomp.testing.broker_options import NackPolicy
from trio_stomp.testing.refusals import Refusal

__all__ = ["DEFAULT_PRIORITY", "NEVER", "Imitation", "Pattern", "Plan", "Wildcards", "imitation_of"]

NEVER: Final = float("inf")
# JMS: priorities are 0 to 9, and a message without one has 4.
DEFAULT_PRIORITY: Final = 4
_HIGHEST_PRIORITY: Final = 9
# A hundred years in milliseconds have thirteen digits.
_LONGEST_NUMBER: Final = 15

# --- wildcards --------------------------------------------------------------------------------------------------------

# Steps of a pattern: one word, and any number of words.
_ONE: Final = 1
_ANY: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A topic name with wildcards.

    Attributes:
        prefix: What comes before the words: ``/topic/``.
        steps: For each word the word itself, or its wildcard.
    """

    prefix: str
    steps: Sequence[str | int]

    def matches(self, name: str) -> bool:
        """Whether a topic name fits."""
        prefix, words = _words(name)
        if prefix != self.prefix:
            return False
        # Greedy, with a way back to the last _ANY alone: an earlier one could do no better.
        steps, at, position, last, resume = self.steps, 0, 0, -1, 0
        while position < len(words):
            step = steps[at] if at < len(steps) else None
            if step == _ANY:
                last, resume = at, position
                at += 1
            elif step in (_ONE, words[position]):
                at += 1
                position += 1
            elif last >= 0:
                resume += 1
                at, position = last + 1, resume
            else:
                return False
        return all(step == _ANY for step in steps[at:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wildcards:
    """The wildcards of a broker, between dots.

    Attributes:
        word: Matches one word.
        words: Matches any number of words, also none, anywhere.
        rest: Matches any number of words, also none, at the end.
    """

    word: str = "*"
    words: str | None = None
    rest: str | None = None

    def pattern(self, name: str) -> Pattern | None:
        """The pattern in the name of a subscription; None where it has no wildcards."""
        prefix, parts = _words(name)
        steps: list[str | int] = []
        for number, part in enumerate(parts, 1):
            if part == self.words or (part == self.rest and number == len(parts)):
                steps.append(_ANY)
            else:
                steps.append(_ONE if part == self.word else part)
        if all(isinstance(step, str) for step in steps):
            return None
        return Pattern(prefix=prefix, steps=tuple(steps))


def _words(name: str) -> tuple[str, list[str]]:
    """``/topic/a.b`` -> ``/topic/`` and its words."""
    end = name.find("/", 1) + 1
    return name[:end], name[end:].split(".")


# --- headers of SEND --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When and in which order to deliver a message whose SEND says so.

    Attributes:
        priority: 0 to 9.
        delay: Seconds to wait before it goes to its queue.
        expires: When it expires, by the clock of the broker.
        group: Its message group.
    """

    priority: int = DEFAULT_PRIORITY
    delay: float = 0.0
    expires: float = NEVER
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation:
    """How a broker does what STOMP leaves open.

    Attributes:
        wildcards: Its wildcards in topic names.
        ttl: The header with the time to live in milliseconds.
        expires: The header with the time of expiry, in milliseconds since the epoch; 0 is never.
        priority: Whether it supports ``priority``.
        delay: The header with the delay in milliseconds.
        group: The header with the message group.
        selectors_convert: Whether selectors convert header text to numbers.
        ack_is_message_id: Whether the ``ack`` header of a MESSAGE equals its ``message-id``.
        nack: What a NACK does.
        replies_unasked: Whether a SEND with ``reply-to:/temp-queue/...`` subscribes to that queue.
        addresses: Whether a destination without a prefix is an address, a topic unless a header says ``ANYCAST``.
        bare_queues: Whether a destination without a prefix is the queue of that name.
        no_local: The header of SUBSCRIBE that leaves out the connection's own messages.
    """

    wildcards: Wildcards
    ttl: str | None = None
    expires: str | None = None
    priority: bool = True
    delay: str | None = "AMQ_SCHEDULED_DELAY"
    group: str | None = "JMSXGroupID"
    selectors_convert: bool = True
    ack_is_message_id: bool = False
    nack: NackPolicy = NackPolicy.REQUEUE
    replies_unasked: bool = False
    addresses: bool = False
    bare_queues: bool = False
    no_local: str | None = None

    @property
    def headers(self) -> frozenset[str]:
        """The names of the headers that make a plan."""
        priority = "priority" if self.priority else None
        return frozenset(
            name for name in (self.ttl, self.expires, priority, self.delay, self.group) if name is not None
        )

    def plan(self, headers: Mapping[str, str], *, clock: Callable[[], float], epoch: Callable[[], float]) -> Plan:
        """Read the plan of a message from the headers of its SEND.

        Args:
            headers: The headers.
            clock: Seconds, by the clock of the broker.
            epoch: Seconds since the epoch.

        Raises:
            Refusal: A header is not a number.
        """

        def number(name: str | None) -> int | None:
            text = None if name is None else headers.get(name)
            if name is None or text is None:
                return None
            if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
                raise Refusal("header refused", f"{name} must be a whole number of at least 0, got {text[:40]!r}")
            return int(text)

        ttl, at, delay = number(self.ttl), number(self.expires), number(self.delay)
        priority = number("priority") if self.priority else None
        expires = NEVER if ttl is None else clock() + ttl / 1000
        if at:
            expires = clock() + at / 1000 - epoch()
        return Plan(
            priority=DEFAULT_PRIORITY if priority is None else min(priority, _HIGHEST_PRIORITY),
            delay=0.0 if delay is None else delay / 1000,
            expires=expires,
            group=None if self.group is None else headers.get(self.group) or None,
        )


_OWN: Final = Imitation(wildcards=Wildcards(words="#", rest=">"), ttl="expiration", expires="expires")
_BY_NAME: Final = {
    # RabbitMQ has priorities only in queues declared with x-max-priority, which this broker does not support.
    "RabbitMQ": Imitation(
        wildcards=Wildcards(words="#"),
        ttl="expiration",
        priority=False,
        delay=None,
        group=None,
        replies_unasked=True,
        bare_queues=True,
    ),
    "ActiveMQ": Imitation(
        wildcards=Wildcards(rest=">"),
        expires="expires",
        nack=NackPolicy.DEAD_LETTER,
        bare_queues=True,
        no_local="activemq.noLocal",
    ),
    "ActiveMQ-Artemis": Imitation(
        wildcards=Wildcards(words="#"),
        expires="expires",
        selectors_convert=False,
        ack_is_message_id=True,
        nack=NackPolicy.DISCARD,
        addresses=True,
        no_local="no-local",
    ),
}


def imitation_of(server: str | None) -> Imitation:
    """How the broker with that ``server`` header does it."""
    # Up to the slash or space: "ActiveMQ/6.1" and "ActiveMQ-Artemis/2.4 ..." begin alike.
    return _BY_NAME.get((server or "").partition("/")[0].partition(" ")[0], _OWN)
