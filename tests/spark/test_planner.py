"""The planner: which rows a batch has, also when it is run again; what is deleted, and when."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from tests.spark.memory_store import Killed, MemoryStore
from tests.spark.receiving import (
    identity_of_an_ended_process,
    make_older,
    planner_of,
    rows_in,
    segment_of,
    segments_in,
    write,
)
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError, SpoolTaken
from trio_stomp.spark import planner as planning
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.planner import DataLoss, Planner
from trio_stomp.spark.receiver_status import StatusWatch, read_status, write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segment_slices import SegmentGroup
from trio_stomp.spark.segments import list_spool
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolFull, SpoolStore, StoredObject
from trio_stomp.spark.stream_offsets import Offsets

WINDOW = Window(rows=100_000, seconds=1e9)
NO_ROWS: Offsets = {}


started = partial(planner_of, window=WINDOW)


def taken_by_another(store: SpoolStore) -> None:
    """Another query takes the spool, because the owner of the lease was suspended for a while."""
    store.put_json("lease/000000000002.json", {"host": "elsewhere", "pid": 7, "process": "x-7-1"})


def rows(store: SpoolStore, planner: Planner, start: Offsets, end: Offsets) -> list[int]:
    return rows_in(store, SegmentGroup(planner.slices(start, end)))


def copies(planner: Planner, start: Offsets, end: Offsets) -> list[tuple[str, list[int]]]:
    """The shards of the segments that have copies, and the places of those."""
    return [(each.path.split("/")[-2], [*each.copies]) for each in planner.slices(start, end) if each.copies]


@pytest.fixture
def recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments of these tests were not written long ago."""
    monkeypatch.setattr(planning, "_RELEASE_SECONDS", 1e12)


pytestmark = pytest.mark.usefixtures("recent")


def test_first_when_there_are_rows_then_before_the_first_that_there_ever_was_in_each_shard(store: SpoolStore) -> None:
    assert started(store).first().rows == {}
    write(store, "a", 11, ["1", "2"])
    write(store, "b", 1, ["3"])

    planner = started(store)
    assert planner.first().rows == {"a": 0, "b": 0}
    # No query has processed and deleted them, or it would have written that down.
    with pytest.raises(DataLoss, match="does not have the rows 1 to 10 of shard a"):
        planner.next(planner.first().rows, None)
    assert planner.earliest().rows == {"a": 10, "b": 0}


def test_batch_when_there_is_no_limit_then_all_rows_of_all_shards(store: SpoolStore) -> None:
    write(store, "a", 1, ["1", "2"])
    write(store, "a", 3, ["3"])
    write(store, "b", 1, ["4"])
    planner = started(store)

    end = planner.next({}, None)

    assert end == planner.newest() == {"a": 3, "b": 1}
    assert rows(store, planner, {}, end) == [1, 2, 3, 1]
    assert planner.next(end, None) == end


def test_batch_when_limited_then_the_oldest_rows_first_and_no_more(store: SpoolStore) -> None:
    write(store, "a", 1, ["1", "2"], time=5)
    write(store, "a", 3, ["3", "4"], time=3)
    write(store, "b", 1, ["5", "6", "7"], time=4)
    planner = started(store)

    assert planner.next({}, 1) == {"b": 1}
    assert planner.next({}, 3) == {"b": 3}
    # Within a shard its own order counts, also where a clock was set back.
    assert planner.next({"b": 1}, 3) == {"a": 1, "b": 3}
    assert planner.next({"a": 1, "b": 3}, 2) == {"a": 3, "b": 3}


