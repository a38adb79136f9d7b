"""The status of a spool, as users and `trio-stomp top` read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.spark.receiving import make_older, planner_of, segments_in, write
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError, status
from trio_stomp.spark import planner as planning
from trio_stomp.spark.intake_options import STREAM, destination_folder
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore


def opened(folder: Path, destination: str) -> SpoolStore:
    store = SpoolLocation.of(str(folder)).open(destination_folder(destination), STREAM)
    mark_spool(store, destination)
    return store


@pytest.fixture
def store(tmp_path: Path) -> SpoolStore:
    return opened(tmp_path, "/queue/a")


def told(store: SpoolStore, shard: str, state: ReceiverState, text: str = "") -> ReceiverStatus:
    made = ReceiverStatus(shard=shard, state=state, rows=3, redelivered=1, rate=2.0, last_message=5.0, text=text)
    write_status(store, made)
    return made


def test_status_when_nothing_is_there_then_empty(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    found = status(str(tmp_path))

    assert (found.location, found.destinations) == (str(tmp_path), ())
    assert (found.rows, found.size, found.blocked) == (0, 0, False)
    assert status(str(tmp_path / "nowhere")).destinations == ()


def test_status_when_receivers_write_then_says_what_they_have_said(store: SpoolStore, tmp_path: Path) -> None:
    older = told(store, "1", ReceiverState.RECEIVING)
    newer = told(store, "2", ReceiverState.FAILED, text="BrokerError: Access refused")
    (destination,) = status(str(tmp_path)).destinations

    assert destination.destination == "/queue/a"
    assert destination.receivers == (newer, older)
    assert (destination.read_at, destination.lost, destination.damaged) == (None, 0, ())


@pytest.mark.parametrize("state", [ReceiverState.FULL, ReceiverState.BLOCKED])
def test_status_when_a_receiver_takes_nothing_then_blocked(
    store: SpoolStore, tmp_path: Path, state: ReceiverState
) -> None:
    told(store, "1", ReceiverState.IDLE)
    assert not status(str(tmp_path)).blocked

    told(store, "2", state, text="cannot write /s of the spool: No space left on device")

    assert status(str(tmp_path)).blocked


def test_status_when_a_receiver_was_killed_then_silent(store: SpoolStore, tmp_path: Path) -> None:
    for shard, state in (("1", ReceiverState.RECEIVING), ("2", ReceiverState.ENDED)):
        told(store, shard, state)
        make_older(store, f"status/{shard}.json", 60)

    ended, killed = status(str(tmp_path)).destinations[0].receivers

    assert (ended.state, ended.rate) == (ReceiverState.ENDED, 2.0)
    assert (killed.state, killed.rate, killed.rows) == (ReceiverState.SILENT, 0.0, 3)


def test_status_when_a_query_has_read_some_then_the_rest_waits(
    store: SpoolStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_PROGRESS_SECONDS", 0.0)
    read = write(store, "x", 1, ["1", "2"])
    begun = write(store, "x", 3, ["3", "4", "8"])
    write(store, "y", 1, ["5"])
    other = opened(tmp_path, "/queue/b")
    write(other, "z", 1, ["6", "7"])
    size = sum(each.size for each in [*segments_in(store), *segments_in(other)])
    before = status(str(tmp_path))
    assert (before.rows, before.size) == (8, size)

    # Spark asks for the next batch when one is done.
    planner_of(store).next({"x": 3}, None)

    found = status(str(tmp_path))
    assert [each.rows for each in found.destinations] == [3, 2]
    assert [each.read_at is None for each in found.destinations] == [False, True]
    # One of three rows is read, and the segment before it.
    assert found.size == size - read.size - begun.size + 2 * begun.size // 3


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"rows": 1}'])
def test_status_when_the_progress_is_damaged_then_all_rows_wait(
    store: SpoolStore, tmp_path: Path, content: bytes
) -> None:
    """It informs people, and is not flushed to the disk: a power cut may damage it."""
    write(store, "x", 1, ["1", "2"])
    store.put("progress.json", content)

    (destination,) = status(str(tmp_path)).destinations

    assert (destination.rows, destination.read_at) == (2, None)


def test_status_when_a_segment_was_truncated_then_said_so(store: SpoolStore, tmp_path: Path) -> None:
    segment = write(store, "x", 1, ["1"])
    os.truncate(store.path(segment.name), 10)

    (text,) = status(str(tmp_path)).destinations[0].damaged

    assert f"of the spool has 10 bytes instead of {segment.size}: it was truncated; restore it" in text


def test_status_when_the_spool_cannot_be_listed_then_said_why() -> None:
    with pytest.raises(SpoolError, match="cannot list /dev/null"):
        status("/dev/null")
