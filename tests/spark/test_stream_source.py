"""The streaming source: called as Spark calls it, and in Spark."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.receiving import (
    QUEUE,
    Makes,
    left,
    numbers_of,
    publish,
    wait_until_disconnected,
    wait_until_left,
    write,
)
from tests.spark.test_receiver import Told
from tests.spark.waiting import wait_until
from trio_stomp.spark import SpoolError, SpoolTaken
from trio_stomp.spark import lease as leases
from trio_stomp.spark.planner import DataLoss
from trio_stomp.spark.receiver import ReceiverOptions, ReceiverThread
from trio_stomp.spark.segment_slices import InlineGroup, SegmentGroup
from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore
from trio_stomp.spark.stream_offsets import Offset, checked, offset_of
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_source import StompStreamReader
from trio_stomp.testing import Broker, ThreadedBroker

PATIENCE = 60
MakeReader = Makes[StompStreamReader]


@pytest.fixture
def make(connection: dict[str, str], tmp_path: Path) -> Generator[MakeReader]:
    readers: list[StompStreamReader] = []
    handler = signal.getsignal(signal.SIGTERM)

    def reader(**given: str) -> StompStreamReader:
        needed = {"subscribe": QUEUE, "spoolLocation": str(tmp_path / "spool"), "availableNowIdleMs": "300"}
        readers.append(StompStreamReader(StreamOptions.read({**connection, **needed, **given})))
        return readers[-1]

    yield reader
    for each in readers:
        each.stop()
    signal.signal(signal.SIGTERM, handler)


def total(offset: dict[str, object]) -> int:
    """How many rows are before an offset, in all shards."""
    return sum(checked(offset, QUEUE).rows.values())


def until(
    reader: StompStreamReader, start: dict[str, object], rows: int, limit: ReadLimit | None = None
) -> dict[str, object]:
    """Ask for the newest offset until there are so many rows."""
    deadline = time.monotonic() + PATIENCE
    while total(end := reader.latestOffset(start, limit or ReadAllAvailable())) != rows:
        assert time.monotonic() < deadline, end
    return end


def at(offset: dict[str, object], row: int) -> dict[str, object]:
    """An offset within the only shard of another."""
    found = checked(offset, QUEUE)
    (shard,) = found.rows
    return offset_of(QUEUE, replace(found, rows={shard: row}))


# What a query with one receiver reports when all is well and nothing waits.
QUIET = {"rowsWaiting": 0, "receivers": 1, "redelivered": 0, "copiesLeftOut": 0, "rowsLost": 0}


def metrics(reader: StompStreamReader, newest: dict[str, object]) -> dict[str, int]:
    """The metrics that a reader reports beside the newest offset; the age of what waits is only looked at."""
    reported = reader.reportLatestOffset()
    assert reported is not None
    found = cast("dict[str, int]", reported.pop("metrics"))
    assert reported == newest
    assert (found.pop("oldestWaitingMs") > 0) == (found["rowsWaiting"] > 0)
    return found


def segments(folder: Path) -> int:
    """How many segments are in the spool."""
    return len(list(folder.glob("spool/*/stream/segments/*/seg-*")))


def bodies(reader: StompStreamReader, start: dict[str, object], end: dict[str, object]) -> list[int]:
    travelled = pickle.loads(pickle.dumps(reader.partitions(start, end)))  # noqa: S301  # just pickled
    return [number for part in travelled for number in numbers_of(reader.read(part))]


# --- as Spark calls it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transport", "kind"), [("file", SegmentGroup), ("inline", InlineGroup)])
def test_rows_when_asked_for_again_then_the_same_also_by_another_process(
    threaded_broker: ThreadedBroker, make: MakeReader, transport: str, kind: type
) -> None:
    publish(threaded_broker, range(100))
    reader = make(spoolTransport=transport)
    start = reader.initialOffset()
    assert total(start) == 0
    end = until(reader, start, 100)
    assert bodies(reader, start, end) == list(range(100))
    assert bodies(reader, at(end, 30), at(end, 50)) == list(range(30, 50))
    assert all(isinstance(part, kind) for part in reader.partitions(start, end))
    reader.stop()

    again = make(spoolTransport=transport)
    assert bodies(again, start, end) == list(range(100))
    assert bodies(again, start, at(end, 0)) == []


def test_offset_when_there_is_a_limit_then_no_further(threaded_broker: ThreadedBroker, make: MakeReader) -> None:
    publish(threaded_broker, range(100))
    reader = make(maxOffsetsPerTrigger="30")
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    assert make().getDefaultReadLimit() == ReadAllAvailable()
    assert reader.reportLatestOffset() is None

    start = reader.initialOffset()
    end = until(reader, start, 100)

    assert reader.latestOffset(start, ReadMaxRows(30)) == at(end, 30)
    assert metrics(reader, end) == {**QUIET, "rowsWaiting": 70}
    assert reader.latestOffset(at(end, 90), ReadMaxRows(30)) == end
    assert metrics(reader, end) == QUIET


def test_offset_when_rows_are_too_few_then_a_batch_waits_for_more_or_until_the_delay_is_over(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, [0])
    reader = make(minOffsetsPerTrigger="11", maxTriggerDelayMs="3600000")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(11)
    # The first batch does not wait.
    end = until(reader, reader.initialOffset(), 1, limit)
    publish(threaded_broker, range(1, 11))
    while total(reader.reportLatestOffset() or end) < 11:
        assert reader.latestOffset(end, limit) == end
    assert reader.latestOffset(end, limit) == end
    # Trigger.Once takes what there is.
    assert total(reader.latestOffset(end, ReadAllAvailable())) == 11
    publish(threaded_broker, [11])
    end = until(reader, end, 12, limit)
    reader.stop()

    # Rows that wait longer than this are enough in any number.
    impatient = make(minOffsetsPerTrigger="11", maxTriggerDelayMs="1")
    publish(threaded_broker, [12])
    assert total(until(impatient, end, 13, limit)) == 13


def test_offset_when_the_spool_is_full_then_a_batch_does_not_wait_for_rows(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    few = {"segmentRows": "10", "prefetch": "10", "maxSpoolBytes": "10000"}
    reader = make(minOffsetsPerTrigger="100", maxTriggerDelayMs="3600000", **few)
    publish(threaded_broker, [0])
    first = until(reader, reader.initialOffset(), 1, reader.getDefaultReadLimit())
    publish(threaded_broker, range(1, 100))

    deadline = time.monotonic() + PATIENCE
    while (end := reader.latestOffset(first, reader.getDefaultReadLimit())) == first:
        assert time.monotonic() < deadline, reader.reportLatestOffset()

    assert 1 < total(end) < 100


def test_offset_when_limited_in_bytes_then_no_further(threaded_broker: ThreadedBroker, make: MakeReader) -> None:
    publish(threaded_broker, range(100))
    reader = make(maxBytesPerTrigger="1")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(1)

    end = until(reader, reader.initialOffset(), 1, limit)

    assert total(end) == 1
    assert total(reader.latestOffset(end, limit)) == 2
    assert total(until(reader, end, 100)) == 100


def test_offset_when_nothing_comes_then_the_old_one_after_a_while(make: MakeReader) -> None:
    reader = make(pollTimeoutMs="50")
    start = reader.initialOffset()

    assert reader.latestOffset(start, ReadAllAvailable()) == start


def test_available_now_when_the_destination_is_idle_then_there_is_an_end_and_no_more_is_taken(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, range(100))
    reader = make()
    reader.prepareForTriggerAvailableNow()

    offsets = [reader.initialOffset()]
    while (end := reader.latestOffset(offsets[-1], ReadMaxRows(40))) != offsets[-1]:
        offsets.append(end)

    assert total(offsets[-1]) == 100
    assert max(total(b) - total(a) for a, b in itertools.pairwise(offsets)) <= 40
    wait_until_disconnected(threaded_broker)
    publish(threaded_broker, [100])
    assert reader.latestOffset(offsets[-1], ReadAllAvailable()) == offsets[-1]
    assert left(threaded_broker) == 1


def test_available_now_when_messages_never_cease_then_it_ends_after_its_time(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    reader = make(availableNowTimeoutMs="3000", availableNowIdleMs="60000")
    reader.prepareForTriggerAvailableNow()
    publish(threaded_broker, range(10))
    last = reader.initialOffset()
    while (end := reader.latestOffset(last, ReadAllAvailable())) != last:
        last = end

    assert total(last) == 10


@pytest.mark.parametrize("options", [{"availableNowIdleMs": "0"}, {"availableNowTimeoutMs": "1"}])
def test_available_now_when_receivers_elsewhere_go_on_then_it_reads_what_the_spool_had_and_ends(
    make: MakeReader, options: dict[str, str]
) -> None:
    reader = make(receivers="0", **options)
    reader.prepareForTriggerAvailableNow()
    store = reader.options.intake.open_spool("stream")
    write(store, "a", 1, ["1", "2", "3"])
    start = reader.initialOffset()
    half = reader.latestOffset(start, ReadMaxRows(2))
    write(store, "a", 4, ["4"])
    write(store, "b", 1, ["5"])

    end = reader.latestOffset(half, ReadAllAvailable())

    assert (total(half), total(end)) == (2, 3)
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_segments_when_spark_is_done_with_them_then_deleted_by_the_next_question(
    threaded_broker: ThreadedBroker, make: MakeReader, tmp_path: Path
) -> None:
    publish(threaded_broker, range(100))
    reader = make(segmentRows="10", maxSpoolBytes="80000")
    end = until(reader, reader.initialOffset(), 100)
    assert segments(tmp_path) == 10

    reader.latestOffset(at(end, 75), ReadAllAvailable())
    assert segments(tmp_path) == 3


def stopped_after(reader: StompStreamReader, rows: int) -> dict[str, object]:
    """Read rows, stop the query, and return its checkpoint."""
    end = until(reader, reader.initialOffset(), rows)
    reader.latestOffset(end, ReadAllAvailable())
    reader.stop()
    return end


@pytest.mark.parametrize("is_made_again", [False, True])
def test_spool_when_it_is_gone_and_the_checkpoint_is_not_then_the_error_names_both_and_the_rows(
    threaded_broker: ThreadedBroker, make: MakeReader, tmp_path: Path, is_made_again: bool
) -> None:
    publish(threaded_broker, range(5))
    end = stopped_after(make(), 5)
    shutil.rmtree(tmp_path / "spool")
    if is_made_again:
        # A receiver elsewhere was faster.
        mark_spool(make().options.intake.open_spool("stream"), QUEUE)
    publish(threaded_broker, [5])
    (shard,) = checked(end, QUEUE).rows

    found = "it has the spool" if is_made_again else "no spool is there"
    said = rf"belongs to the spool {end['spool']} in .*, but {found}.*those after row 5 of shard {shard}\."
    with pytest.raises(DataLoss, match=said):
        make().latestOffset(end, ReadAllAvailable())
    with pytest.raises(DataLoss, match="failOnDataLoss=false"):
        make().partitions(end, end)
    assert left(threaded_broker) == 1
    assert (tmp_path / "spool").exists() == is_made_again


def test_spool_when_it_is_gone_and_the_user_says_so_then_new_rows_are_read(
    threaded_broker: ThreadedBroker, make: MakeReader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(threaded_broker, range(5))
    end = stopped_after(make(), 5)
    shutil.rmtree(tmp_path / "spool")
    publish(threaded_broker, range(5, 8))
    reader = make(failOnDataLoss="false")

    assert reader.partitions({**end, "rows": {}}, end) == []
    after = until(reader, end, 3)

    assert bodies(reader, end, after) == [5, 6, 7]
    assert "no spool is there" in caplog.text


def test_spool_when_it_is_deleted_while_the_query_runs_then_the_query_fails_or_goes_on_as_told(
    threaded_broker: ThreadedBroker, make: MakeReader, tmp_path: Path
) -> None:
    for fails in ("true", "false"):
        publish(threaded_broker, range(5))
        reader = make(failOnDataLoss=fails)
        end = until(reader, reader.initialOffset(), 5)
        wait_until_left(threaded_broker, 0)
        shutil.rmtree(tmp_path / "spool")
        if fails == "true":
            with pytest.raises(DataLoss, match="is gone while the query was running"):
                reader.latestOffset(end, ReadAllAvailable())
            reader.stop()
            shutil.rmtree(tmp_path / "spool", ignore_errors=True)
        else:
            assert reader.latestOffset(end, ReadAllAvailable()) == end
            publish(threaded_broker, [5])
            after = until(reader, end, 1)
            assert bodies(reader, end, after) == [5]


# --- where a query begins ---------------------------------------------------------------------------------------------


def test_query_when_told_where_to_start_then_it_begins_there(threaded_broker: ThreadedBroker, make: MakeReader) -> None:
    publish(threaded_broker, range(5))
    first = make()
    end = until(first, first.initialOffset(), 5)
    half = first.latestOffset(at(end, 2), ReadMaxRows(1))
    first.stop()

    def beginning(starting: str) -> dict[str, object]:
        reader = make(startingOffsets=starting)
        offset = reader.initialOffset()
        reader.stop()
        return offset

    assert half == at(end, 3)
    # Behind the rows that were processed.
    assert beginning("unread") == at(end, 2)
    assert beginning("earliest") == at(end, 0)
    assert beginning("latest") == end
    assert beginning(json.dumps(half)) == half
    with pytest.raises(DataLoss, match="it has the spool"):
        beginning(json.dumps({**half, "spool": "another"}))


def test_query_when_told_to_start_in_a_spool_that_is_gone_then_no_other_one_is_made_in_its_place(
    make: MakeReader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error advises to put it back, for which its place must be free."""
    begun = json.dumps(offset_of(QUEUE, Offset(spool="gone", rows={"a": 5})))

    with pytest.raises(
        DataLoss, match=r"startingOffsets belongs to the spool gone .* no spool is there.* give another"
    ):
        make(startingOffsets=begun).initialOffset()
    assert not (tmp_path / "spool").exists()

    reader = make(startingOffsets=begun, failOnDataLoss="false")
    assert reader.initialOffset()["rows"] == {}
    assert [each.getMessage().count("no spool is there") for each in caplog.records] == [1]
    reader.stop()


