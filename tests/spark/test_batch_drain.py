"""The batch source without a session of Spark: what a read has, and what is left at the broker."""

from __future__ import annotations

import socket
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from tests.spark.receiving import (
    QUEUE,
    Makes,
    break_links,
    identity_of_an_ended_process,
    left,
    make_older,
    numbers_of,
    opened,
    publish,
    wait_until_left,
    write,
)
from trio_stomp.errors import StompError
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError
from trio_stomp.spark.batch_source import BatchOptions, StompBatchReader
from trio_stomp.spark.intake_options import READS, destination_folder
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.segment_slices import SegmentGroup, SegmentSlice, rows_of
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore
from trio_stomp.testing import Broker, SwallowReceipts, ThreadedBroker
from trio_stomp.types import Command

MakeReader = Makes[StompBatchReader]
Read = Makes[list[int]]


@pytest.fixture
def make(connection: dict[str, str], tmp_path: Path) -> MakeReader:
    def reader(**given: str) -> StompBatchReader:
        needed = {"subscribe": QUEUE, "spoolLocation": str(tmp_path), "idleTimeoutMs": "300"}
        return StompBatchReader(BatchOptions.read({**connection, **needed, "reconnectTimeoutMs": "5000", **given}))

    return reader


@pytest.fixture
def read(make: MakeReader) -> Read:
    """Reads what the destination has, as a DataFrame does."""

    def numbers(**given: str) -> list[int]:
        reader = make(**given)
        return rows(reader, reader.partitions())

    return numbers


def rows(reader: StompBatchReader, partitions: Sequence[InputPartition]) -> list[int]:
    return [number for part in partitions for number in numbers_of(reader.read(part))]


@pytest.fixture
def store(tmp_path: Path) -> SpoolStore:
    return opened(tmp_path, destination_folder(QUEUE), READS)


def made_incomplete(store: SpoolStore) -> str:
    """Have the only read seem to have died before it was complete; returns its shard."""
    (complete,) = store.objects("reads")
    store.delete([complete.name])
    return complete.name.removeprefix("reads/").removesuffix(".json")


def say_elsewhere(store: SpoolStore, shard: str, state: ReceiverState) -> None:
    write_status(store, ReceiverStatus(shard=shard, state=state, host="elsewhere", pid=1))


def test_read_when_the_destination_is_idle_then_all_of_it_is_there(threaded_broker: ThreadedBroker, read: Read) -> None:
    publish(threaded_broker, range(250))

    assert read(segmentRows="100") == list(range(250))
    assert left(threaded_broker) == 0


def test_read_when_there_is_nothing_then_no_rows(read: Read) -> None:
    assert read() == []


def test_read_when_it_has_enough_rows_then_the_rest_stays_at_the_broker(
    threaded_broker: ThreadedBroker, make: MakeReader, read: Read
) -> None:
    publish(threaded_broker, range(50))

    reader = make(maxRows="20", prefetch="8")
    first = reader.partitions()
    assert rows(reader, first) == list(range(20))
    assert left(threaded_broker) == 30

    assert read() == list(range(20, 50))
    assert rows(reader, first) == list(range(20))


def test_read_when_the_link_breaks_on_the_way_then_each_row_is_there_once(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, range(500))
    break_links(threaded_broker, 3000, 12_000)

    assert sorted(read(prefetch="50", idleTimeoutMs="1500")) == list(range(500))
    assert left(threaded_broker) == 0


def test_read_when_acks_are_lost_then_the_copies_are_dropped(threaded_broker: ThreadedBroker, read: Read) -> None:
    publish(threaded_broker, range(100))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))

    def cut() -> None:
        # With the RECEIPT of the first ACK swallowed, the read waits for it.
        threaded_broker.call(
            lambda inner: inner.wait_until(lambda: inner.statistics().received[Command.ACK] > 0, timeout=60)
        )
        threaded_broker.call(Broker.drop_connections)

    cutter = threading.Thread(target=cut)
    cutter.start()
    found = read(prefetch="20", idleTimeoutMs="1500")
    cutter.join()

    assert sorted(found) == list(range(100))


def test_read_when_the_one_before_died_then_its_rows_are_in_this_one_and_copies_are_dropped(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    publish(threaded_broker, range(30))
    read()
    # As if it had died behind the segment and before the ACK: the broker has all of them still.
    made_incomplete(store)
    publish(threaded_broker, range(40))

    assert read() == list(range(40))
    assert read() == []


@pytest.mark.parametrize(
    ("process", "ago", "is_dead"),
    [
        pytest.param("", 0, False, id="on a machine that does not tell"),
        pytest.param("0123456789ab-4194304-7", 0, False, id="in another container"),
        pytest.param("0123456789ab-4194304-7", 100, True, id="in another container, silent"),
        pytest.param("ended", 0, True, id="killed on this machine"),
    ],
)
def test_read_when_another_one_is_at_work_then_it_keeps_its_rows_unless_its_process_is_gone(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore, process: str, ago: float, is_dead: bool
) -> None:
    publish(threaded_broker, range(3))
    read()
    shard = made_incomplete(store)
    if process == "ended":
        process = identity_of_an_ended_process()
    here = ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, host=socket.gethostname(), process=process)
    write_status(store, here)
    make_older(store, f"status/{shard}.json", ago)

    assert read() == (list(range(3)) if is_dead else [])


