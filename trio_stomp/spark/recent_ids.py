"""The ids of earlier messages, to recognize copies in all shards and across restarts.

A broker delivers a message again if it has not taken its ACK: a connection or a process ended before the RECEIPT. The
ids of those rows, whose ACK is in doubt, are kept however long that takes, and whatever comes meanwhile. Some brokers
deliver again what they had confirmed, such as RabbitMQ when it is killed a moment after the RECEIPT. So the ids of
other rows are kept too, within a window: a number of rows, and an age. The age only counts the time in which messages
arrive: otherwise an outage of a night would end it, and it is after such an outage that they are redelivered.

The planner decides once which row is a copy, before an offset covers the row; see `Planner`. Brokers mark redelivered
messages: RabbitMQ always, others except after a crash of the broker. So each segment records how many of its rows are
suspect: those marked, or all. While there are no suspects, no ids are read. They stay in the segments, and those of
deleted segments in separate objects, below ``doubts`` and ``ids``.
"""

from __future__ import annotations

import hashlib
import os
import re
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import Array, DataType, RecordBatch, Scalar, Table

from trio_stomp.spark.message_columns import STABLE_ID
from trio_stomp.spark.segments import Segment, SegmentFormat, encoded, open_batches
from trio_stomp.spark.spool_store import SpoolStore, StoredObject

__all__ = ["DIGEST_BYTES", "DigestWindow", "RecentIds", "Window", "digest_of"]

# 128 bits: among a million ids, two have the same digest with a probability of 1 in 10**26.
DIGEST_BYTES: Final = 16
# Salted: otherwise, a sender could choose ids that all get the same place in the table.
_EMPTY: Final = hashlib.blake2b(digest_size=DIGEST_BYTES, salt=os.urandom(16), usedforsecurity=False)
_REDELIVERED: Final = "redelivered"
_SUSPECT: Final = "suspect"
# How many segments are in memory.
_AT_A_TIME: Final = 16
# A batch may have any number of segments, so their ids are saved in several objects.
_SAVED_ROWS: Final = 50_000
_DOUBTS: Final = "doubts/"
# A break in which no message arrives counts as this much of the window, and not more than this share of it.
_BREAK_SECONDS: Final = 30.0
_BREAK_SHARE: Final = 4
# Stores tell times in whole seconds, or even pairs of them. Within these, a row may be looked at before its original.
_COARSE_SECONDS: Final = 2.0
_NUMBERS: Final = re.compile(r"-\d{12}-(?P<rows>\d+)-(?P<suspects>\d+)\.arrow$")
# The mark of a row without an id, which is no copy of any other. The others: 1 if the row is suspect, otherwise 0.
_NO_ID: Final = 2


def digest_of(text: str) -> bytes:
    """The digest by which this process remembers an id. It is not stored anywhere."""
    digest = _EMPTY.copy()
    digest.update(text.encode())
    return digest.digest()


