"""Ids of messages that are on the disk and that the broker may deliver again.

An ACK that was sent and not confirmed leaves the broker in doubt. The rows of the newest segment are always in doubt
after a crash; those of older ones are when a link broke before their RECEIPT, and only they are written down here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trio_stomp.spark.message_columns import STABLE_ID
from trio_stomp.spark.segment_files import SegmentFile, flush_folder, read_segment

__all__ = ["InDoubt", "ids_of"]

# An ACK that did arrive leaves ids here that never come again. The oldest go first.
_MOST: Final = 200_000


class InDoubt:
    """The ids, in memory and, when `save` returns, on the disk.

    Args:
        path: The file they are in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, None] = dict.fromkeys(_read(path))
        self._saved = len(self._ids)
        self._changed = False

    def __contains__(self, stable_id: str) -> bool:
        """Whether a message with this id is on the disk."""
        return stable_id in self._ids

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ids)

    def add(self, ids: Iterable[str]) -> None:
        """Remember ids."""
        for each in ids:
            self._ids[each] = None
            self._changed = True
        while len(self._ids) > _MOST:
            del self._ids[next(iter(self._ids))]

    def discard(self, ids: Iterable[str]) -> None:
        """Forget ids: an ACK of theirs was confirmed."""
        for each in ids:
            self._ids.pop(each, None)

    def save(self) -> None:
        """Write them down, where there are more than were written; ids too many in the file do no harm.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if not self._changed:
            return
        half = self._path.with_suffix(".tmp")
        with half.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in self._ids)
            file.flush()
            os.fsync(file.fileno())
        half.rename(self._path)
        flush_folder(self._path.parent)
        self._changed = False


def _read(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        found: list[object] = [json.loads(line) for line in text.split("\n") if line]
    except ValueError:
        msg = f"{path}: expected a line of JSON for each id; it is damaged: delete it, and copies of messages may come"
        raise ValueError(msg) from None
    return [each for each in found if isinstance(each, str)]


def ids_of(segment: SegmentFile) -> list[str]:
    """The ids of the messages of a segment, of those that have one."""
    found: list[str | None] = []
    for batch in read_segment(segment.path):
        found += batch.select([STABLE_ID]).to_pydict()[STABLE_ID]
    return [each for each in found if each is not None]