def test_copies_when_clocks_of_receivers_differ_then_the_row_that_came_first_is_looked_at_first() -> None:
    """Otherwise the copy, whose ACK was confirmed, would be forgotten before the row that is in doubt is seen."""
    store = MemoryStore()
    planner = started(store, window=Window(rows=100, seconds=0))
    for shard, clock, redelivered in (("fast", 5_000, []), ("slow", -100, [0])):
        store.now += 1
        segment, octets = segment_of(
            shard, 1, ["1"], redelivered=redelivered, time=int((store.now + clock) * 1000), in_doubt=0
        )
        store.put(segment.name, octets)
    # What the slow one has written is confirmed.
    segment, octets = segment_of("slow", 2, ["2"], time=int((store.now - 99) * 1000))
    store.put(segment.name, octets)

    end = planner.next({}, None)

    assert end == {"fast": 1, "slow": 2}
    assert copies(planner, {}, end) == [("slow", [0])]


def test_batch_when_limited_in_bytes_then_as_many_rows_as_fit_but_at_least_one(store: SpoolStore) -> None:
    write(store, "a", 1, ["1", "2", "3", "4"], time=1)
    write(store, "a", 5, ["5", "6"], time=2)
    planner = started(store)
    (first, second) = list_spool(store).segments["a"]
    row, other = first.size // first.rows, second.size // second.rows

    assert planner.next({}, None, most_bytes=1) == {"a": 1}
    assert planner.next({}, None, most_bytes=3 * row + 8) == {"a": 3}
    assert planner.next({}, 2, most_bytes=3 * row + 8) == {"a": 2}
    assert planner.next({}, None, most_bytes=first.size) == {"a": 4}
    assert planner.next({}, None, most_bytes=first.size + other + 8) == {"a": 5}
    assert planner.next({"a": 5}, None, most_bytes=1) == {"a": 6}
    assert planner.next({}, None, most_bytes=first.size + second.size) == {"a": 6}


def test_batch_when_a_row_does_not_fit_then_smaller_ones_behind_it_wait_too(store: SpoolStore) -> None:
    small = write(store, "a", 1, ["1"], time=1)
    large = write(store, "a", 2, ["2" * 9000, "3" * 9000], time=2)
    write(store, "a", 4, ["4"], time=3)
    planner = started(store)

    assert planner.next({}, None, most_bytes=2 * small.size) == {"a": 1}
    assert planner.next({}, None, most_bytes=large.size) == {"a": 2}


def test_batch_when_its_last_rows_are_given_then_no_others_are_in_it(store: SpoolStore) -> None:
    write(store, "a", 1, ["1", "2"], time=1)
    write(store, "b", 1, ["3"], time=2)
    planner = started(store)

    assert planner.next({}, None, {"b": 1}) == {"b": 1}
    assert planner.next({}, None, {"a": 1, "b": 1}) == {"a": 1, "b": 1}


def test_rows_when_they_wait_then_counted_in_all_shards(store: SpoolStore) -> None:
    write(store, "a", 1, ["1", "2", "3"])
    write(store, "b", 1, ["4"])
    planner = started(store)
    planner.next({}, 1)

    assert planner.waiting({}) == 4
    assert planner.waiting({"a": 2, "b": 1}) == 1


@pytest.mark.parametrize("is_new", [False, True])
def test_copies_when_planned_then_left_out_of_the_batch_each_time_it_is_run(store: SpoolStore, is_new: bool) -> None:
    write(store, "a", 1, ["1", "2", "3"], time=1)
    write(store, "b", 1, ["2", "8", "3"], redelivered=[0, 2], time=2)
    first = started(store)
    end = first.next({}, None)

    planner = started(store) if is_new else first

    assert end == {"a": 3, "b": 3}
    assert rows(store, planner, {}, end) == [1, 2, 3, 2]
    assert json.loads(store.get("drops/b/000000000001.json") or b"") == [0, 2]
    # And then it goes on as the first one would.
    write(store, "c", 1, ["8", "9"], redelivered=[0, 1], time=3)
    after = planner.next(end, None)
    assert rows(store, planner, end, after) == [2]


