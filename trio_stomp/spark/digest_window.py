"""A memory of ids: the newest ones, each with a mark, in 17 bytes of digest and mark and a few of index.

A dictionary of strings takes about 150 bytes for each id, and twice its size whenever it grows. So this is a hash table
with open addressing, in arrays.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from typing import Final

__all__ = ["DIGEST_BYTES", "DigestWindow", "digest_of"]

# 128 bits: among a million ids, two have the same digest with a probability of 1 in 10**26.
DIGEST_BYTES: Final = 16
_SMALLEST: Final = 1024


def digest_of(text: str) -> bytes:
    """The digest by which an id is remembered. It is not stored anywhere."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES, usedforsecurity=False).digest()


class DigestWindow:
    """Digests with marks, in the order in which they were added; the oldest can be forgotten."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._marks = bytearray()
        # Those before this one are forgotten; they are removed when the table is rebuilt.
        self._oldest = 0
        # The number of a digest + 1; 0: free. A digest is in the first free place from the one that its hash says.
        self._table = _free(_SMALLEST)

    def __len__(self) -> int:
        return len(self._marks) - self._oldest

    def find(self, digest: bytes) -> int | None:
        """Return the mark of a digest; None if it is not there."""
        table, digests = self._table, self._digests
        places = len(table) - 1
        place = hash(digest) & places
        while number := table[place]:
            if number > self._oldest and digests.startswith(digest, (number - 1) * DIGEST_BYTES):
                return self._marks[number - 1]
            place = (place + 1) & places
        return None

    def add(self, digest: bytes, mark: int) -> None:
        """Add a digest that is not there."""
        self._digests += digest
        self._marks.append(mark)
        if 4 * len(self._marks) > 3 * len(self._table):
            self._make_table()
        else:
            _place(self._table, digest, len(self._marks))

    def _make_table(self) -> None:
        del self._digests[: self._oldest * DIGEST_BYTES]
        del self._marks[: self._oldest]
        self._oldest = 0
        places = _SMALLEST
        while places < 2 * len(self._marks):
            places *= 2
        # Not both at once.
        self._table = _free(0)
        self._table = _free(places)
        for number in range(len(self._marks)):
            at = number * DIGEST_BYTES
            _place(self._table, bytes(self._digests[at : at + DIGEST_BYTES]), number + 1)

    def oldest(self, count: int) -> Iterator[tuple[bytes, int]]:
        """Yield the oldest digests with their marks.

        Args:
            count: How many.
        """
        for number in range(self._oldest, self._oldest + count):
            yield bytes(self._digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]), self._marks[number]

    def forget(self, count: int) -> None:
        """Forget the oldest digests.

        Args:
            count: How many.
        """
        self._oldest += count


def _free(places: int) -> array[int]:
    return array("I", bytes(4 * places))


def _place(table: array[int], digest: bytes, number: int) -> None:
    places = len(table) - 1
    place = hash(digest) & places
    while table[place]:
        place = (place + 1) & places
    table[place] = number
