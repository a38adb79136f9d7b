"""Deliveries that met an UNSUBSCRIBE, where the broker keeps them locked (RabbitMQ): which they are.

A subscription was left, and the broker had already picked messages for it. They come as MESSAGE frames for no open
subscription, or as ERROR frames in the place of them; either way no other consumer gets them while this connection
lives. Here their numbers are found out, for `giving_back` to refuse them.

A MESSAGE bears its number. An ERROR does not, and to refuse a wrong number could settle a message that somebody is
handling. But the broker numbers its deliveries from 1, without gaps and in the order in which it sends them, and each
of them arrives here as a MESSAGE or as such an ERROR. So the number of a swallowed delivery is a count: of all MESSAGEs
and of all such ERRORs so far. The count is checked against the number that the newest MESSAGE bears. If the two ever
disagree, this broker numbers in another way, and swallowed deliveries are left alone from then on: they stay locked
until the connection ends. Where they agree, a number so found is higher than that of every MESSAGE that came before,
and lower than that of every one that comes after.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.brokers import delivery_number, swallowed_for
from trio_stomp.protocol import Headers

__all__ = ["LateDeliveries", "Left"]

logger: Final = logging.getLogger("trio_stomp")

# Late deliveries come within a round trip; nobody leaves this many subscriptions in one.
_REMEMBERED: Final = 1024
# No broker that keeps its credit sends more: AMQP counts a prefetch in 16 bits. What one that does not sends late stays
# locked; the alternative is memory without a bound, where it sends and does not read.
_MOST_NUMBERS: Final = 65_536


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
        # Deliveries that an ERROR stood for, and how many MESSAGEs had come when the last one did.
        self._swallowed = 0
        self._messages = 0
        self._counts_agree = True
        self.numbers: deque[int] = deque()
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
        number = _number_of(message)
        left = self._left.get(subscription_id or "")
        if self._enabled and left is not None and number is not None:
            self._add(number, left)

    def swallowed(self, error: Headers, body: bytes, *, newest: Headers | None, messages: int) -> bool:
        """Whether an ERROR stands for a late delivery; then it concerns nobody, and its number is noted.

        Args:
            error: The ERROR's headers.
            body: The ERROR's body.
            newest: The headers of the newest MESSAGE of this connection.
            messages: How many MESSAGEs have come over this connection.
        """
        if not self._enabled or error.get("message") != "Subscription not found":
            return False
        left = self._left.get(swallowed_for(body) or "")
        if left is None:
            return False
        if messages != self._messages:
            self._messages = messages
            self._check_count(newest)
        self._swallowed += 1
        if self._counts_agree:
            self._add(messages + self._swallowed, left)
        return True

    def _check_count(self, newest: Headers | None) -> None:
        expected, number = self._messages + self._swallowed, None if newest is None else _number_of(newest)
        if self._counts_agree and number != expected:
            self._counts_agree = False
            logger.warning(
                "this broker does not number its deliveries one by one (number %s, %d came): messages that meet an "
                "UNSUBSCRIBE stay locked until the connection ends",
                number,
                expected,
            )

    def _add(self, number: int, left: Left) -> None:
        if left.settles and len(self.numbers) < _MOST_NUMBERS:
            self.numbers.append(number)
            self.last = left
            self.wake()

    def forget_numbers(self) -> int:
        """Give none of them back; returns how many there were."""
        count = len(self.numbers)
        self.numbers.clear()
        return count

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


def _number_of(message: Headers) -> int | None:
    return delivery_number(message.get("message-id") or "")
