"""Which rows are copies, by the ids of rows that came before: in any shard, and in earlier processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.spark.receiving import segments_in, write
from trio_stomp.spark import recent_ids
from trio_stomp.spark.recent_ids import RecentIds, Window
from trio_stomp.spark.segments import Segment, list_spool
from trio_stomp.spark.spool_store import SpoolStore

WINDOW = Window(rows=1000, seconds=3600)


def confirmed(_segment: Segment) -> bool:
    """The broker has confirmed the ACK of each segment."""
    return False


def test_row_when_marked_and_known_from_another_shard_then_a_copy(store: SpoolStore) -> None:
    ids = RecentIds(store, WINDOW, confirmed)

    assert ids.copies(write(store, "a", 1, ["1", "2", "3", None])) == []
    assert ids.copies(write(store, "b", 1, ["3", "4", "2", None], redelivered=[0, 1, 2, 3])) == [0, 2]


def test_row_when_its_id_is_known_and_it_is_not_marked_then_none(store: SpoolStore) -> None:
    """On a broker that marks what it delivers again, a sender has sent two messages with one id."""
    ids = RecentIds(store, WINDOW, confirmed)
    ids.copies(write(store, "a", 1, ["1", "2"]))

    assert ids.copies(write(store, "a", 3, ["1", "2", "9"], redelivered=[2])) == []


def test_row_when_not_marked_and_planned_behind_its_marked_copy_then_it_is_the_copy(store: SpoolStore) -> None:
    """A receiver has lost its connection while it wrote; the other one was faster with what came again."""
    ids = RecentIds(store, WINDOW, confirmed)

    assert ids.copies(write(store, "b", 1, ["1", "2"], redelivered=[0, 1])) == []
    assert ids.copies(write(store, "a", 1, ["1", "2", "3"])) == [0, 1]


def test_row_when_it_came_again_in_its_own_segment_then_a_copy(store: SpoolStore) -> None:
    assert RecentIds(store, WINDOW, confirmed).copies(write(store, "a", 1, ["1", "2", "1"], redelivered=[2])) == [2]


def test_rows_when_all_are_suspect_then_known_without_a_mark(store: SpoolStore) -> None:
    ids = RecentIds(store, WINDOW, confirmed)
    ids.copies(write(store, "a", 1, ["1", "2"], suspects=2))

    assert ids.copies(write(store, "b", 1, ["2", "3"], suspects=2)) == [0]


def test_ids_when_nothing_is_suspect_then_no_segment_is_read(store: SpoolStore) -> None:
    ids = RecentIds(store, WINDOW, confirmed)
    segment = write(store, "a", 1, ["1"])
    store.delete([segment.name])

    assert ids.copies(segment) == []


def test_ids_when_the_suspects_have_left_the_window_then_no_segment_is_read_again(store: SpoolStore) -> None:
    ids = RecentIds(store, Window(rows=2, seconds=3600), confirmed)
    ids.copies(write(store, "a", 1, ["1"], redelivered=[0]))
    for first in (2, 4, 6):
        ids.copies(write(store, "a", first, [str(first), str(first + 1)]))
    segment = write(store, "a", 8, ["8"])
    store.delete([segment.name])

    assert ids.copies(segment) == []


def test_ids_when_their_segments_are_gone_and_the_process_too_then_still_known(store: SpoolStore) -> None:
    ids = RecentIds(store, WINDOW, confirmed)
    for first in (1, 3):
        ids.copies(write(store, "a", first, [str(first), str(first + 1)], time=first))
    old = segments_in(store)
    ids.save(old, ())
    store.delete(each.name for each in old)
    copy = write(store, "b", 1, ["2", "7", "3"], redelivered=[0, 1, 2], time=9)

    assert ids.copies(copy) == [0, 2]
    again = RecentIds(store, WINDOW, confirmed)
    again.restore(list_spool(store).ids, [])
    assert again.copies(copy) == [0, 2]


def test_ids_when_no_row_has_one_then_nothing_is_saved(store: SpoolStore) -> None:
    ids = RecentIds(store, WINDOW, confirmed)
    segment = write(store, "a", 1, [None, None])
    ids.copies(segment)
    ids.save([segment], ())

    assert list_spool(store).ids == []


def test_ids_when_a_batch_was_large_then_saved_in_several_objects(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, those of a million rows would take half a GiB."""
    monkeypatch.setattr(recent_ids, "_SAVED_ROWS", 4)
    segments = [write(store, "a", first, [str(first), None, str(first + 2)], time=first) for first in (1, 4, 7, 10, 13)]
    ids = RecentIds(store, WINDOW, confirmed)
    for each in segments:
        ids.copies(each)
    ids.save(segments, ())
    store.delete(each.name for each in segments)

    assert [each.name.split("-")[-2] for each in list_spool(store).ids] == ["4", "4", "2"]
    copies = ["1", "3", "4", "6", "7", "9", "10", "12", "13", "15", "16"]
    assert ids.copies(write(store, "b", 1, copies, suspects=11, time=99)) == list(range(10))


