"""The spool of a stream: its shards, what is cut out of it, and what is deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest

from tests.spark.receiving import left, publish
from trio_stomp.spark.segment_files import SpoolLocked, list_segments, write_segment
from trio_stomp.spark.stream_feed import DataLoss, StreamFeed, first_offsets
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import ThreadedBroker


class Read(Protocol):
    """Reads options, those that every test needs among them."""

    def __call__(self, **given: str) -> StreamOptions: ...


@pytest.fixture
def read(connection: dict[str, str], tmp_path: Path) -> Read:
    def options(**given: str) -> StreamOptions:
        needed = {"subscribe": "/queue/a", "spoolLocation": str(tmp_path), "availableNowIdleMs": "100"}
        return StreamOptions.read({**connection, **needed, **given})

    return options


def opened(options: StreamOptions) -> AbstractContextManager[StreamFeed]:
    return contextlib.closing(StreamFeed(options))


def fill(options: StreamOptions, shard: str, *segments: tuple[int, int]) -> Path:
    folder = options.intake.home / "stream" / shard
    folder.mkdir(parents=True, exist_ok=True)
    for first, last in segments:
        numbers = list(range(first, last + 1))
        batch = pa.record_batch({"n": numbers, "stable_id": pa.array([None] * len(numbers), pa.string())})
        write_segment(folder, batch, first)
    return folder


def test_first_offsets_when_the_spool_is_new_then_zero_for_each_receiver(read: Read) -> None:
    assert first_offsets(read(receivers="2")) == {"0": 0, "1": 0}


def test_first_offsets_when_there_are_rows_then_before_the_oldest_of_each_shard_also_of_more_receivers(
    read: Read,
) -> None:
    options = read()
    fill(options, "0", (11, 20), (21, 30))
    fill(options, "3", (5, 5))

    assert first_offsets(options) == {"0": 10, "3": 4}
    with opened(options) as feed:
        assert feed.progress.last == {"0": 30, "3": 5}


def test_rows_when_asked_for_then_cut_out_of_all_shards(read: Read) -> None:
    options = read()
    fill(options, "0", (1, 10), (11, 20))
    fill(options, "1", (1, 5))

    with opened(options) as feed:
        slices = feed.slices({"0": 8}, {"0": 12, "1": 5})

    assert [(each.skip, each.rows) for each in slices] == [(8, 2), (0, 2), (0, 5)]


def test_rows_when_they_are_gone_then_said_which_or_left_out(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    fill(read(), "0", (11, 20))

    with opened(read()) as feed, pytest.raises(DataLoss, match="does not have the rows 6 to 10, 21 to 25"):
        feed.slices({"0": 5}, {"0": 25})
    with opened(read(failOnDataLoss="false")) as feed:
        (found,) = feed.slices({"0": 5}, {"0": 25})
        assert feed.slices({"7": 0}, {"7": 3}) == []

    assert (found.skip, found.rows) == (0, 10)
    assert "does not have the rows 6 to 10, 21 to 25" in caplog.text


def test_segments_when_released_then_deleted_but_for_the_newest_and_what_is_not_done_as_a_whole(read: Read) -> None:
    options = read()
    folder = fill(options, "0", (1, 10), (11, 20), (21, 30))

    with opened(options) as feed:
        feed.release({"0": 19, "9": 4})
        assert [each.first for each in list_segments(folder)] == [11, 21]
        feed.release({"0": 30})
        assert [each.first for each in list_segments(folder)] == [21]
        feed.release({"0": 30})


def test_spool_when_another_query_has_it_then_refused(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_stomp.spark.stream_feed._LOCK_SECONDS", 0.1)
    first = StreamFeed(read())
    with pytest.raises(SpoolLocked, match="is in use by process"):
        StreamFeed(read())
    first.close()

    StreamFeed(read()).close()


@pytest.fixture(params=["1", "2"])
def receiving(request: pytest.FixtureRequest, read: Read) -> Generator[StreamFeed]:
    receivers: str = request.param
    feed = StreamFeed(read(receivers=receivers, prefetch="50"))
    with contextlib.closing(feed):
        yield feed


def test_receivers_when_started_then_every_message_is_in_one_of_the_shards(
    receiving: StreamFeed, threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, range(1000))

    receiving.start({"0": 100})
    while not receiving.progress.wait({}, 0) or left(threaded_broker):
        assert receiving.progress.failure is None
    receiving.progress.wait(receiving.progress.last, 10, receiving.all_idle)
    receiving.stop()

    last = receiving.progress.last
    assert receiving.receiving
    assert last["0"] + last.get("1", 0) == 1100
    slices = receiving.slices({"0": 100}, last)
    assert sum(each.rows for each in slices) == 1000