def test_read_when_a_segment_is_truncated_then_it_says_which(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    publish(threaded_broker, range(3))
    read()
    (segment,) = store.objects("segments")
    Path(store.path(segment.name)).write_bytes(b"half")

    with pytest.raises(SpoolError, match=rf"{segment.name} .*has 4 bytes instead of \d+: it was truncated"):
        read()


def test_read_when_the_note_of_an_earlier_one_is_damaged_then_the_error_names_it(read: Read, store: SpoolStore) -> None:
    store.put("reads/x.json", b"nonsense")

    with pytest.raises(SpoolError, match=r"cannot read .*/reads/x.json of the spool"):
        read()


def test_read_when_it_fails_then_the_error_has_nothing_of_the_inside(make: MakeReader) -> None:
    with pytest.raises(StompError, match="are the options 'login' and 'password' right") as refused:
        make(password="hunter2").partitions()
    reader = make()
    with pytest.raises(SpoolError, match="cannot read /gone/segment") as gone:
        next(reader.read(SegmentGroup([SegmentSlice(path="/gone/segment", skip=0, rows=1)])))

    for caught in (refused, gone):
        # Spark shows all of it to the user.
        assert len("".join(traceback.format_exception(caught.value))) < 2000


@pytest.mark.parametrize(
    ("dedupe", "known"), [("auto", True), ("none", False), ("header:other", False), ("header:dedup-id", True)]
)
def test_dedupe_when_chosen_then_copies_of_what_was_read_before_are_known_by_that(
    threaded_broker: ThreadedBroker, read: Read, dedupe: str, known: bool
) -> None:
    publish(threaded_broker, range(30))
    read(dedupe=dedupe)
    publish(threaded_broker, range(25, 35))

    assert read(dedupe=dedupe) == list(range(30 if known else 25, 35))


@pytest.mark.parametrize("dedupe", ["auto", "header:dedup-id"])
def test_dedupe_when_the_ids_are_empty_then_no_message_is_a_copy(
    threaded_broker: ThreadedBroker, read: Read, dedupe: str
) -> None:
    for body in ("0", "1", "2"):
        threaded_broker.call(partial(Broker.publish, destination=QUEUE, body=body, headers=[("dedup-id", "")]))

    assert read(dedupe=dedupe) == [0, 1, 2]


def test_read_when_the_broker_is_gone_for_good_then_it_fails_and_keeps_what_it_has(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, range(10))

    def stop() -> None:
        wait_until_left(threaded_broker, 0)
        threaded_broker.call(Broker.stop_listening)
        threaded_broker.call(Broker.drop_connections)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(StompError):
        read(idleTimeoutMs="60000", reconnectTimeoutMs="500")
    stopper.join()
    threaded_broker.call(Broker.start_listening)
    publish(threaded_broker, [10])

    assert read() == list(range(11))


def test_copies_when_another_read_is_not_complete_then_each_row_is_in_one_of_them(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    """A read on another machine has died or still runs, and the broker has delivered its messages again."""
    publish(threaded_broker, range(10))
    read()
    shard = made_incomplete(store)
    say_elsewhere(store, shard, ReceiverState.RECEIVING)
    publish(threaded_broker, range(5, 15))

    second = read()
    say_elsewhere(store, shard, ReceiverState.FAILED)
    third = read()

    assert sorted(second + third) == list(range(15))


@pytest.mark.parametrize("first", ["a", "b"])
def test_copies_when_two_reads_end_one_after_the_other_then_the_older_row_is_kept(
    make: MakeReader, store: SpoolStore, first: str
) -> None:
    write(store, "a", 1, ["1", "2"], suspects=2, time=1 if first == "a" else 3)
    write(store, "b", 1, ["2", "3"], suspects=2, time=2)
    for shard in ("a", "b"):
        say_elsewhere(store, shard, ReceiverState.RECEIVING)

    def rows_after_the_end_of(shard: str) -> int:
        say_elsewhere(store, shard, ReceiverState.FAILED)
        # These segments lack most columns.
        found = (rows_of(SpoolLocation.of(store.folder), part, ["body"]) for part in make().partitions())
        return sum(batch.num_rows for batches in found for batch in batches)

    assert [rows_after_the_end_of(shard) for shard in ("a", "b")] == ([2, 1] if first == "a" else [1, 2])
