"""Taking messages with an eye on the clock."""

from __future__ import annotations

from math import inf

import trio

from trio_stomp.client import Message, Subscription

__all__ = ["take_batch"]


async def take_batch(
    subscription: Subscription, at_most: int, timeout: float | None, *, linger: float = 0
) -> list[Message]:
    """The next messages, or none when none came in time.

    Args:
        subscription: Where from.
        at_most: No more than this many.
        timeout: Seconds to wait for the first of them; None: for ever.
        linger: Seconds to wait for more, once there is one.

    Raises:
        StompError: As `Subscription.receive_batch`.

    Cancellation: no message was taken.
    """
    # The time that it lingers is not time that nothing comes.
    with trio.move_on_after(inf if timeout is None else timeout + linger):
        return await subscription.receive_batch(at_most, linger=linger)
    return []
