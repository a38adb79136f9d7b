"""When a planner deletes, forgets, writes down its progress and reads statuses: by its clocks, and by what there is."""

from __future__ import annotations

from functools import partial

import pytest

from tests.spark.memory_store import MemoryStore
from tests.spark.receiving import planner_of, segments_in, write
from trio_stomp.spark import ReceiverState, ReceiverStatus
from trio_stomp.spark.planner import Planner
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import Segment, SegmentFormat, list_spool
from trio_stomp.spark.stream_offsets import Offsets

MIB = 1024**2
WINDOW = Window(rows=100_000, seconds=1e9)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def started(store: MemoryStore, *, window: Window | None = None, max_bytes: int = 1 << 30) -> Planner:
    """A planner for which as much time passes as for the store."""
    return planner_of(store, window=window, max_bytes=max_bytes, monotonic=lambda: store.now)


def write_now(store: MemoryStore, first: int, *, ago: float = 0) -> None:
    """Write a segment of one row."""
    write(store, "a", first, [str(first)], time=int((store.now - ago) * 1000))


# --- segments that Spark is done with ---------------------------------------------------------------------------------


def test_segments_when_spark_is_done_with_few_then_deleted_after_half_a_minute(store: MemoryStore) -> None:
    planner = started(store)
    end: Offsets = {}
    for row in (1, 2):
        write_now(store, row)
        end = planner.next(end, None)
        planner.next(end, None)
        store.now += 29
        planner.next(end, None)
        assert [each.first for each in segments_in(store)] == [row]
        store.now += 1
        planner.next(end, None)
        assert segments_in(store) == []


@pytest.mark.parametrize(("ago", "is_deleted"), [(30, False), (31, True)])
def test_segments_when_they_waited_for_spark_for_half_a_minute_then_deleted_at_once(
    store: MemoryStore, ago: float, is_deleted: bool
) -> None:
    write_now(store, 1, ago=ago)
    planner = started(store)

    planner.next(planner.next({}, None), None)

    assert (segments_in(store) == []) is is_deleted


@pytest.mark.parametrize(
    ("max_bytes", "size", "is_deleted"),
    [
        pytest.param(8000, 1000, True, id="an eighth of the spool"),
        pytest.param(8008, 1000, False, id="less than that"),
        pytest.param(1 << 40, 16 * MIB, True, id="much"),
        pytest.param(1 << 40, 16 * MIB - 1, False, id="less than that, in a large spool"),
    ],
)
def test_segments_when_they_take_much_room_then_deleted_at_once(
    store: MemoryStore, max_bytes: int, size: int, is_deleted: bool
) -> None:
    segment = Segment(
        shard="a", first=1, rows=1, suspects=0, size=size, time=int(store.now * 1000), form=SegmentFormat.ARROW
    )
    store.put(segment.name, bytes(size))
    planner = started(store, max_bytes=max_bytes)

    planner.next(planner.next({}, None), None)

    assert (segments_in(store) == []) is is_deleted


@pytest.mark.parametrize(
    ("in_doubt", "confirmed", "state", "saved", "left"),
    [
        pytest.param(0, 2, ReceiverState.RECEIVING, ["ids"], [], id="all are confirmed"),
        pytest.param(1, 2, ReceiverState.RECEIVING, ["doubts", "ids"], [], id="the first was not"),
        pytest.param(0, 1, ReceiverState.RECEIVING, ["ids"], [2], id="the last is about to be"),
        pytest.param(0, 1, ReceiverState.ENDED, ["doubts", "ids"], [], id="the last was not"),
    ],
)
def test_ids_when_segments_are_deleted_then_those_that_the_broker_may_deliver_again_are_kept_apart(
    store: MemoryStore, in_doubt: int, confirmed: int, state: ReceiverState, saved: list[str], left: list[int]
) -> None:
    write(store, "a", 1, ["1"])
    write(store, "a", 2, ["2"], in_doubt=in_doubt)
    write_status(store, ReceiverStatus(shard="a", state=state, rows=2, confirmed=confirmed))
    planner = started(store, window=WINDOW, max_bytes=1)

    planner.next(planner.next({}, None), None)

    assert [each.name.partition("/")[0] for each in list_spool(store).ids] == saved
    assert [each.first for each in segments_in(store)] == left