class DigestWindow:
    """Digests with marks, in the order in which they were added; the oldest can be forgotten.

    A dictionary of strings takes about 150 bytes for each id, and twice its size whenever it grows. So this is a hash
    table with open addressing, in arrays: 17 bytes of digest and mark, and 6 to 12 of index.
    """

    def __init__(self) -> None:
        self._digests = bytearray()
        self._marks = bytearray()
        # Those before this one are forgotten; they are removed when the table is rebuilt.
        self._oldest = 0
        # The number of a digest + 1; 0: free. A digest begins at the place that its first half says, and takes the
        # first that is free.
        self._table = _free(1)

    def __len__(self) -> int:
        return len(self._marks) - self._oldest

    def find(self, digest: bytes) -> int | None:
        """Return the mark of a digest; None if it is not there."""
        table, digests = self._table, self._digests
        place = _first_halves(digest)[0] % len(table)
        while number := table[place]:
            if number > self._oldest and digests.startswith(digest, (number - 1) * DIGEST_BYTES):
                return self._marks[number - 1]
            place = (place + 1) % len(table)
        return None

    def add(self, added: bytes, marks: bytes, others: DigestWindow | None = None) -> list[tuple[int, int]]:
        """Add those of several digests that are not there, nor among others; also each only once.

        All in one call, because a call for each would take longer than the work itself.

        Args:
            added: The digests.
            marks: The mark of each. Those with the mark _NO_ID are passed over.
            others: More digests that are not added.

        Returns:
            The positions of those that were there, with the marks that they have there.
        """
        if 3 * (len(self._marks) + len(marks)) > 2 * len(self._table):
            self._make_table(len(marks))
        table, digests, known_marks, oldest = self._table, self._digests, self._marks, self._oldest
        places = len(table)
        found: list[tuple[int, int]] = []
        for position, (half, mark) in enumerate(zip(_first_halves(added), marks, strict=True)):
            if mark == _NO_ID:
                continue
            digest = added[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]
            place = half % places
            while number := table[place]:
                if number > oldest and digests.startswith(digest, (number - 1) * DIGEST_BYTES):
                    found.append((position, known_marks[number - 1]))
                    break
                place = (place + 1) % places
            else:
                other = None if others is None else others.find(digest)
                if other is not None:
                    found.append((position, other))
                    continue
                digests += digest
                known_marks.append(mark)
                table[place] = len(known_marks)
        return found

    def _make_table(self, more: int) -> None:
        del self._digests[: self._oldest * DIGEST_BYTES]
        del self._marks[: self._oldest]
        self._oldest = 0
        places = 3 * (len(self._marks) + more)
        # Not both at once.
        self._table = _free(1)
        self._table = table = _free(places)
        with memoryview(self._digests) as digests:
            for number, half in enumerate(_first_halves(digests), 1):
                place = half % places
                while table[place]:
                    place = (place + 1) % places
                table[place] = number

    def oldest(self, count: int) -> Iterator[tuple[bytes, int]]:
        """Yield a number of the oldest digests, with their marks."""
        for number in range(self._oldest, self._oldest + count):
            yield bytes(self._digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]), self._marks[number]

    def forget(self, count: int) -> None:
        """Forget a number of the oldest digests."""
        self._oldest += count


def _free(places: int) -> array[int]:
    return array("I", [0]) * places