@pytest.mark.parametrize("is_new", [False, True])
def test_segment_when_a_batch_ends_within_it_then_its_rows_are_planned_once_and_known(
    store: SpoolStore, is_new: bool
) -> None:
    write(store, "a", 1, ["1", "2", "3"], time=1)
    write(store, "b", 1, ["2", "8", "3", "9"], redelivered=[0, 2, 3], time=2)
    planner = started(store)
    first = planner.next({}, 5)
    assert first == {"a": 3, "b": 2}
    assert rows(store, planner, {}, first) == [1, 2, 3, 2]

    planner = started(store) if is_new else planner
    second = planner.next(first, None)
    # Its row 4 is not a copy of itself.
    assert rows(store, planner, first, second) == [4]

    # The ids of its rows are known, those before and those behind the offset.
    write(store, "c", 1, ["8", "9", "10"], redelivered=[0, 1, 2], time=3)
    third = planner.next(second, None)
    assert rows(store, planner, second, third) == [3]


def test_copies_when_many_segments_are_planned_at_once_then_found_in_each(store: SpoolStore) -> None:
    for number in range(1, 41):
        write(store, f"s{number:02}", 1, [str(number), str(number - 1)], suspects=2, time=number)
    planner = started(store)

    end = planner.next({}, None)

    assert len(list_spool(store).drops) == 39
    assert len(rows(store, planner, {}, end)) == 41


def test_copies_when_they_do_not_matter_then_no_id_is_looked_at(store: SpoolStore) -> None:
    write(store, "a", 1, ["1"])
    write(store, "b", 1, ["1"], redelivered=[0])
    planner = started(store, window=None)

    assert rows(store, planner, {}, planner.next({}, None)) == [1, 1]


def test_copies_when_a_query_with_another_checkpoint_had_kept_the_other_row_then_it_is_kept_again(
    store: SpoolStore,
) -> None:
    write(store, "b", 1, ["1"], redelivered=[0], time=2)
    first = started(store)
    end = first.next({}, None)
    # Its receiver was slow to write it.
    write(store, "a", 1, ["1", "2"], time=1)
    after = first.next(end, None)
    assert rows(store, first, end, after) == [2]

    second = started(store)
    again = second.next(second.earliest().rows, None)

    assert again == {"a": 2, "b": 1}
    assert rows(store, second, {"b": 1}, again) == [2]
    assert rows(store, second, {"a": 2}, again) == [1]


class Shared(SpoolStore):
    """A folder that others write to: the next listing leaves out an object, or something happens right after it."""

    skipped = ""
    after: Callable[[], None] | None = None

    def objects(self, below: str = "") -> list[StoredObject]:
        found = [each for each in super().objects(below) if each.name != self.skipped]
        after, self.after, self.skipped = self.after, None, ""
        if after is not None:
            after()
        return found


def test_copies_when_their_segment_is_missing_in_a_listing_and_a_newer_one_is_not_then_looked_for(
    tmp_path: Path,
) -> None:
    store = Shared(fs.LocalFileSystem(), str(tmp_path), "file")
    write(store, "a", 1, ["1"], time=1)
    late = write(store, "b", 1, ["1"], redelivered=[0], time=2)
    write(store, "b", 2, ["2"], time=3)
    planner = started(store)
    store.skipped = late.name

    end = planner.next({}, 2)

    assert rows(store, planner, {}, end) == [1]
    assert end == {"a": 1, "b": 1}


def test_rows_when_written_while_the_spool_is_listed_again_then_left_to_the_next_batch(tmp_path: Path) -> None:
    """The second listing may miss an older segment than the newest that it has, as the first one did."""
    store = Shared(fs.LocalFileSystem(), str(tmp_path), "file")
    late = write(store, "b", 1, ["1"], time=1)
    write(store, "b", 2, ["2"], time=2)
    planner = started(store)
    planner.begin(planner.first())
    store.skipped = late.name

    def go_on() -> None:
        write(store, "b", 3, ["3"], time=3)
        write(store, "c", 1, ["4"], time=4)

    store.after = go_on
    end = planner.next({}, None)

    assert end == {"b": 2}
    assert planner.next(end, None) == {"b": 3, "c": 1}


