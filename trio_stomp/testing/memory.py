"""What the embedded broker holds in memory: four accounts, each with a limit that an option sets.

Every buffer that a client can make grow is charged to one of them, at about the memory that it takes in CPython: text
and bodies by their length, and a fixed amount for the objects around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trio_stomp.testing.refusals import Refusal

__all__ = ["COPY_BYTES", "Account", "Memory", "message_bytes", "text_bytes"]

# Measured with CPython 3.11: a stored message with its id and its place among the unacknowledged; one header.
_MESSAGE_BYTES: Final = 512
_HEADER_BYTES: Final = 160
# A second copy of a message, in the backlog of another subscription: headers and body are shared.
COPY_BYTES: Final = 384


def text_bytes(text: str) -> int:
    """The most memory that the characters of a text take."""
    return len(text) if text.isascii() else 4 * len(text)


def message_bytes(headers: Sequence[tuple[str, str]], body: bytes) -> int:
    """The memory of a message that no decoder has measured (see `Frame.footprint`)."""
    text = "".join(map("".join, headers))
    return _MESSAGE_BYTES + len(body) + _HEADER_BYTES * len(headers) + text_bytes(text)


@dataclass(slots=True, kw_only=True, eq=False)
class Account:
    """A shared amount of memory.

    Attributes:
        what: What is charged to it, for error texts: ``all queues together``.
        option: The option that sets the limit.
        limit: How many bytes may be used.
        used: How many bytes are used.
    """

    what: str
    option: str
    limit: int
    used: int = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.used >= self.limit

    def require(self, size: int) -> None:
        """Make sure that there is room.

        Raises:
            Refusal: There is none. It names the limit and its option.
        """
        if self.used + size > self.limit:
            raise Refusal(
                "memory limit reached",
                f"{self.what} would hold {self.used + size} bytes, the limit is {self.limit} ({self.option})",
            )

    def charge(self, size: int) -> None:
        """Use some more.

        Raises:
            Refusal: There is no room, and nothing was charged.
        """
        used = self.used + size
        if used > self.limit:
            self.require(size)
        self.used = used


class Memory:
    """The accounts of a broker, each with its limit in bytes.

    Attributes:
        stored: Messages in queues, unacknowledged ones, delayed ones, and those of open transactions.
        output: Output that clients have not read.
        unfinished: Frames received in part.
        names: Destinations, subscriptions and transactions, without their messages.
    """

    def __init__(self, *, stored: int, output: int, unfinished: int, names: int) -> None:
        self.stored = Account(what="all queues and open transactions together", option="max_stored_bytes", limit=stored)
        self.output = Account(what="all output that clients have not read", option="max_output_bytes", limit=output)
        self.unfinished = Account(what="all frames received in part", option="max_unfinished_bytes", limit=unfinished)
        self.names = Account(
            what="all destinations, subscriptions and transactions", option="max_names_bytes", limit=names
        )
