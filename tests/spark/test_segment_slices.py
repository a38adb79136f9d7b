from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from trio_stomp.spark.segment_files import SegmentFile, list_segments, write_segment
from trio_stomp.spark.segment_slices import (
    InlineGroup,
    SegmentGroup,
    SegmentSlice,
    cut,
    grouped,
    missing,
    rows_of,
    whole,
)


def segments(*rows: int) -> list[SegmentFile]:
    made: list[SegmentFile] = []
    for count in rows:
        first = made[-1].last + 1 if made else 1
        made.append(SegmentFile(first=first, last=first + count - 1, path=str(first)))
    return made


@pytest.fixture
def spool(tmp_path: Path) -> list[SegmentFile]:
    """Four segments with the numbers 1 to 10."""
    for first, last in [(1, 3), (4, 4), (5, 9), (10, 10)]:
        numbers = list(range(first, last + 1))
        write_segment(tmp_path, pa.record_batch({"n": numbers, "hidden": numbers}), first)
    return list_segments(tmp_path)


def numbers_of(partition: InputPartition) -> list[int]:
    return [number for batch in rows_of(partition, ["n"]) for number in batch.to_pydict()["n"]]


@pytest.mark.parametrize("start", range(11))
@pytest.mark.parametrize("end", range(11))
@pytest.mark.parametrize("kind", ["file", "inline"])
def test_rows_when_cut_out_anywhere_then_these_and_no_others(
    spool: list[SegmentFile], start: int, end: int, kind: str
) -> None:
    slices = cut(spool, start, end)

    group = SegmentGroup(slices) if kind == "file" else InlineGroup(slices, ["n"])

    assert numbers_of(group) == list(range(start + 1, end + 1))


def test_rows_when_segments_are_small_then_they_come_in_large_batches(spool: list[SegmentFile]) -> None:
    (batch,) = rows_of(SegmentGroup(whole(spool)), ["n"])

    assert (batch.num_rows, batch.schema.names) == (10, ["n"])


def test_rows_when_there_are_many_then_a_batch_is_bounded(tmp_path: Path) -> None:
    for first in (1, 7001, 14_001):
        write_segment(tmp_path, pa.record_batch({"n": list(range(first, first + 7000))}), first)

    sizes = [batch.num_rows for batch in rows_of(SegmentGroup(whole(list_segments(tmp_path))), ["n"])]

    assert sizes == [14_000, 7_000]


def test_rows_when_the_partition_is_of_another_source_then_refused() -> None:
    with pytest.raises(TypeError, match="expected a partition of this source"):
        list(rows_of(InputPartition(None), ["n"]))


@pytest.mark.parametrize(
    ("start", "end", "gaps"),
    [
        (0, 30, []),
        (5, 5, []),
        (0, 35, [(31, 35)]),
        (12, 31, [(31, 31)]),
    ],
)
def test_missing_when_the_segments_follow_each_other_then_what_is_behind_them(
    start: int, end: int, gaps: list[tuple[int, int]]
) -> None:
    assert missing(segments(10, 10, 10), start, end) == gaps


def test_missing_when_a_segment_is_gone_then_its_rows() -> None:
    first, _, third = segments(10, 10, 10)

    assert missing([first, third], 0, 30) == [(11, 20)]
    assert missing([third], 5, 25) == [(6, 20)]
    assert missing([], 5, 25) == [(6, 25)]
    assert missing([first, third], 0, 15) == [(11, 15)]


def slices(*rows: int) -> list[SegmentSlice]:
    return whole(segments(*rows))


@pytest.mark.parametrize(
    ("rows", "most", "least", "expected"),
    [
        ([], 8, 1, []),
        ([10, 10], 8, 1, [[10, 10]]),
        ([10, 10], 8, 2, [[10], [10]]),
        ([5000] * 4, 8, 1, [[5000]] * 4),
        ([5000] * 8, 2, 1, [[5000] * 4] * 2),
        ([20_000, 1, 1], 8, 1, [[20_000], [1, 1]]),
    ],
)
def test_rows_when_grouped_then_in_order_and_about_even(
    rows: list[int], most: int, least: int, expected: list[list[int]]
) -> None:
    groups = grouped(slices(*rows), most, least)

    assert [[each.rows for each in group] for group in groups] == expected
    assert [each for group in groups for each in group] == slices(*rows)