@pytest.mark.parametrize("drops", [b"", b"{}", b'["0"]'])
def test_copies_when_the_note_of_them_is_damaged_then_the_error_names_it(store: SpoolStore, drops: bytes) -> None:
    write(store, "a", 1, ["1"], time=1)
    write(store, "b", 1, ["1"], redelivered=[0], time=2)
    end = started(store).next({}, None)
    store.put("drops/b/000000000001.json", drops)

    with pytest.raises(SpoolDamaged, match=r"cannot read .*/drops/b/000000000001.json of the spool: .*is damaged"):
        started(store).slices({}, end)


def test_rows_when_they_are_gone_then_said_which_or_left_out(
    store: SpoolStore, caplog: pytest.LogCaptureFixture
) -> None:
    write(store, "a", 3, ["1", "2"])
    planner = started(store)

    with pytest.raises(DataLoss, match="does not have the rows 2 to 2, 5 to 9 of shard a"):
        planner.slices({"a": 1}, {"a": 9})
    with pytest.raises(DataLoss, match="does not have the rows 1 to 3 of shard b"):
        planner.slices({}, {"b": 3})
    assert rows(store, planner, {"a": 2}, {"a": 4}) == [3, 4]
    assert rows(store, started(store, fails=False), {"a": 1}, {"a": 9}) == [3, 4]
    assert "does not have the rows 2 to 2, 5 to 9 of shard a" in caplog.text


def test_segment_when_truncated_then_the_batch_fails_or_goes_on_as_told(
    store: SpoolStore, caplog: pytest.LogCaptureFixture
) -> None:
    segment = write(store, "a", 1, ["1", "2"])
    write(store, "b", 1, ["3"])
    Path(store.path(segment.name)).write_bytes(b"half")

    with pytest.raises(SpoolError, match=r"has 4 bytes instead of \d+: it was truncated.* set failOnDataLoss=false"):
        started(store).next({}, None)
    assert started(store, fails=False).next({}, None) == {"b": 1}
    assert "it was truncated" in caplog.text


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_segments_when_spark_is_done_with_few_then_kept_and_with_many_then_deleted_and_their_ids_are_not(
    store: SpoolStore,
) -> None:
    for number in range(1, 71):
        write(store, "a", number, [str(number)], redelivered=[0] if number == 5 else [])
    planner = started(store)
    end = planner.next({}, None)

    planner.next({"a": 63}, None)
    assert len(segments_in(store)) == 70
    planner.next({"a": 64}, None)

    assert [each.first for each in segments_in(store)] == list(range(65, 71))
    listing = list_spool(store)
    assert (len(listing.ids), listing.drops) == (1, frozenset())
    write(store, "b", 1, ["7", "99"], redelivered=[0, 1], time=100)
    again = started(store)
    after = again.next(end, None)
    assert rows(store, again, end, after) == [2]