# --- two queries ------------------------------------------------------------------------------------------------------


def test_query_when_another_one_reads_the_spool_then_it_reads_nothing_and_the_error_names_the_other(
    threaded_broker: ThreadedBroker, make: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_PATIENCE_SECONDS", 0.0)
    publish(threaded_broker, range(5))
    first, second = make(), make()
    end = until(first, first.initialOffset(), 5)

    start = second.initialOffset()
    with pytest.raises(SpoolTaken, match=f"another query reads the spool .*: process {os.getpid()} on "):
        second.latestOffset(start, ReadAllAvailable())

    first.stop()
    assert make().latestOffset(end, ReadAllAvailable()) == end


def test_query_when_it_cannot_begin_then_it_gives_the_spool_back(
    make: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_PATIENCE_SECONDS", 0.0)
    first = make(receivers="0")
    store = first.options.intake.open_spool("stream")
    spool = mark_spool(store, QUEUE)
    store.put("progress.json", b"{}")
    with pytest.raises(SpoolDamaged):
        first.initialOffset()
    store.delete(["progress.json"])

    assert make(receivers="0").initialOffset()["spool"] == spool


def test_receivers_when_they_are_elsewhere_then_what_they_write_is_read(
    threaded_broker: ThreadedBroker, make: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That they are idle is in the status that they write.
    monkeypatch.setattr("trio_stomp.spark.receiver._BEAT_SECONDS", 0.1)
    publish(threaded_broker, range(50))
    reader = make(receivers="0")
    reader.prepareForTriggerAvailableNow()
    others = [
        ReceiverThread(ReceiverOptions(intake=reader.options.intake, use="stream", idle=0.1), Told(), failed)
        for failed in (Told().failed, Told().failed)
    ]
    wait_until_left(threaded_broker, 0)

    last = start = reader.initialOffset()
    while (end := reader.latestOffset(last, ReadAllAvailable())) != last:
        last = end

    assert sorted(bodies(reader, start, last)) == list(range(50))
    for each in others:
        each.stop()
        assert each.join(PATIENCE)


def test_receiver_when_it_fails_then_its_rows_come_first_and_then_its_words(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, range(5))
    reader = make(reconnectTimeoutMs="3000")
    start = reader.initialOffset()
    end = until(reader, start, 5)
    threaded_broker.call(Broker.stop_listening)
    threaded_broker.call(Broker.drop_connections)

    with pytest.raises(Exception, match="no connection after") as caught:
        while True:
            assert reader.latestOffset(end, ReadAllAvailable()) == end
    # Spark shows all of it to the user.
    assert len("".join(traceback.format_exception(caught.value))) < 2000
    assert reader.latestOffset(start, ReadAllAvailable()) == end


def test_metrics_when_the_spool_does_not_answer_then_left_out_and_the_query_goes_on(
    make: MakeReader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = make(receivers="0")
    write(reader.options.intake.open_spool("stream"), "a", 1, ["1", "2"])
    end = until(reader, reader.initialOffset(), 2)

    def silent(_store: SpoolStore, _shard: str) -> None:
        raise SpoolError("cannot read the status of a receiver")

    monkeypatch.setattr("trio_stomp.spark.planner.read_status", silent)

    assert reader.reportLatestOffset() == end
    assert "no metrics: cannot read the status of a receiver" in caplog.text


def test_reader_when_pickled_then_nothing_that_is_open_travels(make: MakeReader) -> None:
    reader = make()
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    again: StompStreamReader = pickle.loads(pickle.dumps(reader))  # noqa: S301  # what was pickled just now

    assert again.options == reader.options
    assert again.reportLatestOffset() is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"destination": "/queue/b", "rows": {}, "version": 1}, "the checkpoint is of '/queue/b', and the query reads"),
        ({"0": 12, "1": 13}, "was written by an earlier version of trio_stomp"),
        ({"destination": QUEUE, "rows": {}, "version": 1}, "was written by an earlier version of trio_stomp"),
        ({"destination": QUEUE, "rows": {}, "version": 3}, "is of another source, or of a newer version"),
        ({"destination": QUEUE, "version": 2}, "is of another source"),
        ({"partition-0": 3}, "is of another source"),
        ({}, "is of another source"),
    ],
)
def test_checkpoint_when_not_of_this_stream_then_refused(make: MakeReader, found: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make().latestOffset(found, ReadAllAvailable())


def test_process_when_sigterm_comes_then_it_leaves_in_order(
    threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    """Spark stops a source by two SIGTERM; the runner calls stop() on its way out."""
    options = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path)}
    script = f"""
import select, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_source import StompStreamReader
reader = StompStreamReader(StreamOptions.read({options!r}))
try:
    start = reader.initialOffset()
    while sum(reader.latestOffset(start, ReadAllAvailable())["rows"].values()) != 10:
        pass
    print("ready", flush=True)
    # Python misses a signal in the moment before a call that blocks, until that call returns. So none may be long.
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
finally:
    reader.stop()
    print("left", flush=True)
"""
    publish(threaded_broker, range(10))
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.read() == b"left\n"
    assert process.returncode == 0
    wait_until_disconnected(threaded_broker)


