"""The policy of retries: how often a message is tried, and how long to wait in between."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.errors import DecodeFailed, LocalProtocolError

__all__ = ["FailureCounts", "Retry"]

# Poison is rare: who remembers this many failed messages remembers all of them.
_REMEMBERED: Final = 10_000


def _worth_another_try(error: Exception) -> bool:
    # The same octets will not decode better the next time.
    return not isinstance(error, DecodeFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a message whose handler failed is tried again.

    Attributes:
        attempts: How many times it is tried in all, deliveries to others and before a reconnection included, as far as
            the broker tells of them. 1 is no retry.
        first_delay: Bound of the delay before the second attempt, in seconds; it doubles from attempt to attempt, and
            each delay is drawn evenly below its bound.
        max_delay: What the bound does not grow beyond, in seconds.
        retry_on: Whether an error is worth another attempt; by default each is.
        chance: Where the jitter comes from: returns an even number from 0 to 1.
    """

    attempts: int = 3
    first_delay: float = 0.1
    max_delay: float = 30.0
    retry_on: Callable[[Exception], bool] = _worth_another_try
    chance: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            msg = f"Retry: attempts must be at least 1, got {self.attempts!r}"
            raise LocalProtocolError(msg)
        if not 0 <= self.first_delay <= self.max_delay:
            msg = (
                f"Retry: delays must be 0 <= first_delay <= max_delay, got {self.first_delay!r} and {self.max_delay!r}"
            )
            raise LocalProtocolError(msg)

    def delay(self, attempts: int) -> float:
        """Seconds to wait after so many attempts."""
        return self.chance() * min(self.max_delay, self.first_delay * 2.0 ** min(attempts - 1, 60))


class FailureCounts:
    """How often messages have failed, by their stable ids, for brokers that do not count; bounded."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def of(self, message_id: str) -> int:
        """How often that message has failed."""
        return self._counts.get(message_id, 0)

    def note(self, message_id: str, count: int) -> None:
        """It has failed so often."""
        self._counts[message_id] = count
        self._counts.move_to_end(message_id)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def forget(self, message_id: str) -> None:
        """It is dealt with."""
        self._counts.pop(message_id, None)