def test_segments_when_done_for_long_then_deleted(store: SpoolStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_RELEASE_SECONDS", 30)
    write(store, "a", 1, ["1"])
    planner = started(store)
    end = planner.next({}, None)

    planner.next(end, None)

    assert segments_in(store) == []


def test_halves_when_their_writer_has_ended_then_deleted_as_a_query_starts_and_when_segments_are(
    store: SpoolStore,
) -> None:
    write(store, "a", 1, ["1"])
    half = Path(store.path(f"segments/a/x.{identity_of_an_ended_process()}.12345678.tmp"))

    half.write_bytes(b"half")
    planner = started(store, max_bytes=1)
    assert not half.exists()
    end = planner.next({}, None)
    half.write_bytes(b"half")
    planner.next(end, None)
    assert not half.exists()


class Full(MemoryStore):
    """A disk without room, but for what is deleted from it."""

    is_full = False

    def put(self, name: str, octets: bytes | pa.Buffer, *, durable: bool = True) -> None:
        if self.is_full:
            raise SpoolFull(f"cannot write {name}: No space left on device")
        super().put(name, octets, durable=durable)


def test_segments_when_the_disk_is_full_then_none_is_deleted_before_their_ids_are_saved_and_the_query_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Full()
    write(store, "a", 1, ["1", "2"])
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    store.is_full = True

    assert planner.next(end, None) == end
    assert len(segments_in(store)) == 1
    assert "segments that Spark is done with cannot be deleted yet: cannot write progress.json" in caplog.text

    store.is_full = False
    planner.next(end, None)
    assert (segments_in(store), len(list_spool(store).ids)) == ([], 1)


def test_query_when_another_one_was_started_then_it_deletes_nothing_and_says_so(store: SpoolStore) -> None:
    write(store, "a", 1, ["1"])
    lease = Lease(store)
    planner = started(store, max_bytes=1, lease=lease)
    end = planner.next({}, None)
    taken_by_another(store)
    lease.release()

    with pytest.raises(SpoolTaken, match=r"another query reads the spool .*: process 7 on elsewhere"):
        planner.next(end, None)
    assert len(segments_in(store)) == 1


def say(store: SpoolStore, shard: str, state: ReceiverState, *, ago: float) -> None:
    said = read_status(store, shard) or ReceiverStatus(shard=shard)
    write_status(store, replace(said, state=state))
    make_older(store, f"status/{shard}.json", ago)


@pytest.mark.parametrize(
    ("state", "ago", "is_retired"),
    [
        (ReceiverState.ENDED, 100, True),
        (ReceiverState.FAILED, 100, True),
        (ReceiverState.ENDED, 0, False),
        (ReceiverState.RECEIVING, 100, False),
    ],
)
def test_shard_when_its_receiver_is_gone_and_its_rows_are_done_then_it_leaves_the_offset(
    store: SpoolStore, state: ReceiverState, ago: float, is_retired: bool
) -> None:
    write(store, "old", 1, ["1"], time=1)
    say(store, "old", state, ago=ago)
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    assert planner.next(end, None) == end == {"old": 1}
    write(store, "new", 1, ["2"], time=2)

    after = planner.next(end, None)

    assert after == {"new": 1} | ({} if is_retired else {"old": 1})
    assert rows(store, planner, end, after) == [1]
    assert Path(store.path("segments/old")).exists() is not is_retired


def test_shard_when_its_receiver_was_killed_long_ago_then_it_leaves_the_offset_when_it_was_watched_for_a_while(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, "old", 1, ["1"], time=1)
    say(store, "old", ReceiverState.RECEIVING, ago=4000)
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    write(store, "new", 1, ["2"], time=2)
    end = planner.next(end, None)
    write(store, "new", 2, ["3"], time=3)
    end = planner.next(end, None)
    assert end == {"old": 1, "new": 2}
    write(store, "new", 3, ["4"], time=4)
    monkeypatch.setattr(planning, "SILENT_SECONDS", 0.0)

    assert planner.next(end, None) == {"new": 3}
    assert not Path(store.path("segments/old")).exists()


def test_shard_when_a_listing_misses_its_receiver_then_it_stays_in_the_offset(tmp_path: Path) -> None:
    store = Shared(fs.LocalFileSystem(), str(tmp_path), "file")
    write(store, "live", 1, ["1"], time=1)
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    write(store, "new", 1, ["2"], time=2)
    store.skipped = "status/live.json"

    end = planner.next(end, None)

    assert end == {"live": 1, "new": 1}
    write(store, "live", 2, ["3"], time=3)
    assert planner.next(end, None) == {"live": 2, "new": 1}


def test_receivers_when_one_was_killed_on_this_machine_then_it_is_not_listed_and_those_of_others_are(
    store: SpoolStore,
) -> None:
    """With Trigger.AvailableNow, a run waits for all that are listed. Of other containers, no process is known here."""
    processes = {"a": f"0123456789ab-{1 << 22}-99", "b": "0123456789ab-1-99", "c": identity_of_an_ended_process()}
    for shard, process in processes.items():
        status = ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, host=socket.gethostname(), process=process)
        write_status(store, status)

    assert [each.shard for each in started(store).receivers()] == ["a", "b"]


