"""The heads of SEND frames that were encoded before: most programs send many messages with the same headers.

To find a head here takes a third of the time of encoding it. Its size is bounded, and where each message has headers of
its own, so that nothing is ever found, it stops remembering.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SentHeads"]

# A destination, and the headers of a message to it.
Key = tuple[str | tuple[str, str], ...]

_MOST: Final = 256
# Longer heads are rare, and cost as much to remember as many short ones.
_LONGEST_OCTETS: Final = 2048


class SentHeads:
    """A bounded memory of encoded heads."""

    __slots__ = ("_found", "_heads", "_useful")

    def __init__(self) -> None:
        self._heads: dict[Key, bytes] = {}
        self._found = 0
        self._useful = True

    def find(self, key: Key) -> bytes | None:
        """The head of an earlier message, or None."""
        head = self._heads.get(key)
        if head is not None:
            self._found += 1
        return head

    def remember(self, key: Key, head: bytes) -> None:
        """Keep a head for later messages."""
        if not self._useful or len(head) > _LONGEST_OCTETS:
            return
        if len(self._heads) >= _MOST:
            # All are forgotten at once: those in use are soon back.
            self._useful = self._found >= _MOST
            self._heads.clear()
            self._found = 0
        self._heads[key] = head