# --- in Spark ---------------------------------------------------------------------------------------------------------


class Stream:
    """A query from the queue into a table of numbers."""

    def __init__(self, spark: SparkSession, connection: dict[str, str], folder: Path) -> None:
        self.spark = spark
        self.connection = connection
        self.folder = folder

    def load(self, **given: str) -> DataFrame:
        needed = {"subscribe": QUEUE, "spoolLocation": str(self.folder / "spool"), "availableNowIdleMs": "500"}
        return self.spark.readStream.format("stomp").options(**{**self.connection, **needed, **given}).load()

    def start(self, *, available_now: bool = False, **given: str) -> StreamingQuery:
        numbers = self.load(**given).selectExpr("CAST(CAST(body AS STRING) AS INT) AS n", "seq")
        writing = numbers.writeStream.format("parquet").option("path", str(self.folder / "table"))
        writing = writing.option("checkpointLocation", str(self.folder / "checkpoint"))
        if available_now:
            writing = writing.trigger(availableNow=True)
        return writing.start()

    def run(self, **given: str) -> None:
        assert self.start(available_now=True, **given).awaitTermination(PATIENCE)

    def table(self) -> list[int]:
        if not (self.folder / "table" / "_spark_metadata").exists():
            return []
        found = self.spark.read.schema("n INT, seq LONG").parquet(str(self.folder / "table"))
        return sorted(row.n for row in found.collect())