def _first_halves(digests: bytes | memoryview) -> memoryview:
    """The first half of each digest, as a number. It needs no hash: a digest is as good as random."""
    return memoryview(digests).cast("Q")[::2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many ids of rows to keep whose ACK was confirmed.

    Attributes:
        rows: Maximum number of rows; also of those whose ACK is in doubt.
        seconds: Maximum age of the rows, in time in which messages arrive. They are kept for some seconds in any case.
    """

    rows: int
    seconds: float

    @property
    def kept_seconds(self) -> float:
        """The maximum age that copies of rows are looked for."""
        return max(self.seconds, _COARSE_SECONDS)

    def passed(self, milliseconds: int) -> float:
        """Return how many seconds of the window the time between two segments counts."""
        return min(max(0.0, milliseconds / 1000), _BREAK_SECONDS, self.kept_seconds / _BREAK_SHARE)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a segment: one digest and one mark for each. As objects of Python, they would be five times as large."""

    digests: bytes
    marks: bytes


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that were added to the window at once: from a segment, or from one that was deleted."""

    segment: Segment | None
    age: float
    rows: int
    suspects: int


class RecentIds:
    """The ids of planned rows. Each method but `restore` raises `SpoolError` if the spool cannot be used.

    Args:
        store: The spool.
        window: How many to keep.
        is_in_doubt: Whether the ACK of a segment that is still in the spool may not have been taken by the broker.
    """

    def __init__(self, store: SpoolStore, window: Window, is_in_doubt: Callable[[Segment], bool]) -> None:
        self._store = store
        self._window = window
        self._is_in_doubt = is_in_doubt
        # The rows in doubt that are no longer in the window, or whose segments are deleted.
        self._doubts = DigestWindow()
        # The time in which messages have arrived, and when the newest ones have.
        self._age = 0.0
        self._newest: int | None = None
        # Whether the row was suspect itself. If a receiver is slow to write and loses its connection, its rows are
        # planned after their copies; then the unmarked one is second.
        self._known = DigestWindow()
        self._suspects = 0
        self._has_unread_suspects = False
        self._blocks: deque[_Block] = deque()
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
        self._has_unread_suspects = any(
            each.suspects if isinstance(each, Segment) else _saved_in(each)[1] for each in self._unread.values()
        )

    def copies(self, segment: Segment) -> list[int]:
        """Return the positions of rows in a segment that are copies of earlier rows, and remember its ids."""
        (found,) = self.copies_in([segment])
        return found

    def copies_in(self, segments: Sequence[Segment]) -> Iterator[list[int]]:
        """Yield what `copies` returns for each of several segments, in order. Some are read at a time."""
        for start in range(0, len(segments), _AT_A_TIME):
            some = segments[start : start + _AT_A_TIME]
            has_suspects = self._suspects or self._has_unread_suspects or any(each.suspects for each in some)
            if not has_suspects:
                self._unread.update((each.name, each) for each in some)
                yield from ([] for _ in some)
                continue
            self._read_unread()
            for segment, rows in zip(some, self._store.each(self._rows_of, some), strict=True):
                yield self._add(segment, rows)

    def _read_unread(self) -> None:
        # Ids that were saved lately may be older than segments that were planned before.
        unread = sorted(self._unread.values(), key=_time_of)
        for start in range(0, len(unread), _AT_A_TIME):
            some = unread[start : start + _AT_A_TIME]
            for each, rows in zip(some, self._store.each(self._unread_rows, some), strict=True):
                if each.name.startswith(_DOUBTS):
                    self._add_doubts(rows)
                else:
                    self._add(each, rows, self._left_out.get(each.name, ()))
                del self._unread[each.name]
        self._has_unread_suspects = False

    def _unread_rows(self, each: Segment | StoredObject) -> _Rows:
        return self._rows_of(each) if isinstance(each, Segment) else self._saved_rows(each.name)

    def _add(self, added: Segment | StoredObject, rows: _Rows, left_out: Collection[int] = ()) -> list[int]:
        marks = rows.marks
        if left_out:
            marks = bytes(_NO_ID if position in left_out else mark for position, mark in enumerate(marks))
        known = self._known
        before = len(known)
        found = known.add(rows.digests, marks, self._doubts if len(self._doubts) else None)
        copies = [position for position, first in found if first or marks[position]]
        suspects = marks.count(1) - sum(marks[position] for position, _ in found)
        self._suspects += suspects
        if len(known) > before:
            # What is only delivered again makes nothing older.
            time = _time_of(added)
            self._age += 0.0 if self._newest is None else self._window.passed(time - self._newest)
            self._newest = time if self._newest is None else max(self._newest, time)
        segment = added if isinstance(added, Segment) else None
        self._blocks.append(_Block(segment, self._age, len(known) - before, suspects))
        self._forget()
        return copies

    def _add_doubts(self, rows: _Rows) -> None:
        for position, mark in enumerate(rows.marks):
            at = position * DIGEST_BYTES
            self._add_doubt(rows.digests[at : at + DIGEST_BYTES], mark)

    def _add_doubt(self, digest: bytes, mark: int) -> None:
        if mark != _NO_ID and not self._doubts.add(digest, bytes([mark])):
            # Its marks are not subtracted when they are forgotten, which only costs reading.
            self._suspects += mark
        self._doubts.forget(max(0, len(self._doubts) - self._window.rows))

    def _forget(self) -> None:
        oldest = self._age - self._window.kept_seconds
        while len(self._blocks) > 1 and (len(self._known) > self._window.rows or self._blocks[0].age <= oldest):
            block = self._blocks.popleft()
            if block.segment is not None and self._is_in_doubt(block.segment):
                for digest, mark in self._known.oldest(block.rows):
                    self._add_doubt(digest, mark)
            self._known.forget(block.rows)
            self._suspects -= block.suspects

    def _rows_of(self, segment: Segment) -> _Rows:
        return _digested(self._columns_of(segment))

    def _columns_of(self, segment: Segment) -> Iterator[RecordBatch]:
        """The ids of a segment, and which are suspect."""
        all_suspect = segment.suspects == segment.rows
        for batch in open_batches(self._store, self._store.path(segment.name), [STABLE_ID, _REDELIVERED]):
            # pyarrow-stubs does not say of what the columns are.
            ids, suspect = batch.columns  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            columns: dict[str, Array[Scalar[DataType]]] = {STABLE_ID: ids, _SUSPECT: suspect}
            if all_suspect:
                columns[_SUSPECT] = _all_true(batch.num_rows)
            yield pa.record_batch(columns)

    def _saved_rows(self, name: str) -> _Rows:
        return _digested(open_batches(self._store, self._store.path(name), [STABLE_ID, _SUSPECT]))

    def save(self, segments: Sequence[Segment], in_doubt: Collection[str]) -> None:
        """Save the ids of segments that are about to be deleted.

        Args:
            segments: The segments.
            in_doubt: The names of those whose ACK the broker may not have taken.
        """
        for folder, all_of_them in (
            (_DOUBTS, [each for each in segments if each.name in in_doubt]),
            ("ids/", [each for each in segments if each.name not in in_doubt]),
        ):
            some: list[Segment] = []
            for number, segment in enumerate(all_of_them, 1):
                some.append(segment)
                if number == len(all_of_them) or sum(each.rows for each in some) >= _SAVED_ROWS:
                    self._save(some, folder)
                    some = []

    def _save(self, segments: Sequence[Segment], folder: str) -> None:
        found = [each for batches in self._store.each(self._read_columns, segments) for each in batches]
        ids = sum(each.num_rows - each.column(0).null_count for each in found)
        time = max(each.written for each in segments)
        suspects = sum(each.suspects for each in segments)
        name = f"{folder}{time:015}-{segments[0].shard}-{segments[0].first:012}-{ids}-{suspects}.arrow"
        if ids:
            (batch,) = Table.from_batches(found).combine_chunks().to_batches()
            self._store.put(name, encoded(batch, SegmentFormat.ARROW))
        unread = [self._unread.pop(each.name, None) for each in segments]
        if ids and (any(unread) or folder == _DOUBTS):
            self._unread[name] = StoredObject(name=name, size=0, changed=0)
            self._has_unread_suspects = self._has_unread_suspects or suspects > 0

    def _read_columns(self, segment: Segment) -> list[RecordBatch]:
        return list(self._columns_of(segment))

    def delete_outdated(self, ids: Sequence[StoredObject]) -> None:
        """Delete those objects with saved ids that are older than the window, or pushed out of it by newer ones."""
        outdated: list[str] = []
        for are_doubts in (False, True):
            newer, age, after = 0, 0.0, None
            some = [each for each in ids if each.name.startswith(_DOUBTS) == are_doubts]
            for each in sorted(some, key=_time_of, reverse=True):
                time = _time_of(each)
                age += 0.0 if after is None else self._window.passed(after - time)
                after = time
                if newer >= self._window.rows or (age >= self._window.kept_seconds and not are_doubts):
                    outdated.append(each.name)
                newer += _saved_in(each)[0]
        for name in outdated:
            self._unread.pop(name, None)
        self._store.delete(outdated)


def _all_true(rows: int) -> Array[Scalar[DataType]]:
    """For all its rows, `True`. pa.array() would import pandas, which takes 55 MiB."""
    return Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(b"\xff" * (rows // 8 + 1))])


def _digested(batches: Iterable[RecordBatch]) -> _Rows:
    digests, marks = bytearray(), bytearray()
    for batch in batches:
        columns = batch.to_pydict()
        for each, suspect in zip(columns[STABLE_ID], columns[_SUSPECT], strict=True):
            digests += bytes(DIGEST_BYTES) if each is None else digest_of(each)
            marks.append(_NO_ID if each is None else bool(suspect))
    return _Rows(bytes(digests), bytes(marks))


def _time_of(each: Segment | StoredObject) -> int:
    if isinstance(each, Segment):
        return each.written
    return int(each.name.partition("/")[2].partition("-")[0])


def _saved_in(each: StoredObject) -> tuple[int, int]:
    """How many ids a saved object has, and how many of their rows may be copies; 0 if its name does not say."""
    found = _NUMBERS.search(each.name)
    return (int(found["rows"]), int(found["suspects"])) if found else (0, 0)
