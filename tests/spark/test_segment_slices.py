from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from tests.spark.receiving import opened, rows_in, segments_in, write
from trio_stomp.spark.segment_slices import InlineGroup, SegmentGroup, SegmentSlice, cut, grouped, missing, rows_of
from trio_stomp.spark.segments import Segment, SegmentFormat
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore


def segments(*rows: int) -> list[Segment]:
    made: list[Segment] = []
    for count in rows:
        first = made[-1].last + 1 if made else 1
        made.append(
            Segment(shard="a", first=first, rows=count, suspects=0, size=1, time=first, form=SegmentFormat.ARROW)
        )
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SpoolStore:
    """Four segments with the numbers 1 to 10."""
    made = opened(tmp_path_factory.mktemp("spool"))
    for first, last in [(1, 3), (4, 4), (5, 9), (10, 10)]:
        write(made, "a", first, [None] * (last - first + 1), form=list(SegmentFormat)[first % 2])
    return made


@pytest.mark.parametrize("start", range(11))
@pytest.mark.parametrize("end", range(11))
@pytest.mark.parametrize("kind", ["file", "inline"])
def test_rows_when_cut_out_anywhere_then_these_and_no_others(
    store: SpoolStore, start: int, end: int, kind: str
) -> None:
    slices = cut(store, segments_in(store), start, end)

    group = SegmentGroup(slices) if kind == "file" else InlineGroup(store, slices, ["body"])

    assert rows_in(store, group) == list(range(start + 1, end + 1))


@pytest.mark.parametrize(("start", "end", "rows"), [(0, 10, [5, 7, 9]), (5, 8, [7]), (6, 7, [7]), (7, 8, [])])
def test_rows_when_some_are_copies_then_left_out(store: SpoolStore, start: int, end: int, rows: list[int]) -> None:
    (segment,) = [each for each in segments_in(store) if each.first == 5]

    group = SegmentGroup(cut(store, [segment], start, end, copies=(1, 3)))

    assert rows_in(store, group) == rows


def test_rows_when_segments_are_small_then_they_come_in_large_batches(store: SpoolStore) -> None:
    group = SegmentGroup(cut(store, segments_in(store), 0, 10))
    (batch,) = rows_of(SpoolLocation.of(store.folder), group, ["body"])

    assert (batch.num_rows, batch.schema.names) == (10, ["body"])


def test_rows_when_there_are_many_then_a_batch_is_bounded(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for first in (1, 7001, 14_001):
        write(store, "a", first, [None] * 7000)

    group = SegmentGroup(cut(store, segments_in(store), 0, 21_000))
    sizes = [batch.num_rows for batch in rows_of(SpoolLocation.of(store.folder), group, ["body"])]

    assert sizes == [14_000, 7_000]


def test_rows_when_they_are_large_then_a_batch_is_bounded_in_bytes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for first in range(1, 7):
        write(store, "a", first, ["x" * 6 * 1024**2])

    group = SegmentGroup(cut(store, segments_in(store), 0, 6))
    sizes = [batch.num_rows for batch in rows_of(SpoolLocation.of(store.folder), group, ["stable_id"])]

    assert sizes == [3, 3]


def test_rows_when_the_partition_is_of_another_source_then_refused() -> None:
    with pytest.raises(TypeError, match="expected a partition of this source"):
        list(rows_of(SpoolLocation.of("/spool"), InputPartition(None), ["body"]))


@pytest.mark.parametrize(
    ("present", "start", "end", "gaps"),
    [
        ((0, 1, 2), 0, 30, []),
        ((0, 1, 2), 5, 5, []),
        ((0, 1, 2), 0, 35, [(31, 35)]),
        ((0, 1, 2), 12, 31, [(31, 31)]),
        ((0, 2), 0, 30, [(11, 20)]),
        ((0, 2), 0, 15, [(11, 15)]),
        ((2,), 5, 25, [(6, 20)]),
        ((), 5, 25, [(6, 25)]),
    ],
)
def test_missing_when_some_of_three_segments_are_present_then_the_rows_of_the_others_and_what_is_behind_them(
    present: tuple[int, ...], start: int, end: int, gaps: list[tuple[int, int]]
) -> None:
    found = segments(10, 10, 10)

    assert missing([found[each] for each in present], start, end) == gaps


def slices(*rows: int) -> list[SegmentSlice]:
    return [SegmentSlice(path=each.name, skip=0, rows=each.rows) for each in segments(*rows)]


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


@pytest.mark.parametrize(
    ("rows", "least"), [([10], 4), ([5, 5], 4), ([7, 1], 3), ([3], 8), ([20_000], 2), ([9, 9], 16)]
)
def test_rows_when_there_are_fewer_slices_than_tasks_then_slices_are_divided(rows: list[int], least: int) -> None:
    whole = [replace(each, copies=(1,)) for each in slices(*rows)]

    groups = grouped(whole, 16, least)

    assert len(groups) == min(least, sum(rows))
    parts = [each for group in groups for each in group]
    places = [(each.path, each.skip + place, each.copies) for each in parts for place in range(each.rows)]
    assert places == [(each.path, each.skip + place, (1,)) for each in whole for place in range(each.rows)]