PLANNER = """
import sys
from trio_stomp.spark.planner import Planner
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.spool_store import SpoolLocation
window = Window(rows=100, seconds=1e9)
store = SpoolLocation.of(sys.argv[1]).open()
planner = Planner(store, destination="/queue/a", window=window, max_bytes=1, fail_on_data_loss=True)
end = planner.next({}, None)
planner.slices({}, end)
planner.next(end, None)
sys.exit("pandas" in sys.modules)
"""


def test_planner_when_it_plans_and_deletes_then_pandas_is_not_imported(store: SpoolStore) -> None:
    """It takes more memory than all else that a planner has."""
    write(store, "a", 1, ["1", "2"], time=1)
    write(store, "b", 1, ["2", "3"], suspects=2, time=2)

    assert subprocess.run([sys.executable, "-c", PLANNER, store.folder], check=False).returncode == 0
    listing = list_spool(store)
    assert (listing.segments, listing.drops, len(listing.ids)) == ({}, frozenset(), 1)


def test_window_when_there_are_too_many_then_the_oldest_go(store: SpoolStore) -> None:
    ids = RecentIds(store, Window(rows=3, seconds=3600), confirmed)
    for first in (1, 3, 5):
        ids.copies(write(store, "a", first, [str(first), str(first + 1)], suspects=2))

    assert ids.copies(write(store, "b", 1, ["1", "6"], suspects=2)) == [1]


def test_window_when_ids_were_saved_lately_then_still_older_than_rows_planned_before(store: SpoolStore) -> None:
    """A batch is done when the next one is planned, and then its ids are saved."""
    ids = RecentIds(store, Window(rows=3, seconds=3600), confirmed)
    first, second = (write(store, "a", each, [str(each), str(each + 1)], time=each) for each in (1, 3))
    for each in (first, second):
        ids.copies(each)
    ids.save([first], ())

    assert ids.copies(write(store, "b", 1, ["1", "4"], redelivered=[0, 1], time=5)) == [1]


def every_second(store: SpoolStore, ids: RecentIds, count: int) -> list[Segment]:
    """Segments of one row, with their numbers as ids, one for each second."""
    segments = [write(store, "a", 1 + each, [str(each)], suspects=1, time=each * 1000) for each in range(count)]
    for each in segments:
        ids.copies(each)
    return segments


def test_window_when_messages_have_come_for_longer_then_the_oldest_go(store: SpoolStore) -> None:
    ids = RecentIds(store, Window(rows=1000, seconds=10), confirmed)
    segments = every_second(store, ids, 14)
    ids.save(segments[:2], ())
    ids.save(segments[10:], ())

    assert ids.copies(write(store, "b", 1, ["1", "2", "13"], suspects=3, time=13_000)) == [2]
    ids.delete_outdated(list_spool(store).ids)
    assert [each.name.split("-")[0] for each in list_spool(store).ids] == ["ids/000000000001000", "ids/000000000013000"]


def test_window_when_there_was_an_outage_then_it_hardly_counts(store: SpoolStore) -> None:
    """A broker that is down for a night delivers again, in the morning, what it had confirmed in the evening."""
    ids = RecentIds(store, Window(rows=1000, seconds=10), confirmed)
    every_second(store, ids, 3)

    night = 12 * 3600 * 1000
    for number in range(3):
        assert ids.copies(write(store, "b", 1 + number, [str(number)], suspects=1, time=night + 5000 * number)) == [0]
    assert ids.copies(write(store, "b", 4, ["9"], suspects=1, time=night + 20_000)) == []
    assert ids.copies(write(store, "b", 5, ["2"], suspects=1, time=night + 20_000)) == [0]


@pytest.mark.parametrize(("last", "is_known"), [(29, True), (30, False)])
def test_window_when_there_are_breaks_then_each_counts_for_half_a_minute_at_most(
    store: SpoolStore, last: int, is_known: bool
) -> None:
    ids = RecentIds(store, Window(rows=1000, seconds=150), confirmed)
    time = 1_000_000
    for number, seconds in enumerate([0, 3600, 3600, 3600, 3600, last]):
        time += seconds * 1000
        ids.copies(write(store, "a", 1 + number, [str(number)], suspects=1, time=time))

    assert ids.copies(write(store, "b", 1, ["0"], suspects=1, time=time)) == ([0] if is_known else [])


