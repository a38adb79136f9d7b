"""The ids of recent messages, to recognize copies in all shards and across restarts.

The planner decides once which row is a copy, before an offset covers the row; see `Planner`. Brokers mark redelivered
messages: RabbitMQ always, others except after a crash of the broker. So each segment records how many of its rows are
suspect: those marked, or all. While there are no suspects, no ids are read. They stay in the segments, and those of
deleted segments in separate objects.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trio_stomp.spark.message_columns import STABLE_ID
from trio_stomp.spark.segments import Segment, SegmentFormat, encoded, open_batches
from trio_stomp.spark.spool_store import SpoolStore, StoredObject

__all__ = ["RecentIds", "Window"]

_REDELIVERED: Final = "redelivered"
_SUSPECT: Final = "suspect"
# How many segments are in memory.
_AT_A_TIME: Final = 16
_ROWS: Final = re.compile(r"-\d{12}-(?P<rows>\d+)\.arrow$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many ids to keep.

    Attributes:
        rows: Maximum number of rows.
        seconds: Maximum age of the rows.
    """

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Row:
    stable_id: str | None
    suspect: bool


class RecentIds:
    """The ids of planned rows.

    Args:
        store: The spool.
        window: How many to keep.
    """

    def __init__(self, store: SpoolStore, window: Window) -> None:
        self._store = store
        self._window = window
        # Whether the row was suspect itself. If a receiver is slow to write and loses its connection, its rows are
        # planned after their copies; then the unmarked one is second.
        self._known: dict[str, bool] = {}
        self._suspects = 0
        self._blocks: deque[tuple[int, list[str]]] = deque()
        # Not read yet: segments, and objects with the ids of several segments.
        self._unread: dict[str, Segment | StoredObject] = {}
        self._left_out: Mapping[str, Collection[int]] = {}

    def restore(
        self,
        ids: Sequence[StoredObject],
        segments: Iterable[Segment],
        left_out: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        """Start with the rows that earlier processes have planned.

        Args:
            ids: The objects with saved ids.
            segments: The segments, the oldest first.
            left_out: For the names of segments, the positions of rows that do not count, because they were left out
                in favor of rows that are not among these.
        """
        self._left_out = left_out or {}
        self._unread.update((each.name, each) for each in ids)
        self._unread.update((each.name, each) for each in segments)

    def copies(self, segment: Segment) -> list[int]:
        """Return the positions of rows in a segment that are copies of earlier rows, and remember its ids.

        Raises:
            SpoolError: The spool cannot be read.
        """
        (found,) = self.copies_in([segment])
        return found

    def copies_in(self, segments: Sequence[Segment]) -> Iterator[list[int]]:
        """Yield what `copies` returns for each of several segments, in order. Some are read at a time.

        Raises:
            SpoolError: The spool cannot be read.
        """
        for start in range(0, len(segments), _AT_A_TIME):
            some = segments[start : start + _AT_A_TIME]
            if not self._suspects and not any(each.suspects for each in some):
                self._unread.update((each.name, each) for each in some)
                yield from ([] for _ in some)
                continue
            self._read_unread()
            for segment, rows in zip(some, self._store.each(self._rows_of, some), strict=True):
                yield self._add(segment.time, rows)

    def _read_unread(self) -> None:
        unread = list(self._unread.values())
        for start in range(0, len(unread), _AT_A_TIME):
            some = unread[start : start + _AT_A_TIME]
            for each, rows in zip(some, self._store.each(self._unread_rows, some), strict=True):
                self._add(each.time if isinstance(each, Segment) else _time_of(each), rows)
                del self._unread[each.name]

    def _unread_rows(self, each: Segment | StoredObject) -> list[_Row]:
        if not isinstance(each, Segment):
            return self._saved_rows(each.name)
        left_out = self._left_out.get(each.name, ())
        return [row for position, row in enumerate(self._rows_of(each)) if position not in left_out]

    def _add(self, time: int, rows: Sequence[_Row]) -> list[int]:
        copies: list[int] = []
        added: list[str] = []
        known = self._known
        for position, row in enumerate(rows):
            if row.stable_id is None:
                continue
            before = known.get(row.stable_id)
            if before is None:
                known[row.stable_id] = row.suspect
                self._suspects += row.suspect
                added.append(row.stable_id)
            elif row.suspect or before:
                copies.append(position)
        self._blocks.append((time, added))
        self._forget(time)
        return copies

    def _forget(self, now: int) -> None:
        oldest = now - int(self._window.seconds * 1000)
        while len(self._blocks) > 1 and (len(self._known) > self._window.rows or self._blocks[0][0] < oldest):
            for each in self._blocks.popleft()[1]:
                self._suspects -= self._known.pop(each)

    def _rows_of(self, segment: Segment) -> list[_Row]:
        rows: list[_Row] = []
        all_suspect = segment.suspects == segment.rows
        for batch in open_batches(self._store, self._store.path(segment.name), [STABLE_ID, _REDELIVERED]):
            columns = batch.to_pydict()
            rows += [
                _Row(each, all_suspect or redelivered)
                for each, redelivered in zip(columns[STABLE_ID], columns[_REDELIVERED], strict=True)
            ]
        return rows

    def _saved_rows(self, name: str) -> list[_Row]:
        rows: list[_Row] = []
        for batch in open_batches(self._store, self._store.path(name), [STABLE_ID, _SUSPECT]):
            columns = batch.to_pydict()
            rows += [_Row(*each) for each in zip(columns[STABLE_ID], columns[_SUSPECT], strict=True)]
        return rows

    def save(self, segments: Sequence[Segment]) -> None:
        """Save the ids of segments that are about to be deleted.

        Raises:
            SpoolError: The spool cannot be read or written.
        """
        found = [row for rows in self._store.each(self._rows_of, segments) for row in rows if row.stable_id is not None]
        time = max(each.time for each in segments)
        name = f"ids/{time:015}-{segments[0].shard}-{segments[0].first:012}-{len(found)}.arrow"
        if found:
            ids, suspect = [row.stable_id for row in found], [row.suspect for row in found]
            batch = pa.record_batch({STABLE_ID: pa.array(ids), _SUSPECT: pa.array(suspect)})
            self._store.put(name, encoded(batch, SegmentFormat.ARROW))
        unread = [self._unread.pop(each.name, None) for each in segments]
        if found and any(unread):
            self._unread[name] = StoredObject(name=name, size=0, changed=0)

    def delete_outdated(self, ids: Sequence[StoredObject], now: float) -> None:
        """Delete saved ids that are older than the window, or that newer ones have pushed out of it.

        Args:
            ids: The objects with saved ids, the oldest first.
            now: The time, in seconds since 1970.

        Raises:
            SpoolError: One cannot be deleted.
        """
        oldest = (now - self._window.seconds) * 1000
        newer = 0
        outdated: list[str] = []
        for each in reversed(ids):
            if newer >= self._window.rows or _time_of(each) < oldest:
                outdated.append(each.name)
            newer += _rows_in(each)
        for name in outdated:
            self._unread.pop(name, None)
        self._store.delete(outdated)


def _time_of(each: StoredObject) -> int:
    return int(each.name.removeprefix("ids/").partition("-")[0])


def _rows_in(each: StoredObject) -> int:
    """The number of ids; 0 if the name does not say, as in releases before 1.0."""
    found = _ROWS.search(each.name)
    return int(found["rows"]) if found else 0
