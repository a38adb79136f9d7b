"""The window of a publisher: how many of its messages are on their way, and who waits for room for more."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import trio

from trio_stomp.session.turns import Turns

__all__ = ["Window"]

# Below every count of messages.
_NEVER: Final = -1
# To wake a sender costs more than to send a message. Brokers that confirm one by one would wake it for each: it sleeps
# on until this part of the window is free, but no longer than a moment, since the rest may take for ever.
_GOOD_PART: Final = 4
_MOMENT: Final = 0.002

# What a message is to its publisher.
M = TypeVar("M")


class Window(Generic[M]):
    """The messages of one publisher that await their RECEIPT, in numbers.

    Args:
        max_messages: No more than this many.
        max_octets: No more than this many octets of bodies; a single larger one is let through by itself.

    Attributes:
        in_flight: How many there are.
        octets: How many octets their bodies have.
        confirmed: How many the broker has confirmed.
        failed: Those that were not confirmed and never will be, and that nothing has reported yet, in that order.
        order: Where senders queue for room; it is held from before `wait_for_room` until the message is added.
    """

    def __init__(self, max_messages: int, max_octets: int) -> None:
        self._max_messages = max_messages
        self._max_octets = max_octets
        self._waiting = trio.lowlevel.ParkingLot()
        # So few messages on their way, or fewer, wake who waits; nobody does where it cannot come to that.
        self._wake_at = _NEVER
        self.in_flight = 0
        self.octets = 0
        self.confirmed = 0
        self.failed: dict[M, None] = {}
        self.order = Turns()

    def has_room(self, octets: int) -> bool:
        """Whether there is room for one more message; while `order` is taken, it is for the holder."""
        in_flight = self.in_flight
        return not in_flight or (in_flight < self._max_messages and self.octets + octets <= self._max_octets)

    def confirmed_some(self, count: int, octets: int) -> None:
        """The broker has so many of the messages."""
        self.confirmed += count
        self.in_flight -= count
        self.octets -= octets
        if self.in_flight <= self._wake_at:
            self._wake()

    def failed_one(self, message: M, octets: int) -> None:
        """One of the messages was refused, or given up, or no connection will bring its RECEIPT."""
        self.failed[message] = None
        self.in_flight -= 1
        self.octets -= octets
        if self.in_flight <= self._wake_at:
            self._wake()

    def failure_seen(self, message: M) -> None:
        """Somebody was told that one of the messages has failed."""
        self.failed.pop(message, None)

    def take_failed(self) -> list[M]:
        """The messages whose failure is to be reported now; it is not reported again."""
        failed, self.failed = list(self.failed), {}
        return failed

    def _wake(self) -> None:
        # Once for all that a chunk of input brings: whoever waits runs when the reader is through with it.
        self._wake_at = _NEVER
        self._waiting.unpark_all()

    async def wait_for_room(self, octets: int) -> None:
        """Wait, as the holder of `order`, until one more message may be added, and a moment longer for more room.

        Cancellation: nothing changes.
        """
        if self.has_room(octets):
            return
        while not self.has_room(octets):
            await self._wait_for(self.in_flight - 1)
        enough = self._max_messages - self._max_messages // _GOOD_PART
        if self.in_flight > enough:
            with trio.move_on_after(_MOMENT):
                await self._wait_for(enough)

    async def wait_empty(self) -> None:
        """Wait until no message is on its way.

        Cancellation: nothing changes.
        """
        while self.in_flight:
            await self._wait_for(0)

    async def _wait_for(self, in_flight: int) -> None:
        self._wake_at = max(self._wake_at, in_flight)
        await self._waiting.park()
