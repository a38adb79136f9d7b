"""What the source reads from its options. Which options it refuses is in test_data_source.py."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from trio_stomp.spark.batch_source import BatchOptions
from trio_stomp.spark.intake_options import Dedupe, destination_folder
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import SegmentFormat
from trio_stomp.spark.spool_store import SpoolLocation
from trio_stomp.spark.stream_offsets import Offset, offset_of
from trio_stomp.spark.stream_options import SpoolTransport, Start, StreamOptions

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def batch(**given: str) -> BatchOptions:
    return BatchOptions.read({**NEEDED, **given})


def stream(**given: str) -> StreamOptions:
    return StreamOptions.read({**NEEDED, **given})


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    read = batch()
    assert (read.max_rows, read.idle_timeout, read.max_partitions) == (None, 2.0, 8)

    options = stream()
    assert (options.receivers, options.max_rows, options.transport) == (1, None, SpoolTransport.FILE)
    assert (options.max_bytes, options.min_rows, options.max_delay) == (None, 1, 900.0)
    assert (options.min_partitions, options.max_partitions) == (1, 8)
    assert (options.poll_timeout, options.available_idle, options.available_timeout) == (0.2, 2.0, 300.0)
    assert options.fail_on_data_loss
    assert options.starting is Start.UNREAD

    intake = options.intake
    assert intake == read.intake
    assert (intake.destination, intake.spool) == ("/queue/a", SpoolLocation(uri="/data/spool"))
    assert (intake.prefetch, intake.segment_rows, intake.linger) == (2_000, 10_000, 0.005)
    assert (intake.max_spool_bytes, intake.spool_timeout) == (4 * 1024**3, 10)
    assert intake.dedupe == Dedupe(by_broker=True, window=Window(rows=500_000, seconds=3600))
    assert intake.segment_format is SegmentFormat.ARROW
    assert (intake.selector, intake.subscribe_headers) == (None, ())


def test_options_of_a_batch_when_given_then_read() -> None:
    read = batch(maxRows="1_000", idleTimeoutMs="500", maxPartitions="2")

    assert (read.max_rows, read.idle_timeout, read.max_partitions) == (1000, 0.5, 2)
    assert pickle.loads(pickle.dumps(read)) == read  # noqa: S301  # what was pickled here


def test_options_of_a_stream_when_given_then_read() -> None:
    options = stream(
        receivers="3",
        maxOffsetsPerTrigger="50_000",
        maxBytesPerTrigger="8m",
        minOffsetsPerTrigger="100",
        maxTriggerDelayMs="5000",
        minPartitions="2",
        maxPartitions="4",
        pollTimeoutMs="100",
        failOnDataLoss="FALSE",
        availableNowIdleMs="500",
        availableNowTimeoutMs="9000",
        startingOffsets="Earliest",
        spoolTransport="Inline",
    )

    assert (options.receivers, options.max_rows, options.transport) == (3, 50_000, SpoolTransport.INLINE)
    assert (options.max_bytes, options.min_rows, options.max_delay) == (8 * 1024**2, 100, 5.0)
    assert (options.min_partitions, options.max_partitions) == (2, 4)
    assert (options.poll_timeout, options.available_idle, options.available_timeout) == (0.1, 0.5, 9.0)
    assert not options.fail_on_data_loss
    assert options.starting is Start.EARLIEST
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled here


def test_options_when_zero_is_valid_then_read() -> None:
    assert stream(availableNowIdleMs="0").available_idle == 0
    assert stream(dedupeWindowMs="0").intake.dedupe.window.seconds == 0


def test_options_of_both_when_given_then_read() -> None:
    intake = batch(
        subscribeHeaders='{"x-priority": "5"}',
        selector=" a = 'b'",
        prefetch="20",
        segmentRows="30",
        lingerMs="40",
        dedupe="header:order-id",
        segmentFormat="parquet",
        dedupeWindowRows="5",
        dedupeWindowMs="6000",
        spoolTimeoutMs="7000",
    ).intake

    assert intake.subscribe_headers == (("x-priority", "5"),)
    assert intake.selector == " a = 'b'"
    assert (intake.prefetch, intake.segment_rows, intake.linger) == (20, 30, 0.04)
    assert intake.dedupe == Dedupe(by_broker=False, header="order-id", window=Window(rows=5, seconds=6))
    assert intake.dedupe.wanted == Window(rows=5, seconds=6)
    assert intake.segment_format is SegmentFormat.PARQUET
    assert intake.spool_timeout == 7


@pytest.mark.parametrize(
    ("value", "size"), [("1048576", 1048576), ("64m", 64 * 1024**2), ("2K", 2048), ("1GB", 1024**3), ("10b", 10)]
)
def test_bytes_when_they_have_a_unit_then_multiplied(value: str, size: int) -> None:
    assert stream(maxSpoolBytes=value).intake.max_spool_bytes == size


def test_start_when_given_as_spark_prints_an_offset_then_read() -> None:
    offset = Offset(spool="6f1c02aa97d3b184", rows={"b": 0, "a": 12}, retired=3)
    printed = json.dumps(offset_of("/queue/a", offset))

    assert stream(startingOffsets=printed).starting == offset
    # Spark compares offsets by their text.
    assert printed == json.dumps(offset_of("/queue/a", replace(offset, rows={"a": 12, "b": 0})))


def test_rows_when_they_travel_in_the_plan_then_a_batch_is_bounded_by_itself() -> None:
    assert stream(spoolTransport="inline").max_rows == 10_000


@pytest.mark.parametrize(("prefetch", "rows", "most"), [("20", "30", 20), ("30", "20", 20)])
def test_segment_when_full_then_it_has_no_more_than_the_broker_sends_ahead(prefetch: str, rows: str, most: int) -> None:
    assert batch(prefetch=prefetch, segmentRows=rows).intake.most == most


def test_folders_when_names_are_nearly_the_same_then_they_differ() -> None:
    folders = {destination_folder(name) for name in ("/queue/a b", "/queue/a-b", "/queue/a/b", "queue/a-b")}

    assert len(folders) == 4
    assert all(name.startswith("queue-a-b-") for name in folders)
    assert len(destination_folder("/queue/" + "x" * 1000)) < 255


def test_destinations_when_several_are_given_then_known_by_one_name_in_any_order() -> None:
    first, second = (batch(subscribe=each).intake for each in ('["/queue/b", "/queue/a"]', '["/queue/a", "/queue/b"]'))

    assert first.destinations == ("/queue/b", "/queue/a")
    assert first.destination == second.destination == '["/queue/a", "/queue/b"]'
    assert destination_folder(first.destination).startswith("queue-a-queue-b-")
    # One alone is as if it were not in an array.
    assert batch(subscribe='["/queue/a"]').intake.destination == "/queue/a"
