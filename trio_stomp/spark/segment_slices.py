"""Slices of segments, by row numbers: the content of a batch, and the part that each task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import RecordBatch, Table, ipc
from pyspark.sql.datasource import InputPartition

from trio_stomp.spark.message_columns import completed, needed_for
from trio_stomp.spark.segments import Segment, open_batches
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore

__all__ = ["InlineGroup", "SegmentGroup", "SegmentSlice", "cut", "grouped", "missing", "rows_of"]

# Below this number of rows, another task costs more than it saves.
_ROWS_WORTH_A_TASK: Final = 5_000
# Brokers that wait for each ACK make small segments; Spark wants large batches.
_ROWS_OF_A_BATCH: Final = 10_000
_BYTES_OF_A_BATCH: Final = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSlice:
    """Adjacent rows of a segment.

    Attributes:
        path: The object of the segment.
        skip: How many rows of the segment come before them.
        rows: How many rows these are, copies included.
        copies: The positions of copies in the segment; these rows are left out.
    """

    path: str
    skip: int
    rows: int
    copies: tuple[int, ...] = ()


class SegmentGroup(InputPartition):
    """Rows that one task reads from the spool, in order."""

    def __init__(self, slices: Sequence[SegmentSlice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


class InlineGroup(InputPartition):
    """Rows that travel with the task, for executors that cannot reach the spool."""

    def __init__(self, store: SpoolStore, slices: Sequence[SegmentSlice], names: Sequence[str]) -> None:
        super().__init__(None)
        sink = pa.BufferOutputStream()
        batches = list(_batches(store, slices, names))
        if batches:
            with ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    # pyarrow-stubs does not declare what it returns.
                    writer.write(batch)  # pyright: ignore[reportUnknownMemberType]
        self.octets = sink.getvalue().to_pybytes()


def rows_of(location: SpoolLocation, partition: InputPartition, names: Sequence[str]) -> Iterator[RecordBatch]:
    """Yield the rows of a group: the columns with these names.

    Raises:
        TypeError: The partition is not one of this source.
        SpoolError: A segment is not there, cannot be read from this machine, or is damaged.
        SchemaDiffers: A segment lacks a column that it should have.
    """
    if isinstance(partition, SegmentGroup):
        if partition.slices:
            yield from _batches(location.open(), partition.slices, names)
    elif isinstance(partition, InlineGroup):
        if partition.octets:
            yield from ipc.open_stream(partition.octets)
    else:
        raise TypeError(f"expected a partition of this source, got a {type(partition).__name__}")


def _batches(store: SpoolStore, slices: Sequence[SegmentSlice], names: Sequence[str]) -> Iterator[RecordBatch]:
    gathered: list[RecordBatch] = []
    rows = size = 0
    for each in slices:
        for batch in _slice(store, each, names):
            gathered.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _ROWS_OF_A_BATCH or size >= _BYTES_OF_A_BATCH:
                yield from _combined(gathered)
                gathered, rows, size = [], 0, 0
    yield from _combined(gathered)


def _combined(batches: list[RecordBatch]) -> Iterator[RecordBatch]:
    if len(batches) > 1:
        yield from Table.from_batches(batches).combine_chunks().to_batches()
    else:
        yield from batches


def _slice(store: SpoolStore, wanted: SegmentSlice, names: Sequence[str]) -> Iterator[RecordBatch]:
    copies = set(wanted.copies)
    end = wanted.skip + wanted.rows
    at = 0
    for found in open_batches(store, wanted.path, needed_for(names)):
        batch = completed(found, names)
        first = max(0, wanted.skip - at)
        part = batch.slice(first, max(0, end - at - first))
        if copies:
            part = part.filter(pa.array([at + first + each not in copies for each in range(part.num_rows)], pa.bool_()))
        at += batch.num_rows
        if part.num_rows:
            yield part


def cut(
    store: SpoolStore, segments: Sequence[Segment], start: int, end: int, copies: tuple[int, ...] = ()
) -> list[SegmentSlice]:
    """Return the rows of segments of one shard, from number `start` + 1 to `end`."""
    return [
        SegmentSlice(
            path=store.path(each.name),
            skip=max(0, start + 1 - each.first),
            rows=min(end, each.last) - max(start + 1, each.first) + 1,
            copies=copies,
        )
        for each in segments
        if start < end and each.last > start and each.first <= end
    ]


def missing(segments: Sequence[Segment], start: int, end: int) -> list[tuple[int, int]]:
    """Return the numbers from `start` + 1 to `end` that no segment of a shard has, as first and last of each gap."""
    gaps: list[tuple[int, int]] = []
    expected = start + 1
    for each in segments:
        if each.last < expected or each.first > end:
            continue
        if each.first > expected:
            gaps.append((expected, each.first - 1))
        expected = each.last + 1
    if expected <= end:
        gaps.append((expected, end))
    return gaps


def grouped(slices: Sequence[SegmentSlice], most: int, least: int = 1) -> list[list[SegmentSlice]]:
    """Return rows in groups of about equal size, in order. A slice is only divided where there are too few of them.

    Args:
        slices: The rows.
        most: Maximum number of groups.
        least: Minimum number of groups, if there are enough rows.
    """
    total = sum(each.rows for each in slices)
    if len(slices) < least:
        slices = [part for each in slices for part in _parts(each, max(1, total // least))]
    count = max(least, min(most, total // _ROWS_WORTH_A_TASK))
    groups: list[list[SegmentSlice]] = [[] for _ in range(count)]
    before = 0
    for each in slices:
        # By the middle of the slice, so that each belongs to one group.
        groups[(before + each.rows // 2) * count // max(1, total)].append(each)
        before += each.rows
    return [group for group in groups if group]


def _parts(whole: SegmentSlice, rows: int) -> Iterator[SegmentSlice]:
    """Yield a slice in parts of this number of rows; the last one may have fewer."""
    for start in range(0, whole.rows, rows):
        yield replace(whole, skip=whole.skip + start, rows=min(rows, whole.rows - start))
