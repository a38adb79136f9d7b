"""What an offset promises, compared with what the spool holds: each kind of loss is an error that names the rows."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.receiving import opened, planner_of, segments_in, write
from trio_stomp.spark import ReceiverState, ReceiverStatus, stream_offsets
from trio_stomp.spark.planner import DataLoss, Planner, SpoolReplaced, refuse_other_spool
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore
from trio_stomp.spark.stream_offsets import Offset, read_progress


class Clock:
    """A clock that only goes on when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def started(store: SpoolStore, *, fails: bool = True, clock: Clock | None = None) -> Planner:
    return planner_of(store, max_bytes=1, fails=fails, monotonic=clock or Clock())


def at(planner: Planner, retired: int = 0, **rows: int) -> Offset:
    return Offset(spool=planner.spool, rows=rows, retired=retired)


def end_shard(store: SpoolStore, planner: Planner, clock: Clock, shard: str, row: int) -> None:
    """The receiver of a shard ends, and Spark is done with its rows, so the shard is forgotten."""
    write_status(store, ReceiverStatus(shard=shard, state=ReceiverState.ENDED, rows=row, confirmed=row))
    clock.now += 60
    for _ in range(3):
        planner.next({shard: row}, None)


# --- the spool is not complete ----------------------------------------------------------------------------------------


def test_segment_when_gone_then_its_rows_are_named_before_a_batch_is_planned(store: SpoolStore) -> None:
    for first in (1, 3, 5):
        write(store, "a", first, ["x", "y"])
    store.delete([segments_in(store)[1].name])

    with pytest.raises(DataLoss, match=r"does not have the rows 3 to 4 of shard a. Put back the spool"):
        started(store).next({"a": 2}, None)


def test_segment_when_it_came_while_the_query_ran_and_is_gone_then_its_rows_are_named(store: SpoolStore) -> None:
    write(store, "a", 1, ["x"])
    planner = started(store)
    end = planner.next({}, None)
    segment = write(store, "a", 2, ["y"])
    planner.next(end, None)
    store.delete([segment.name])

    with pytest.raises(DataLoss, match="does not have the rows 2 to 2 of shard a"):
        planner.next(end, None)


@pytest.mark.parametrize("has_status", [True, False])
def test_shard_when_its_folder_is_gone_then_its_rows_are_named_as_far_as_they_are_known(
    store: SpoolStore, has_status: bool
) -> None:
    write(store, "a", 1, ["x"] * 100)
    planner = started(store)
    planner.next({"a": 40}, None)
    shutil.rmtree(store.path("segments/a"))
    if not has_status:
        store.delete(["status/a.json"])
    said = "the rows 41 to 100 of shard a" if has_status else "the rows from 41 of shard a"

    again = started(store)
    with pytest.raises(DataLoss, match=said):
        again.begin(at(again, a=40))
    without = started(store, fails=False)
    without.begin(at(without, a=40))
    # It is not known how many there were without a status.
    assert without.lost == (60 if has_status else 0)
    # The one that runs has seen them.
    with pytest.raises(DataLoss, match="the rows 41 to 100 of shard a"):
        planner.next({"a": 40}, None)


def test_shards_when_many_are_gone_then_the_error_is_of_a_bounded_length(store: SpoolStore) -> None:
    rows = {f"s{number:03}": 1 for number in range(300)}
    planner = started(store)

    with pytest.raises(DataLoss, match=r"the rows from 2 of shard s004; and rows of 295 more shards"):
        planner.begin(at(planner, **rows))


def test_rows_when_gone_and_the_user_says_so_then_left_out_logged_once_and_counted(
    store: SpoolStore, caplog: pytest.LogCaptureFixture
) -> None:
    for first in (1, 3, 5):
        write(store, "a", first, ["x", "y"])
    store.delete([segments_in(store)[1].name])
    planner = started(store, fails=False)

    for _ in range(3):
        assert planner.next({"a": 2}, None) == {"a": 6}
    planner.next({"a": 6}, None)

    assert caplog.text.count("does not have the rows 3 to 4 of shard a") == 1
    progress = read_progress(store, planner.spool)
    assert progress is not None
    assert (planner.lost, progress.lost) == (2, 2)


# --- another spool ----------------------------------------------------------------------------------------------------


def test_spool_when_replaced_while_a_query_runs_then_refused(store: SpoolStore) -> None:
    write(store, "a", 1, ["x"])
    planner = started(store)
    end = planner.next({}, None)
    store.put_json("spool.json", {"trio_stomp_spool": 2, "destination": "/queue/a", "id": "another"})

    with pytest.raises(SpoolReplaced, match=r"was replaced by the spool another while .*the rows from 2 of shard a"):
        planner.next(end, None)


@pytest.mark.parametrize(
    ("shards", "said"),
    [(5, "row 1 of shard 5. Put back"), (7, "row 1 of shard 5; the last rows of 2 more shards. Put back")],
)
def test_spool_when_it_is_another_then_the_error_names_the_rows_of_the_checkpoint_and_is_of_a_bounded_length(
    store: SpoolStore, shards: int, said: str
) -> None:
    begun = Offset(spool="another", rows={str(number): 1 for number in range(1, shards + 1)})

    with pytest.raises(SpoolReplaced, match=rf"^the checkpoint belongs to the spool another .*{said}"):
        refuse_other_spool(store, begun, fail_on_data_loss=True)


