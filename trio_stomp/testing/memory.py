"""What the embedded broker may hold in memory: four accounts, each with a limit that an option sets.

Every buffer that a client can make grow is charged to one of them, at about the memory that it takes in CPython: text
and bodies by their length, and a fixed amount for the objects around them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from trio_stomp.testing.refusals import Refusal

__all__ = ["COPY_BYTES", "Account", "Memory", "message_bytes", "text_bytes"]

# Measured with CPython 3.11: a stored message with its id and its place among the unacknowledged; one header.
_MESSAGE_BYTES = 512
_HEADER_BYTES = 160
# A second copy of a message, in the backlog of another subscription: headers and body are shared.
COPY_BYTES = 384


def text_bytes(text: str) -> int:
    """How much memory the characters of a text take at most."""
    return len(text) if text.isascii() else 4 * len(text)


def message_bytes(headers: Sequence[tuple[str, str]], body: bytes) -> int:
    """How much memory a message takes."""
    # Joined by C: that costs less than a step of Python for each header.
    text = "".join(map("".join, headers))
    return _MESSAGE_BYTES + len(body) + _HEADER_BYTES * len(headers) + text_bytes(text)


@dataclass(slots=True, kw_only=True, eq=False)
class Account:
    """An amount of memory that many share.

    Attributes:
        what: What is held, for people: ``all queues together``.
        option: The option that sets the limit.
        limit: How many bytes it may come to.
        used: How many are used.
    """

    what: str
    option: str
    limit: int = sys.maxsize
    used: int = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.used >= self.limit

    def require(self, size: int) -> None:
        """Make sure that there is room.

        Raises:
            Refusal: There is not; it names the limit and its option.
        """
        if self.used + size > self.limit:
            raise Refusal(
                "memory limit reached",
                f"{self.what} would hold {self.used + size} bytes, the limit is {self.limit} ({self.option})",
            )

    def charge(self, size: int) -> None:
        """Take an amount.

        Raises:
            Refusal: There is no room for it; nothing was taken.
        """
        used = self.used + size
        if used > self.limit:
            self.require(size)
        self.used = used


def _stored() -> Account:
    return Account(what="all queues and open transactions together", option="max_stored_bytes")


def _output() -> Account:
    return Account(what="all output that clients have not read", option="max_output_bytes")


def _unfinished() -> Account:
    return Account(what="all frames received in part", option="max_unfinished_bytes")


def _names() -> Account:
    return Account(what="all destinations, subscriptions and transactions", option="max_names_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The accounts of a broker. The defaults have no limit.

    Attributes:
        stored: Messages in queues, unacknowledged ones, delayed ones, and those of open transactions.
        output: What is to be written to clients.
        unfinished: Frames of which a part has come.
        names: Destinations, subscriptions and transactions, messages apart.
    """

    stored: Account = field(default_factory=_stored)
    output: Account = field(default_factory=_output)
    unfinished: Account = field(default_factory=_unfinished)
    names: Account = field(default_factory=_names)

    def limit(self, *, stored: int, output: int, unfinished: int, names: int) -> None:
        """Set the limits."""
        self.stored.limit = stored
        self.output.limit = output
        self.unfinished.limit = unfinished
        self.names.limit = names