def test_window_when_it_has_no_seconds_then_ids_are_saved_for_two(store: SpoolStore) -> None:
    """Stores tell times in whole seconds, or even pairs of them."""
    ids = RecentIds(store, Window(rows=1000, seconds=0), confirmed)
    for row in range(1, 13):
        ids.save([write(store, "a", row, [str(row)], time=1_000_000 + 250 * row)], ())

    ids.delete_outdated(list_spool(store).ids)

    assert len(list_spool(store).ids) == 8


def test_window_when_saved_ids_are_deleted_before_they_were_read_then_not_looked_for(store: SpoolStore) -> None:
    """Nothing was suspect for longer than the window."""
    ids = RecentIds(store, Window(rows=1000, seconds=0), confirmed)
    for row in range(1, 7):
        segment = write(store, "a", row, [str(row)], time=1_000_000 + 1000 * row)
        ids.copies(segment)
        ids.save([segment], ())
        store.delete([segment.name])
    ids.delete_outdated(list_spool(store).ids)

    # Two seconds may be one moment, for a store whose times are coarse.
    assert [each.name[:19] for each in list_spool(store).ids] == [
        f"ids/{1_000_000 + 1000 * row:015}" for row in range(3, 7)
    ]
    assert ids.copies(write(store, "b", 1, ["1", "2", "3"], redelivered=[0, 1], time=1_011_000)) == []


# --- rows whose acknowledgment is in doubt ----------------------------------------------------------------------------


def test_doubts_when_the_window_has_long_passed_then_still_known_and_the_others_are_forgotten(
    store: SpoolStore,
) -> None:
    ids = RecentIds(store, Window(rows=3, seconds=0), lambda each: each.first == 1)
    segments = [write(store, "a", 1 + each, [str(each)], suspects=1, time=each) for each in range(50)]
    for each in segments:
        ids.copies(each)

    assert ids.copies(write(store, "b", 1, ["0", "1"], suspects=2, time=99)) == [0]


def test_ids_when_a_restart_comes_between_a_marked_copy_and_the_row_that_was_slow_then_it_is_the_copy(
    store: SpoolStore,
) -> None:
    marked = write(store, "b", 1, ["1", "2"], redelivered=[0])
    for is_saved in (False, True):
        if is_saved:
            RecentIds(store, WINDOW, confirmed).save([marked], ())
        ids = RecentIds(store, WINDOW, confirmed)
        ids.restore(list_spool(store).ids, [] if is_saved else [marked])

        assert ids.copies(write(store, "a", 1, ["1", "2", "3"])) == [0]


@pytest.mark.parametrize("is_new", [False, True])
def test_doubts_when_their_segments_are_deleted_then_still_known_also_by_the_next_process(
    store: SpoolStore, is_new: bool
) -> None:
    ids = RecentIds(store, Window(rows=10, seconds=0), confirmed)
    segments = every_second(store, ids, 50)
    for each in segments:
        ids.save([each], [segments[0].name, segments[7].name])
    store.delete(each.name for each in segments)
    ids.delete_outdated(list_spool(store).ids)
    if is_new:
        ids = RecentIds(store, Window(rows=10, seconds=0), confirmed)
        ids.restore(list_spool(store).ids, [])

    assert ids.copies(write(store, "b", 1, ["0", "7", "8"], suspects=3, time=99)) == [0, 1]
    assert [each.name.partition("/")[0] for each in list_spool(store).ids] == ["doubts"] * 2 + ["ids"] * 4


def test_doubts_when_links_break_again_and_again_then_bounded(store: SpoolStore) -> None:
    ids = RecentIds(store, Window(rows=10, seconds=0), confirmed)
    for segment in every_second(store, ids, 30):
        ids.save([segment], [segment.name])
        ids.delete_outdated(list_spool(store).ids)

    assert len(list_spool(store).ids) == 10
    assert ids.copies(write(store, "b", 1, ["1", "25"], suspects=2, time=99_000)) == [1]


def test_window_when_newer_saved_ids_fill_it_then_the_oldest_are_deleted(store: SpoolStore) -> None:
    ids = RecentIds(store, Window(rows=4, seconds=3600), confirmed)
    for first in (1, 3, 5, 7):
        segment = write(store, "a", first, [str(first), str(first + 1)], time=first)
        ids.copies(segment)
        ids.save([segment], ())

    ids.delete_outdated(list_spool(store).ids)

    assert len(list_spool(store).ids) == 2
    assert ids.copies(write(store, "b", 1, ["1", "6", "8"], redelivered=[0, 1, 2], time=9)) == [1, 2]


def test_window_when_a_name_does_not_say_how_many_ids_it_has_then_they_push_none_out(store: SpoolStore) -> None:
    for name in ("ids/000000000000001-20261123-085234-150201-4e9e06268c-000000000001.arrow", "ids/2-x.arrow"):
        store.put(name, b"")

    RecentIds(store, Window(rows=1, seconds=3600), confirmed).delete_outdated(list_spool(store).ids)

    assert len(list_spool(store).ids) == 2