@pytest.fixture
def stream(spark: SparkSession, connection: dict[str, str], tmp_path: Path) -> Stream:
    return Stream(spark, connection, tmp_path)


@pytest.mark.parametrize(
    ("limit", "batches"),
    [("maxBytesPerTrigger", [1] * 5), ("maxOffsetsPerTrigger", [1] * 5), ("minOffsetsPerTrigger", [5])],
)
def test_stream_when_batches_are_limited_then_trigger_once_takes_all_rows_in_one(
    stream: Stream, threaded_broker: ThreadedBroker, make: MakeReader, limit: str, batches: list[int]
) -> None:
    publish(threaded_broker, range(5))
    reader = make(spoolLocation=str(stream.folder / "spool"))
    until(reader, reader.initialOffset(), 5)
    reader.stop()
    options = {limit: "100" if limit.startswith("min") else "1", "receivers": "0"}

    def rows_of_batches(checkpoint: str, *, once: bool) -> list[int]:
        writing = stream.load(**options).writeStream.format("noop")
        writing = writing.option("checkpointLocation", str(stream.folder / checkpoint))
        query = (writing.trigger(once=True) if once else writing.trigger(availableNow=True)).start()
        assert query.awaitTermination(PATIENCE)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    assert rows_of_batches("once", once=True) == [5]
    # The spool has them still: they are deleted later, and many at a time.
    options["startingOffsets"] = "earliest"
    assert rows_of_batches("now", once=False) == batches


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxOffsetsPerTrigger": "150"},
        {"spoolTransport": "inline"},
        {"receivers": "2"},
        {"segmentFormat": "parquet", "includeHeaders": "true"},
    ],
    ids=["plain", "limited", "inline", "two receivers", "parquet"],
)
def test_stream_when_run_again_and_again_then_each_message_is_in_the_table_once(
    stream: Stream, threaded_broker: ThreadedBroker, options: dict[str, str]
) -> None:
    publish(threaded_broker, range(400))
    stream.run(**options)
    assert stream.table() == list(range(400))
    stream.run(**options)
    publish(threaded_broker, range(400, 500))
    stream.run(**options)

    assert stream.table() == list(range(500))
    assert left(threaded_broker) == 0


