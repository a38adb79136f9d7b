"""Care for a spool: what is found, what is put aside, and what is deleted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.receiving import QUEUE, planner_of, segment_of, write
from trio_stomp.spark import CareReport, SpoolTaken, care
from trio_stomp.spark.intake_options import STREAM, destination_folder
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.planner import DataLoss
from trio_stomp.spark.segments import Segment, SegmentFormat, list_spool, mark_spool
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore


@pytest.fixture
def store(tmp_path: Path) -> SpoolStore:
    """The spool of a stream, with three segments."""
    made = SpoolLocation.of(str(tmp_path)).open(destination_folder(QUEUE), STREAM)
    mark_spool(made, QUEUE)
    for first in (1, 3, 5):
        write(made, "a", first, ["x", "y"])
    return made


def looked_at(folder: Path, *, verify: bool = False, set_aside: bool = False, clean: bool = False) -> CareReport:
    (found,) = care(str(folder), verify=verify, set_aside=set_aside, clean=clean)
    return found


def middle(store: SpoolStore) -> Segment:
    return list_spool(store).segments["a"][1]


def damage(store: SpoolStore, segment: Segment, *, is_shorter: bool) -> None:
    path = Path(store.path(segment.name))
    content = path.read_bytes()
    path.write_bytes(content[:-9] if is_shorter else b"?" * len(content))


def test_spool_when_it_is_whole_then_there_is_nothing_to_do(store: SpoolStore, tmp_path: Path) -> None:
    found = looked_at(tmp_path, verify=True, set_aside=True, clean=True)

    assert (found.destination, found.part, found.rows, found.owner) == (QUEUE, "stream", 6, None)
    assert found.size == sum(each.size for each in list_spool(store).segments["a"])
    assert (found.damaged, found.set_aside, found.halves) == ({}, (), 0)


def test_spool_when_one_of_its_segments_is_for_other_programs_then_whole_too(store: SpoolStore, tmp_path: Path) -> None:
    write(store, "a", 7, ["x", "y", "z"], form=SegmentFormat.PARQUET)

    found = looked_at(tmp_path, verify=True)

    assert (found.rows, found.damaged) == (9, {})


@pytest.mark.parametrize("is_shorter", [True, False], ids=["truncated", "overwritten"])
def test_segment_when_damaged_then_set_aside_and_a_query_that_may_goes_on_and_counts_its_rows(
    store: SpoolStore, tmp_path: Path, *, is_shorter: bool
) -> None:
    segment = middle(store)
    damage(store, segment, is_shorter=is_shorter)

    # Only a closer look finds what has the right size.
    assert bool(looked_at(tmp_path).damaged) == is_shorter
    found = looked_at(tmp_path, verify=True, set_aside=True)
    assert list(found.damaged) == list(found.set_aside) == [segment.name]
    assert looked_at(tmp_path, verify=True).damaged == {}
    assert (store.get(f"damaged/{segment.name}") is not None, store.get(segment.name)) == (True, None)

    with pytest.raises(DataLoss, match="does not have the rows 3 to 4 of shard a"):
        planner_of(store).next({}, None)
    planner = planner_of(store, fails=False)
    assert (planner.next({}, None), planner.lost) == ({"a": 6}, 2)


def test_segment_when_it_has_fewer_rows_than_its_name_says_then_damaged(store: SpoolStore, tmp_path: Path) -> None:
    segment, octets = segment_of("b", 1, ["x", "y"])
    name = replace(segment, rows=3).name
    store.put(name, octets)

    assert looked_at(tmp_path).damaged == {}
    assert looked_at(tmp_path, verify=True).damaged == {name: f"{store.path(name)} has 2 rows instead of 3"}


def test_segment_when_a_query_reads_the_spool_then_not_set_aside(store: SpoolStore, tmp_path: Path) -> None:
    damage(store, middle(store), is_shorter=True)
    lease = Lease(store)

    assert looked_at(tmp_path).owner == f"process {os.getpid()} on {os.uname().nodename}"
    with pytest.raises(SpoolTaken, match="another query reads the spool"):
        looked_at(tmp_path, set_aside=True)
    lease.release()
    assert looked_at(tmp_path, set_aside=True).set_aside


def test_halves_when_their_process_has_ended_then_deleted(store: SpoolStore, tmp_path: Path) -> None:
    path = Path(store.path("segments/a/seg-1.arrow.tmp"))
    path.write_bytes(b"half")
    os.utime(path, (1, 1))

    assert looked_at(tmp_path).halves == 0
    assert path.exists()
    assert looked_at(tmp_path, clean=True).halves == 1
    assert not path.exists()


def test_reads_when_complete_and_old_then_deleted_and_others_stay(tmp_path: Path) -> None:
    reads = SpoolLocation.of(str(tmp_path)).open(destination_folder(QUEUE), "reads")
    mark_spool(reads, QUEUE)
    now = int(reads.time() * 1000)
    for shard, age in (
        ("old", 5_000_000),
        ("old2", 5_000_000),
        ("new", 1_000),
        ("open", 5_000_000),
        ("shared", 5_000_000),
    ):
        write(reads, shard, 1, ["x"], time=now - age)
    for name, shards in (("1", ["old"]), ("2", ["new"]), ("5", ["old2"]), ("3", ["shared"]), ("4", ["shared"])):
        reads.put_json(f"reads/{name}.json", {"shards": shards})
    reads.put_json("drops/old/000000000001.json", [])

    (found,) = care(str(tmp_path), reads_older_than=3600)

    assert (found.part, found.reads) == ("reads", 2)
    left = list_spool(reads).segments
    assert sorted(shard for shard, segments in left.items() if segments) == ["new", "open", "shared"]
    assert reads.get("reads/1.json") is None
    assert not Path(reads.path("segments/old")).exists()
    assert list_spool(reads).drops == frozenset()
