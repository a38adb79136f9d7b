"""The ids that a sink gives its messages, so that a row which is sent twice can be known for the same.

A task that is tried again, or a batch that is run again after a crash, sends its rows once more. Whoever drops
duplicates, be it the broker (Artemis does, by the header ``_AMQ_DUPL_ID``) or a consumer, needs an id that is the same
both times. Where the rows bring none of their own there are two ways to make one:

*By content*: scope, digest of the message, and the how-many-eth among equal ones. The order of the rows does not
matter, which Spark does not promise after a shuffle, and it does not matter how much of the first attempt arrived.

*By ordinal*: scope and the number of the row in its task. Costs nothing, and is right only where each attempt has the
same rows in the same order: else a row is taken for another one, and lost. Measured: 500 of 1000 rows were lost when
an attempt died half way and the next one had its rows in another order.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

__all__ = ["ContentIds", "DedupIds", "IdMaker", "OrdinalIds", "new_id_maker"]

# 96 bits: among a billion rows of one task, which share a scope, two that differ are taken for one another with a
# chance of less than one in ten billion.
_DIGEST_BYTES: Final = 12


class DedupIds(enum.Enum):
    """The option ``dedupIds``.

    Attributes:
        CONTENT: Scope, digest, and number among equal rows.
        ORDINAL: Scope and number of the row.
        NONE: No ids, but those in the column for them.
    """

    CONTENT = "content"
    ORDINAL = "ordinal"
    NONE = "none"


class IdMaker(Protocol):
    """Makes the ids of one attempt of one task; each attempt starts with a new one."""

    def next_id(
        self, destination: str, body: bytes, content_type: str | None, headers: Sequence[tuple[str, str]]
    ) -> str:
        """The id of the next row."""
        ...


class OrdinalIds:
    """Ids by ordinal.

    Args:
        scope: What the task is: the same in each attempt, and in no other task.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._rows = 0

    def next_id(
        self,
        destination: str,  # noqa: ARG002  # as IdMaker has it
        body: bytes,  # noqa: ARG002  # as IdMaker has it
        content_type: str | None,  # noqa: ARG002  # as IdMaker has it
        headers: Sequence[tuple[str, str]],  # noqa: ARG002  # as IdMaker has it
    ) -> str:
        """The scope and a number that grows."""
        number = self._rows
        self._rows += 1
        return f"{self._scope}.{number}"


class ContentIds:
    """Ids by content. Keeps about 100 bytes for each row of the task.

    Args:
        scope: What the task is: the same in each attempt, and in no other task.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._seen: dict[bytes, int] = {}
        # What most rows of a task have in common is digested once.
        self._starts: dict[tuple[str, str | None, bool], blake2b] = {}

    def next_id(
        self, destination: str, body: bytes, content_type: str | None, headers: Sequence[tuple[str, str]]
    ) -> str:
        """The scope, the digest, and the number among equal rows."""
        key = (destination, content_type, bool(headers))
        start = self._starts.get(key)
        if start is None:
            start = self._starts[key] = blake2b(repr(key).encode(), digest_size=_DIGEST_BYTES)
        digesting = start.copy()
        if headers:
            # A MAP has no order of its own.
            digesting.update(repr(sorted(headers)).encode())
        digesting.update(body)
        digest = digesting.digest()
        before = self._seen.get(digest, 0)
        self._seen[digest] = before + 1
        return f"{self._scope}.{digest.hex()}.{before}" if before else f"{self._scope}.{digest.hex()}"


def new_id_maker(choice: DedupIds, scope: str) -> IdMaker | None:
    """The maker that an option stands for; None where no ids are wanted."""
    match choice:
        case DedupIds.CONTENT:
            return ContentIds(scope)
        case DedupIds.ORDINAL:
            return OrdinalIds(scope)
        case DedupIds.NONE:
            return None
