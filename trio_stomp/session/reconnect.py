"""The policy of reconnection: how long to wait, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from trio_stomp.errors import LocalProtocolError

__all__ = ["Reconnect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """Connect again when the link is lost, and go on with what stood.

    The delay before each attempt is drawn evenly between nothing and a bound that doubles from attempt to attempt
    ("full jitter"): a thousand clients of a broker that comes back do not all come at once. An attempt tries every
    host of the list, in its order.

    Attributes:
        first_delay: Bound of the delay before the first attempt, in seconds.
        max_delay: What the bound does not grow beyond, in seconds.
        attempts: Give up after so many attempts in a row; None: never.
        deadline: Give up when an outage has lasted so many seconds; None: never.
        stable_after: A connection that has lasted so many seconds ends an outage. One that is lost earlier is an
            attempt that failed: the delays go on growing.
        fail_back_after: While connected to a host that is not the first of the list, try those before it each time
            that so many seconds have passed, and move to the first that answers; None: stay until the link is lost.
            A move waits for pending receipts and sends DISCONNECT; what is not acknowledged or committed by then is
            stale or lost, as after a loss.
        retry_first: Whether the first connection, too, is attempted until it stands. By default `connect` raises
            when no host answers: a wrong address should be seen at once.
        chance: Where the jitter comes from: returns an even number from 0 to 1.

    Sources: M. Brooker, "Exponential Backoff and Jitter" (2015).
    """

    first_delay: float = 0.1
    max_delay: float = 30.0
    attempts: int | None = None
    deadline: float | None = None
    stable_after: float = 10.0
    fail_back_after: float | None = None
    retry_first: bool = False
    chance: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("first_delay", self.first_delay), ("stable_after", self.stable_after)):
            if not value >= 0:
                msg = f"Reconnect: {name} must be 0 seconds or more, got {value!r}"
                raise LocalProtocolError(msg)
        if not self.max_delay >= self.first_delay:
            msg = f"Reconnect: max_delay must be at least first_delay ({self.first_delay!r}), got {self.max_delay!r}"
            raise LocalProtocolError(msg)
        if self.attempts is not None and self.attempts < 1:
            msg = f"Reconnect: attempts must be at least 1, or None for no limit, got {self.attempts!r}"
            raise LocalProtocolError(msg)
        for name, seconds in (("deadline", self.deadline), ("fail_back_after", self.fail_back_after)):
            if seconds is not None and not seconds > 0:
                msg = f"Reconnect: {name} must be more than 0 seconds, or None, got {seconds!r}"
                raise LocalProtocolError(msg)

    def delay(self, failed: int) -> float:
        """Seconds to wait when so many attempts have failed in a row."""
        # Beyond 2**60 the bound is max_delay in any case, and a float would overflow in the end.
        return self.chance() * min(self.max_delay, self.first_delay * 2.0 ** min(failed, 60))