def test_ids_when_the_window_has_passed_then_deleted(store: MemoryStore) -> None:
    planner = started(store, window=Window(rows=3, seconds=1e9), max_bytes=1)
    end: Offsets = {}
    for row in range(1, 20):
        write_now(store, row)
        end = planner.next(end, None)

    assert len(list_spool(store).ids) <= 4


# --- receivers that write no more -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(ReceiverStatus(shard="old", state=ReceiverState.ENDED), id="ended"),
        pytest.param(ReceiverStatus(shard="old", state=ReceiverState.RECEIVING, spool="another"), id="another spool"),
        pytest.param(None, id="damaged"),
    ],
)
def test_shard_when_its_receiver_wrote_nothing_then_forgotten_and_not_counted(
    store: MemoryStore, status: ReceiverStatus | None
) -> None:
    planner = started(store)
    if status is None:
        store.put("status/old.json", b"nonsense")
    else:
        write_status(store, status)
    for seconds in (29, 0, 1):
        store.now += seconds
        planner.next({}, None)
        assert "status/old.json" in store.found

    planner.next({}, None)

    assert "status/old.json" not in store.found
    assert planner.retired == 0


@pytest.mark.parametrize("pauses", [(3570, 30, 1), (4000, 29, 1)], ids=["for an hour", "watched for half a minute"])
def test_shard_when_its_receiver_was_killed_then_forgotten_after_an_hour_of_which_some_was_watched(
    store: MemoryStore, pauses: tuple[int, ...]
) -> None:
    planner = started(store)
    write_status(store, ReceiverStatus(shard="old", state=ReceiverState.RECEIVING))
    for seconds in pauses:
        assert "status/old.json" in store.found
        store.now += seconds
        planner.next({}, None)

    assert "status/old.json" not in store.found
    # It may only have been suspended: what it writes is not to be taken for new rows.
    assert planner.retired == 1


def test_shard_when_forgotten_then_nothing_of_it_is_left(store: MemoryStore) -> None:
    given_up = Segment(shard="a", first=1, rows=1, suspects=0, size=4, time=1, form=SegmentFormat.ARROW)
    store.put_json(given_up.void_name, {})
    store.put(given_up.name, b"rows")
    write_status(store, ReceiverStatus(shard="a", state=ReceiverState.FAILED))
    planner = started(store)
    for _ in range(2):
        store.now += 100
        assert planner.next({}, None) == {}

    assert sorted(store.found) == ["progress.json", "spool.json"]


# --- what it writes down and reads ------------------------------------------------------------------------------------


def test_progress_when_batches_follow_one_another_then_written_down_once_a_second_if_it_has_changed(
    store: MemoryStore,
) -> None:
    begun = store.now
    planner = started(store)
    end: Offsets = {}
    written: set[float] = set()

    def plan() -> None:
        nonlocal end
        end = planner.next(end, None)
        if "progress.json" in store.found:
            written.add(store.found["progress.json"][1] - begun)

    for row in range(1, 11):
        write_now(store, row)
        plan()
        store.now += 0.25
    for _ in range(2):
        store.now += 10
        plan()

    assert sorted(written) == [0.25, 1.25, 2.25, 12.5]


def test_metrics_when_asked_then_they_say_what_waits_and_how_receivers_are(store: MemoryStore) -> None:
    say = partial(ReceiverStatus, state=ReceiverState.RECEIVING)
    write_now(store, 1, ago=5)
    write(store, "b", 1, ["1"], redelivered=[0], time=int(store.now * 1000))
    write_status(store, say(shard="c", redelivered=3))
    write_status(store, say(shard="d", redelivered=4))
    planner = started(store, window=WINDOW)
    first = planner.next({}, 1)
    quiet = {"rowsWaiting": 0, "oldestWaitingMs": 0, "receivers": 4, "redelivered": 7, "copiesLeftOut": 0}

    assert planner.metrics({}) == {**quiet, "rowsWaiting": 2, "oldestWaitingMs": 5000, "rowsLost": 0}
    # Never 0 if anything waits.
    assert planner.metrics(first) == {**quiet, "rowsWaiting": 1, "oldestWaitingMs": 1, "rowsLost": 0}
    end = planner.next(first, None)
    assert planner.metrics(end) == {**quiet, "copiesLeftOut": 1, "rowsLost": 0}

    # Each status of a receiver is an object to read, so they are a second old at most.
    write_status(store, say(shard="c", redelivered=5))
    store.now += 0.5
    assert planner.metrics(end)["redelivered"] == 7
    store.now += 0.5
    assert planner.metrics(end)["redelivered"] == 9
