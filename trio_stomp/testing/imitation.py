"""Whom the broker passes for, by its ``server`` header, and what it then does as that broker does.

Only what STOMP leaves open: wildcards, and the headers of SEND that ask for expiry, priority, delay and groups. What
each broker has was measured; see `docs/brokers.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.testing.destinations import DEFAULT_PRIORITY, Plan
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.wildcards import Wildcards

__all__ = ["Imitation", "imitation_of"]

_HIGHEST_PRIORITY: Final = 9
# A hundred years in milliseconds have thirteen digits.
_LONGEST_NUMBER: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation:
    """How one broker has what STOMP leaves open.

    Attributes:
        wildcards: Those in the names of topics.
        ttl: The header with the milliseconds to live.
        expires: The header with the time of expiry, in milliseconds since the epoch; 0 is never.
        priority: Whether it reads ``priority``.
        delay: The header with the milliseconds to wait.
        group: The header with the message group.
        selectors_convert: Whether selectors convert the text of headers to numbers.
    """

    wildcards: Wildcards
    ttl: str | None = None
    expires: str | None = None
    priority: bool = True
    delay: str | None = "AMQ_SCHEDULED_DELAY"
    group: str | None = "JMSXGroupID"
    selectors_convert: bool = True

    @property
    def headers(self) -> frozenset[str]:
        """The headers of SEND that it reads."""
        priority = "priority" if self.priority else None
        return frozenset(
            name for name in (self.ttl, self.expires, priority, self.delay, self.group) if name is not None
        )

    def plan(self, headers: Mapping[str, str], *, clock: Callable[[], float], epoch: Callable[[], float]) -> Plan:
        """When and in which order a message is to be delivered.

        Args:
            headers: Those of its SEND.
            clock: Seconds, by the clock of the broker.
            epoch: Seconds since the epoch.

        Raises:
            Refusal: A header is not the number that it has to be.
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
        expires = float("inf") if ttl is None else clock() + ttl / 1000
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
    # Priorities only in queues that are declared with x-max-priority, which this broker has not.
    "RabbitMQ": Imitation(wildcards=Wildcards(words="#"), ttl="expiration", priority=False, delay=None, group=None),
    "ActiveMQ": Imitation(wildcards=Wildcards(rest=">"), expires="expires"),
    "ActiveMQ-Artemis": Imitation(wildcards=Wildcards(words="#"), expires="expires", selectors_convert=False),
}


def imitation_of(server: str | None) -> Imitation:
    """What a broker with that ``server`` header does."""
    # Up to the slash or space: "ActiveMQ/6.1" and "ActiveMQ-Artemis/2.4 ..." begin alike.
    return _BY_NAME.get((server or "").partition("/")[0].partition(" ")[0], _OWN)
