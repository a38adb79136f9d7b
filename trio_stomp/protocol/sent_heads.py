"""The heads of SEND frames that were encoded before: most programs send many messages with the same headers.

To find a head here takes a third of the time of encoding it. Its size is bounded, and where each message has headers of
its own, so that nothing is ever found, it stops remembering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trio_stomp.protocol.encoder import encode_head
from trio_stomp.protocol.frames import Command
from trio_stomp.protocol.versions import Version

__all__ = ["SentHeads"]

Pairs = Sequence[tuple[str, str]]
# A destination, and the headers of a message to it.
Key = tuple[str | tuple[str, str], ...]

_SEND: Final = Command.SEND
_MOST: Final = 256
# Longer heads are rare, and cost as much to remember as many short ones.
_LONGEST_OCTETS: Final = 2048


class SentHeads:
    """A bounded memory of encoded heads, of one session."""

    __slots__ = ("_found", "_heads", "_useful", "_version")

    def __init__(self) -> None:
        self._heads: dict[Key, bytes] = {}
        self._found = 0
        self._useful = True
        self._version = Version.V1_2

    def frame(
        self, destination: str, headers: Pairs, own_headers: Pairs, body: bytes, *, content_length: bool
    ) -> bytes | None:
        """The frame of a message whose head is known, or None.

        Args:
            destination: Where to.
            headers: The headers by which its head is known.
            own_headers: Headers of this message alone.
            body: Its body.
            content_length: Add ``content-length``; without it, it is still added where the body holds a NUL.
        """
        head = self._heads.get((destination, *headers))
        if head is None:
            return None
        self._found += 1
        if own_headers:
            # All but the command, which the head has already.
            head += encode_head(_SEND, own_headers, version=self._version)[len(_SEND) :]
        # Joined, not formatted: formatting allocates a quarter more than it needs, and copies a large body twice.
        if body and (content_length or b"\0" in body):
            return b"".join((head, b"\ncontent-length:%d\n\n" % len(body), body, b"\0"))
        return b"".join((head, b"\n\n", body, b"\0"))

    def remember(self, destination: str, headers: Pairs, version: Version) -> None:
        """Keep the head of a message that was sent, for later ones; not in 1.0, which brokers read each in its way."""
        # A length that the sender gives is checked against each body.
        if not self._useful or version is Version.V1_0 or any(name == "content-length" for name, _ in headers):
            return
        head = encode_head(_SEND, [("destination", destination), *headers], version=version)
        if len(head) > _LONGEST_OCTETS:
            return
        if len(self._heads) >= _MOST:
            # All are forgotten at once: those in use are soon back.
            self._useful = self._found >= _MOST
            self._heads.clear()
            self._found = 0
        self._version = version
        self._heads[destination, *headers] = head
