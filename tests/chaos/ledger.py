"""The book of a run: which messages were sent, confirmed and handled, how often, and what must not be."""

from __future__ import annotations

import re
from array import array
from typing import Final

__all__ = ["Ledger"]

# More than this of one kind of trouble tells nothing new.
_MOST_TROUBLES: Final = 20
_MANY: Final = 255


class Ledger:
    """Messages by their numbers, from 0. Its memory does not grow: a run must be able to show that nothing else does.

    Args:
        run: What marks the messages of this run.
        total: How many messages there are.

    Attributes:
        run: That mark.
        total: That number.
        phase: The number of the fault that struck last, for the messages that are sent now.
        sent: How many were handed to `send`.
        confirmed: How many the broker has confirmed.
        handled: How many times a message was handled.
        distinct: How many messages were handled.
        troubles: What must not be, in words.
    """

    def __init__(self, run: str, total: int) -> None:
        self.run = run
        self.total = total
        self.phase = 0
        self.sent = 0
        self.confirmed = 0
        self.handled = 0
        self.distinct = 0
        self.troubles: list[str] = []
        self._sent = bytearray(total)
        self._confirmed = bytearray(total)
        self._handled = bytearray(total)
        self._phases = array("H", bytes(2 * total))
        # The stable id at the first delivery, as number of the publisher and count; 0: not delivered yet.
        self._ids = array("Q", bytes(8 * total))
        self._prefixes: dict[str, int] = {}

    @property
    def duplicates(self) -> int:
        """How many times a message was handled that had been handled before."""
        return self.handled - self.distinct

    @property
    def on_the_way(self) -> int:
        """How many were sent and not handled yet."""
        return self.sent - self.distinct

    def sending(self, number: int) -> None:
        """A message is about to be handed to `send`."""
        self.sent += 1
        self._sent[number] = 1
        self._phases[number] = self.phase

    def confirm(self, number: int) -> None:
        """The broker has confirmed a message."""
        if self._confirmed[number]:
            self.trouble(f"message {number} was confirmed twice")
            return
        self.confirmed += 1
        self._confirmed[number] = 1

    def handle(self, body: bytes, stable_id: str | None) -> None:
        """A message was delivered and is now handled."""
        number = self._number(body)
        if number is None:
            return
        if not self._sent[number]:
            self.trouble(f"message {number} was handled and had not been sent")
        times = self._handled[number]
        self.handled += 1
        self.distinct += not times
        self._handled[number] = min(times + 1, _MANY)
        self._same_id(number, stable_id)

    def _number(self, body: bytes) -> int | None:
        """The number of a message, if it is one of ours and whole."""
        run, _, rest = body.partition(b" ")
        digits = rest.partition(b" ")[0]
        if run != self.run.encode() or not digits.isdigit() or int(digits) >= self.total:
            self.trouble(f"handled what nobody had sent: {body[:80]!r}")
            return None
        number = int(digits)
        if body != self.body(number):
            self.trouble(f"message {number} was handled with another body: {body[:80]!r} ({len(body)} bytes)")
            return None
        return number

    def _same_id(self, number: int, stable_id: str | None) -> None:
        if stable_id is None:
            self.trouble(f"message {number} came without a stable id")
            return
        prefix, _, count = stable_id.rpartition("-")
        known = self._prefixes.setdefault(prefix, len(self._prefixes) + 1)
        code = (known << 32) + int(count)
        if self._ids[number] not in (0, code):
            self.trouble(f"message {number} came again under another stable id: {stable_id}")
        self._ids[number] = code

    def trouble(self, what: str) -> None:
        """Note what must not be."""
        if len(self.troubles) < _MOST_TROUBLES:
            self.troubles.append(what)

    def body(self, number: int) -> bytes:
        """What the message of that number looks like: mostly short, some long enough to be cut anywhere."""
        size = 40_000 if number % 1000 == 7 else 4_000 if number % 100 == 3 else 80 + number % 60
        head = b"%b %d " % (self.run.encode(), number)
        # NUL and line feed are what frames are made of: a body may have them.
        filling = b"%d\0\n" % number
        return (head + filling * (size // len(filling)))[:size]

    @property
    def mark(self) -> re.Pattern[bytes]:
        """Finds the numbers of the messages in a stream of frames."""
        return re.compile(rb"%b (\d+) " % self.run.encode())

    @property
    def is_complete(self) -> bool:
        """Whether all were sent, confirmed and handled."""
        return self.sent == self.confirmed == self.distinct == self.total

    def missing(self) -> dict[int, list[int]]:
        """Messages that were confirmed and not handled, by the number of the fault in whose time they were sent."""
        found: dict[int, list[int]] = {}
        for number in range(self.total):
            if self._confirmed[number] and not self._handled[number]:
                found.setdefault(self._phases[number], []).append(number)
        return found

    def unconfirmed(self) -> list[int]:
        """Messages that were sent and not confirmed."""
        return [number for number in range(self.total) if self._sent[number] and not self._confirmed[number]]
