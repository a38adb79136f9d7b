"""The streaming source as PySpark 4.0 and 4.1 call it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.receiving import QUEUE, Makes, numbers_of, publish
from trio_stomp.spark.planner import DataLoss
from trio_stomp.spark.stream_offsets import checked, offset_of
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_source import StompStreamReader, WithoutAdmissionControl
from trio_stomp.testing import ThreadedBroker

PATIENCE = 60
MakeReader = Makes[WithoutAdmissionControl]
Offset = dict[str, object]


@pytest.fixture
def make(connection: dict[str, str], tmp_path: Path) -> Generator[MakeReader]:
    readers: list[WithoutAdmissionControl] = []

    def reader(**given: str) -> WithoutAdmissionControl:
        needed = {"subscribe": QUEUE, "spoolLocation": str(tmp_path / "spool"), "maxOffsetsPerTrigger": "40"}
        made = WithoutAdmissionControl(StompStreamReader(StreamOptions.read({**connection, **needed, **given})))
        readers.append(pickle.loads(pickle.dumps(made)))  # noqa: S301  # just pickled
        return readers[-1]

    yield reader
    for each in readers:
        each.stop()


def rows(reader: WithoutAdmissionControl, start: Offset, end: Offset) -> list[int]:
    return [number for part in reader.partitions(start, end) for number in numbers_of(reader.read(part))]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def read_all(reader: WithoutAdmissionControl, start: Offset, count: int) -> tuple[list[list[int]], Offset]:
    """Run batches until there were so many rows."""
    found: list[list[int]] = []
    deadline = time.monotonic() + PATIENCE
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, found
        end = reader.latestOffset()
        if end != start:
            found.append(rows(reader, start, end))
            reader.commit(start)
            start = end
    return found, start


def test_reader_when_started_again_then_each_row_is_in_one_batch_and_only_the_first_has_no_limit(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, range(100))
    first = make()
    batches, end = read_all(first, first.initialOffset(), 100)
    assert flat(batches) == list(range(100))
    assert max(map(len, batches[1:]), default=0) <= 40
    first.stop()

    publish(threaded_broker, range(100, 200))
    again, end = read_all(make(), end, 100)
    assert flat(again) == list(range(100, 200))
    assert max(map(len, again[1:]), default=0) <= 40


def test_reader_when_a_batch_was_planned_before_a_restart_then_it_has_the_same_rows_and_the_next_one_follows(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, range(30))
    first = make()
    start = first.initialOffset()
    batches, end = read_all(first, start, 30)
    first.stop()

    publish(threaded_broker, range(30, 60))
    again = make()
    assert rows(again, start, end) == flat(batches)
    assert flat(read_all(again, end, 30)[0]) == list(range(30, 60))


def test_reader_when_batches_wait_for_rows_or_have_few_bytes_then_the_first_does_not_go_back_behind_the_checkpoint(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    publish(threaded_broker, range(30))
    first = make()
    _, end = read_all(first, first.initialOffset(), 30)
    first.stop()

    again = make(minOffsetsPerTrigger="40", maxBytesPerTrigger="1")
    assert again.latestOffset() == end
    publish(threaded_broker, range(30, 70))
    assert read_all(again, end, 1)[0] == [[30]]


def test_reader_when_the_spool_is_older_than_the_checkpoint_then_the_batch_that_says_so_fails(
    threaded_broker: ThreadedBroker, make: MakeReader
) -> None:
    """It opened the spool without knowing where it begins: that is first said when a batch is run."""
    publish(threaded_broker, range(5))
    first = make()
    _, end = read_all(first, first.initialOffset(), 5)
    first.stop()
    found = checked(end, QUEUE)
    ahead = offset_of(QUEUE, replace(found, rows=dict.fromkeys(found.rows, 9)))

    again = make()
    again.initialOffset()
    with pytest.raises(DataLoss, match="does not have the rows 6 to 9"):
        again.partitions(ahead, ahead)