def test_receivers_when_asked_for_then_those_that_have_said_something_lately(store: SpoolStore) -> None:
    say(store, "a", ReceiverState.IDLE, ago=0)
    say(store, "b", ReceiverState.RECEIVING, ago=1000)
    # Its clock, or that of the store, may be off by that much.
    say(store, "f", ReceiverState.RECEIVING, ago=40)
    say(store, "c", ReceiverState.ENDED, ago=0)
    store.put("status/d.json", b"nonsense")
    store.put("status/e.json", b'{"state": "nonsense"}')

    clock = [0.0]
    planner = started(store, monotonic=lambda: clock[0])
    assert [each.shard for each in planner.receivers()] == ["a", "f"]
    clock[0] += 31
    say(store, "a", ReceiverState.IDLE, ago=39)
    assert [each.shard for each in planner.receivers()] == ["a"]


@pytest.mark.parametrize(
    ("ago", "later", "is_silent"),
    [
        pytest.param(600, 0, False, id="ten minutes old, and not watched yet"),
        pytest.param(601, 0, True, id="older than that"),
        pytest.param(0, 29.9, False, id="watched for less than half a minute"),
        pytest.param(0, 30, True, id="watched for half a minute"),
    ],
)
def test_receiver_when_its_status_stays_as_it_is_then_silent_after_a_while(
    ago: float, later: float, is_silent: bool
) -> None:
    clock = [0.0]
    watch = StatusWatch(lambda: 1e9, lambda: clock[0])
    watch.silent({"a": 1e9 - ago})
    clock[0] += later

    assert ("a" in watch.silent({"a": 1e9 - ago})) is is_silent
    # It has written another one.
    assert watch.silent({"a": 1e9 + 1}) == frozenset()


# --- rivals, and things that are left over ----------------------------------------------------------------------------


def test_copies_when_another_query_was_started_then_the_first_one_decides_nothing_more(store: SpoolStore) -> None:
    """Each would leave out the copy that the other one has kept: a lost message."""
    write(store, "a", 1, ["1"], time=2)
    lease = Lease(store)
    first = started(store, lease=lease)
    end = first.next({}, None)
    # Its receiver was slow to write it.
    write(store, "b", 1, ["1"], redelivered=[0], time=1)
    taken_by_another(store)
    second = started(store)
    both = second.next({}, None)

    with pytest.raises(SpoolTaken):
        first.next(end, None)
    lease.release()

    assert len(rows(store, second, {}, both)) == 1


def leave_copies(store: SpoolStore) -> None:
    write(store, "a", 1, ["1"], time=1)
    write(store, "b", 1, ["1"], redelivered=[0], time=2)


def leave_a_segment(store: SpoolStore) -> None:
    write(store, "a", 1, ["1"])


def leave_a_status(store: SpoolStore) -> None:
    say(store, "a", ReceiverState.ENDED, ago=100)


def leave_a_note_of_copies(store: SpoolStore) -> None:
    store.put_json("drops/a/000000000001.json", [0])


