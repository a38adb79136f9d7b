"""Messages that cross the threads in batches."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Final, Generic, TypeVar

import trio

from trio_stomp.client import Message, Subscription, SubscriptionStatistics
from trio_stomp.errors import StompError
from trio_stomp.protocol import AckMode

__all__ = ["Batches"]

T = TypeVar("T")

# A crossing costs as much as handing out some ten messages; beyond this many per crossing nothing is gained.
_LARGEST: Final = 1024


class Batches(Generic[T]):
    """The messages of a subscription that have crossed and were not handed out.

    Take messages while there are any; otherwise `fetch` more in the trio thread, and look again. Only one caller at a
    time may fetch, or messages are handed out of order.

    Args:
        subscription: The subscription, in the trio thread.
        prefetch: How many messages cross at once.
    """

    def __init__(self, subscription: Subscription[T], prefetch: int) -> None:
        self._subscription = subscription
        self._prefetch = min(prefetch, _LARGEST)
        # The trio thread adds, any thread takes.
        self._here: deque[Message[T]] = deque()

    def __len__(self) -> int:
        return len(self._here)

    def take(self) -> Message[T] | None:
        """Return the oldest message; stale ones are left out, because the broker redelivers them."""
        here = self._here
        try:
            while True:
                message = here.popleft()
                if not message.is_stale:
                    return message
        except IndexError:
            return None

    def take_many(self, max_messages: int) -> list[Message[T]]:
        """Return the oldest messages."""
        taken: list[Message[T]] = []
        while len(taken) < max_messages and (message := self.take()) is not None:
            taken.append(message)
        return taken

    def clear(self) -> None:
        """Hand out nothing more."""
        self._here.clear()

    def statistics(self) -> SubscriptionStatistics:
        """Return the counters of the subscription, as its user sees them: what is here still waits."""
        seen, here = self._subscription.statistics(), len(self._here)
        settles = self._subscription.ack_mode is not AckMode.AUTO
        return dataclasses.replace(
            seen,
            buffered=seen.buffered + here,
            unsettled=max(0, seen.unsettled - here) if settles else seen.unsettled,
            delivered=seen.delivered - here,
        )

    # --- in the trio thread ---------------------------------------------------------------------------------------

    async def fetch(self, max_messages: int = 0, linger: float = 0) -> bool:
        """Wait for messages; see `Subscription.receive_batch`.

        Args:
            max_messages: Maximum number of messages. Default: the prefetch.
            linger: Seconds to wait for more after the first one.

        Returns:
            False when the subscription was left.

        Cancellation: no message is lost: what was taken is here.
        """
        batch = await self._subscription.receive_batch(max_messages or self._prefetch, linger=linger)
        self._here.extend(batch)
        return bool(batch)

    async def fetch_more(self, max_messages: int, linger: float) -> None:
        """`fetch` when there are messages already: returns after `linger` seconds in any case.

        Cancellation: as `fetch`.
        """
        with trio.move_on_after(linger):
            try:
                await self.fetch(max_messages, linger)
            except StompError:
                # The messages that are here come first; the next fetch raises it again.
                return