def test_stream_when_stopped_and_started_at_once_then_it_goes_on(
    stream: Stream, threaded_broker: ThreadedBroker
) -> None:
    publish(threaded_broker, range(100))
    query = stream.start()
    wait_until(query, lambda: len(stream.table()) == 100)
    query.stop()
    publish(threaded_broker, range(100, 200))
    query = stream.start()
    wait_until(query, lambda: len(stream.table()) == 200)
    query.stop()

    assert stream.table() == list(range(200))
    wait_until_left(threaded_broker, 0)
    wait_until_disconnected(threaded_broker)


def test_stream_when_the_spool_was_deleted_before_a_planned_batch_ran_then_it_fails_or_goes_on_as_told(
    stream: Stream, threaded_broker: ThreadedBroker
) -> None:
    publish(threaded_broker, range(10))
    stream.run()
    # As if the driver had died with the second batch planned, and the spool were gone with the machine.
    first = (stream.folder / "checkpoint" / "offsets" / "0").read_text("utf-8")
    (stream.folder / "checkpoint" / "offsets" / "1").write_text(first.replace(": 10}", ": 20}"))

    with pytest.raises(PySparkException, match="does not have the rows 11 to 20"):
        stream.run()
    publish(threaded_broker, range(30, 35))
    stream.run(failOnDataLoss="false")

    assert stream.table() == [*range(10), *range(30, 35)]


def test_progress_when_spark_reports_it_then_it_has_the_metrics_of_the_source(
    stream: Stream, threaded_broker: ThreadedBroker
) -> None:
    publish(threaded_broker, range(30))
    query = stream.start(available_now=True, maxOffsetsPerTrigger="10")
    assert query.awaitTermination(PATIENCE)

    sources = [json.loads(each.json)["sources"][0] for each in query.recentProgress]
    waiting = [each["latestOffset"]["metrics"]["rowsWaiting"] for each in sources if each["numInputRows"]]
    assert waiting == [20, 10, 0]