@pytest.mark.parametrize(
    ("leave", "batches"),
    [
        pytest.param(leave_copies, [NO_ROWS], id="decides which rows are copies"),
        pytest.param(leave_a_segment, [NO_ROWS, {"a": 1}], id="deletes segments"),
        pytest.param(leave_a_status, [NO_ROWS, NO_ROWS], id="forgets a receiver"),
        pytest.param(leave_a_note_of_copies, [NO_ROWS], id="deletes what another query has left"),
    ],
)
def test_query_when_another_one_takes_the_spool_after_it_was_listed_then_nothing_is_changed(
    tmp_path: Path, leave: Callable[[SpoolStore], None], batches: list[Offsets]
) -> None:
    store = Shared(fs.LocalFileSystem(), str(tmp_path), "file")
    leave(store)
    lease = Lease(store)
    planner = started(store, max_bytes=1, lease=lease)
    planner.begin(planner.first())
    for begun in batches[:-1]:
        planner.next(begun, None)
    before = {each.name for each in store.objects()}
    store.after = partial(taken_by_another, store)

    with pytest.raises(SpoolTaken):
        planner.next(batches[-1], None)
    lease.release()

    assert {each.name for each in store.objects()} == before | {"lease/000000000002.json"}


def test_query_when_it_ends_then_it_writes_down_what_it_did_unless_it_did_nothing_or_lost_the_spool(
    store: SpoolStore,
) -> None:
    for row in (1, 2):
        write(store, "a", row, [str(row)])
    lease = Lease(store)
    planner = started(store, lease=lease, monotonic=lambda: 0.0)
    for row in (1, 2):
        planner.next({"a": row}, None)
    # More than once a second is not worth it while it runs.
    assert started(store).first().rows == {"a": 1}
    started(store).close()
    taken_by_another(store)
    planner.close()
    assert started(store).first().rows == {"a": 1}

    store.delete(["lease/000000000002.json"])
    planner.close()
    assert started(store).first().rows == {"a": 2}
    lease.release()


def test_copies_when_a_rival_decided_later_then_the_rows_of_a_planned_batch_stay(store: SpoolStore) -> None:
    write(store, "a", 1, ["1"], time=1)
    planner = started(store)
    end = planner.next({}, None)
    # Its request was on the way when it was replaced.
    store.put_json("drops/a/000000000001.json", [0])
    write(store, "b", 1, ["2"], time=2)
    end = planner.next(end, None)

    assert rows(store, planner, {}, end) == [1, 1]


@pytest.mark.parametrize("lives", range(7))
def test_segments_when_the_planner_is_killed_as_it_deletes_them_then_a_backup_has_each_row_once_and_no_note_stays(
    lives: int,
) -> None:
    """Their ids are saved before, and they are no copies of themselves; the notes of copies go last."""
    store = MemoryStore()
    write(store, "a", 1, ["1", "2"], suspects=2, time=1)
    write(store, "b", 1, ["2", "3"], suspects=2, time=2)
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    backup = store.found.copy()

    store.lives = lives
    with suppress(Killed):
        planner.next(end, None)
    store.lives = None
    left = store.found
    kinds = {name.partition("/")[0] for name in left}
    assert "drops" in kinds or "segments" not in kinds
    store.found = {**backup, **left}
    restored = started(store)

    assert restored.next({}, None) == end
    assert copies(restored, {}, end) == [("b", [0])]
    store.found = left
    started(store, max_bytes=1).next(end, None)
    listing = list_spool(store)
    assert (listing.segments, listing.drops) == ({}, frozenset())


def test_segment_when_it_was_given_up_and_comes_after_its_receiver_was_forgotten_then_left_out() -> None:
    store = MemoryStore()
    planner = started(store, max_bytes=1, monotonic=lambda: store.now)
    given_up, octets = segment_of("a", 1, ["1"])
    store.put_json(given_up.void_name, {})
    write_status(store, ReceiverStatus(shard="a", state=ReceiverState.FAILED))
    for _ in range(2):
        store.now += 100
        planner.next({}, None)
    assert not list_spool(store).statuses

    write(store, "0", 1, ["0"])
    store.put(given_up.name, octets)
    write(store, "b", 1, ["1"], redelivered=[0])

    assert planner.next({}, None) == {"0": 1, "b": 1}
    assert started(store).next({}, None) == {"0": 1, "b": 1}


