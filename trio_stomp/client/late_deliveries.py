"""Deliveries that met an UNSUBSCRIBE, where the broker keeps them locked (RabbitMQ): which they are.

A subscription was left, and the broker had already picked messages for it. They come as MESSAGE frames for no open
subscription, or as ERROR frames in the place of them; either way nobody else gets them while this connection lives.
Here their numbers are found out, for `giving_back` to refuse them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.brokers import delivery_number, swallowed_for
from trio_stomp.protocol import Headers

__all__ = ["LateDeliveries", "Left"]

# Late deliveries come within a round trip; nobody leaves this many subscriptions in one.
_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A subscription that was left.

    Attributes:
        destination: What it subscribed to.
        headers: The headers that its SUBSCRIBE had besides.
        settles: Whether its messages are to be settled at all.
    """

    destination: str
    headers: tuple[tuple[str, str], ...]
    settles: bool


class LateDeliveries:
    """The late deliveries of one connection.

    Args:
        enabled: Whether the broker keeps them locked. Where it does not, there is nothing to do.

    Attributes:
        numbers: Those that are still to be given back.
        last: The subscription that the newest of them was meant for.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._left: OrderedDict[str, Left] = OrderedDict()
        # The newest number known: that of a MESSAGE, or of a delivery swallowed after it.
        self._newest = 0
        self._swallowed = 0
        self.numbers: list[int] = []
        self.last: Left | None = None
        self._waiting = trio.lowlevel.ParkingLot()
        self._helpers = 0

    def leave(self, subscription_id: str, left: Left) -> None:
        """A subscription is being left."""
        self._left[subscription_id] = left
        self._left.move_to_end(subscription_id)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)

    def came(self, message: Headers, subscription_id: str | None) -> None:
        """A MESSAGE came for a subscription that is not open."""
        number = delivery_number(message.get("message-id") or "")
        left = self._left.get(subscription_id or "")
        if self._enabled and left is not None and number is not None:
            self._add(number, left)

    def swallowed(self, error: Headers, body: bytes, newest: Headers | None) -> bool:
        """Whether an ERROR stands for a late delivery; then it concerns nobody, and its number is noted.

        Args:
            error: The ERROR's headers.
            body: The ERROR's body.
            newest: The headers of the newest MESSAGE of this connection.
        """
        if not self._enabled or error.get("message") != "Subscription not found":
            return False
        left = self._left.get(swallowed_for(body) or "")
        if left is None:
            return False
        number = 0 if newest is None else delivery_number(newest.get("message-id") or "") or 0
        if number != self._newest:
            self._newest, self._swallowed = number, 0
        self._swallowed += 1
        self._add(number + self._swallowed, left)
        return True

    def _add(self, number: int, left: Left) -> None:
        if left.settles:
            self.numbers.append(number)
            self.last = left
            self.wake()

    def take(self) -> Sequence[int]:
        """Take all numbers, to give them back."""
        numbers, self.numbers = self.numbers, []
        return numbers

    def new_helper_id(self) -> str:
        """An id for a subscription of ours that only gives back."""
        self._helpers += 1
        return f"give-back-{self._helpers}"

    def wake(self) -> None:
        """Something changed for whoever gives back: more came, or a subscription was opened."""
        self._waiting.unpark_all()

    async def wait_change(self) -> None:
        """Wait for more, or for a subscription through which they can be given back.

        Cancellation: nothing was taken.
        """
        await self._waiting.park()