# --- an old checkpoint, or an old spool -------------------------------------------------------------------------------


def test_checkpoint_when_older_than_what_was_deleted_then_the_rows_are_named(store: SpoolStore) -> None:
    write(store, "a", 1, ["x"] * 100)
    write(store, "a", 101, ["x"])
    started(store).next({"a": 100}, None)
    assert [each.first for each in segments_in(store)] == [101]

    planner = started(store)
    with pytest.raises(DataLoss, match="the rows 41 to 100 of shard a"):
        planner.begin(at(planner, a=40))


def test_checkpoint_when_older_than_shards_that_are_finished_then_their_rows_are_named(store: SpoolStore) -> None:
    clock = Clock()
    planner = started(store, clock=clock)
    before = at(planner, a=40)
    for shard in ("a", "b"):
        write(store, shard, 1, ["x"] * 100)
        end_shard(store, planner, clock, shard, 100)
    assert (planner.retired, list(Path(store.folder).rglob("seg-*"))) == (2, [])

    again = started(store)
    with pytest.raises(DataLoss, match="the rows 41 to 100 of shard a; the rows 1 to 100 of shard b"):
        again.begin(before)
    again.begin(at(again, retired=2))
    # A process that died when it had forgotten the shard, and had not told Spark.
    again.begin(at(again, retired=1, b=100))


def test_checkpoint_when_so_old_that_its_shards_are_not_remembered_then_still_refused(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_offsets, "KEPT_SHARDS", 1)
    monkeypatch.setattr("trio_stomp.spark.planner.KEPT_SHARDS", 1)
    clock = Clock()
    planner = started(store, clock=clock)
    for shard in ("a", "b", "c"):
        write(store, shard, 1, ["x"])
        end_shard(store, planner, clock, shard, 1)

    again = started(store)
    with pytest.raises(DataLoss, match="the rows 1 to 1 of shard c; the checkpoint is older than 2 shards whose rows"):
        again.begin(at(again))
    with pytest.raises(DataLoss, match="the rows 1 to 1 of shard c; the checkpoint is older than 1 shards whose rows"):
        again.begin(at(again, retired=1))


def test_spool_when_older_than_the_checkpoint_then_refused(store: SpoolStore, tmp_path: Path) -> None:
    write(store, "a", 1, ["x"] * 60)
    planner = started(store)
    shutil.copytree(store.folder, tmp_path / "backup")
    old = opened(tmp_path / "backup")

    for begun, said in (
        (at(planner, a=100), "the rows 61 to 100 of shard a"),
        (at(planner, a=60, gone=0), "the rows from 1 of shard gone"),
        (at(planner, retired=1, a=60), "the spool is older than the checkpoint"),
    ):
        with pytest.raises(DataLoss, match=said):
            started(old).begin(begun)
    # Without these, offsets go on from those of the checkpoint.
    without = started(old, fails=False)
    without.begin(at(planner, retired=3, a=60))
    assert without.retired == 3


def test_progress_when_damaged_then_the_error_names_it(store: SpoolStore) -> None:
    started(store)
    store.put("progress.json", b"{}")

    with pytest.raises(SpoolDamaged, match=re.escape(store.path("progress.json"))):
        started(store)


# --- nothing is missing -----------------------------------------------------------------------------------------------


def test_checkpoint_when_older_and_all_rows_are_still_there_then_read_again(store: SpoolStore) -> None:
    write(store, "a", 1, ["x"] * 100)
    planner = started(store)
    planner.next({"a": 60}, None)
    planner.close()

    again = started(store)
    again.begin(at(again, a=40))

    assert again.next({"a": 40}, None) == {"a": 100}


def test_query_when_without_a_checkpoint_then_behind_what_was_processed_also_in_finished_shards(
    store: SpoolStore,
) -> None:
    clock = Clock()
    planner = started(store, clock=clock)
    write(store, "a", 1, ["x"])
    end_shard(store, planner, clock, "a", 1)
    write(store, "b", 1, ["x", "y", "z"])
    planner.next({"b": 2}, None)
    planner.close()

    first = started(store).first()

    assert first == replace(first, rows={"b": 2}, retired=1)


def test_shard_when_a_write_to_it_hung_until_it_was_finished_then_what_it_brings_is_not_read(
    store: SpoolStore,
) -> None:
    """Its receiver had written nothing for an hour, so it does not acknowledge: the messages came again."""
    clock = Clock()
    planner = started(store, clock=clock)
    write(store, "a", 1, ["x"])
    end_shard(store, planner, clock, "a", 1)
    write(store, "a", 2, ["y"])
    store.delete(["status/a.json"])
    write(store, "b", 1, ["y"])

    for each in (planner, started(store)):
        assert each.next({}, None) == {"b": 1}