def test_segment_when_given_up_and_a_batch_has_its_rows_already_then_the_batch_keeps_them(store: SpoolStore) -> None:
    """The write was slow, and the planner has listed it before its receiver gave it up."""
    segment = write(store, "a", 1, ["1"])
    planner = started(store)
    end = planner.next({}, None)
    store.put_json(segment.void_name, {})

    assert planner.next(end, None) == end
    for each in (planner, started(store)):
        assert rows(store, each, {}, end) == [1]


def test_shard_when_the_planner_is_killed_as_it_forgets_it_then_the_next_one_does_not_count_it_twice() -> None:
    """The checkpoint would seem to be older than a shard whose rows are gone."""
    store = MemoryStore()
    planner = started(store, monotonic=lambda: store.now)
    store.put_json("void/a/000000000001.json", {})
    write_status(store, ReceiverStatus(shard="a", state=ReceiverState.FAILED))
    begun = planner.first()
    store.now += 100
    planner.next({}, None)
    # It writes its progress, and is killed as it deletes.
    store.lives = 1
    with pytest.raises(Killed):
        planner.next({}, None)
    store.lives = None

    second = started(store, monotonic=lambda: store.now)
    for _ in range(3):
        store.now += 100
        second.next({}, None)
    third = started(store)
    third.begin(begun)

    assert second.retired == third.retired == 1
    assert not list_spool(store).statuses


def test_shard_when_its_receiver_wrote_a_segment_and_ended_after_the_listing_then_not_retired(tmp_path: Path) -> None:
    """It would leave the offset, and its last rows would seem to lack those before."""
    store = Shared(fs.LocalFileSystem(), str(tmp_path), "file")
    write(store, "a", 1, ["1"], time=1)
    say(store, "a", ReceiverState.RECEIVING, ago=100)
    write(store, "b", 1, ["2"], time=2)
    planner = started(store, max_bytes=1)
    first = planner.next({}, None)
    write(store, "b", 2, ["4"], time=3)

    def finish() -> None:
        write(store, "a", 2, ["3"], time=4)
        say(store, "a", ReceiverState.ENDED, ago=100)

    store.after = finish
    second = planner.next(first, None)
    third = planner.next(second, None)

    assert (first, second, third) == ({"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2})
    assert rows(store, planner, second, third) == [2]


def test_shard_when_the_clock_of_the_planner_is_ahead_by_hours_then_not_retired_while_its_receiver_writes(
    store: SpoolStore,
) -> None:
    write(store, "a", 1, ["1"], time=1)
    planner = started(store, max_bytes=1)
    end = planner.next({}, None)
    for ago in (9000, 8995, 8990):
        say(store, "a", ReceiverState.RECEIVING, ago=ago)
        assert planner.next(end, None) == end

    assert list(list_spool(store).statuses) == ["a"]
    write(store, "a", 2, ["2"], time=2)
    after = planner.next(end, None)
    assert rows(store, planner, end, after) == [2]


def test_planner_when_receivers_come_and_go_for_long_then_it_remembers_none_of_them(store: SpoolStore) -> None:
    planner = started(store, max_bytes=1)
    end: Offsets = {}
    for number in range(50):
        shard = f"s{number:02}"
        write(store, shard, 1, [str(number)], suspects=1, time=number + 1)
        say(store, shard, ReceiverState.ENDED, ago=100)
        for _ in range(4):
            end = planner.next(end, None)

    assert len(end) <= 2
    remembered = repr([value for name, value in vars(planner).items() if name not in {"_listed", "_ids", "_progress"}])
    assert [number for number in range(48) if f"s{number:02}" in remembered] == []
    assert len([each for each in Path(store.folder).rglob("*") if "s0" in str(each) and "ids" not in str(each)]) == 0
