"""Draining, without Spark: what is in the spool, and what is left at the broker."""

import os
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.spark.receiving import identity_of_an_ended_process, write
from trio_stomp.errors import StompError
from trio_stomp.spark.batch_source import BatchOptions, drain
from trio_stomp.spark.receiver_status import ReceiverState, ReceiverStatus, write_status
from trio_stomp.spark.segment_slices import SegmentGroup, SegmentSlice, rows_of
from trio_stomp.spark.spool_store import SpoolError, SpoolLocation, SpoolStore
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, ThreadedBroker
from trio_stomp.types import Command

QUEUE = "/queue/a"


class Read(Protocol):
    """Reads options, those that every test needs among them."""

    def __call__(self, **given: str) -> BatchOptions: ...


@pytest.fixture
def read(threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path) -> Read:
    def options(**given: str) -> BatchOptions:
        needed = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path), "idleTimeoutMs": "300"}
        return BatchOptions.read({**needed, "reconnectTimeoutMs": "5000", **given})

    return options


def publish(broker: ThreadedBroker, *numbers: int) -> None:
    for number in numbers:
        body, headers = str(number).encode(), [("dedup-id", f"id-{number}")]
        broker.call(partial(put, body=body, headers=headers))


def put(broker: Broker, *, body: bytes, headers: list[tuple[str, str]]) -> None:
    broker.publish(QUEUE, body, headers)


@pytest.fixture
def store(read: Read) -> SpoolStore:
    return read().intake.open_spool("reads")


def spooled(slices: list[SegmentSlice]) -> list[int]:
    batches = rows_of(SpoolLocation.of("/"), SegmentGroup(slices), ["body"])
    return [int(body) for batch in batches for body in batch.to_pydict()["body"]]


def left(broker: ThreadedBroker) -> int:
    return broker.call(lambda inner: inner.depth(QUEUE) + inner.unacknowledged(QUEUE))


def test_drain_when_the_destination_is_idle_then_all_of_it_is_in_the_spool(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, *range(250))

    segments = drain(read(segmentRows="100"), now=lambda: 5.0)

    assert spooled(segments) == list(range(250))
    assert [each.rows for each in segments] == [100, 100, 50]
    assert left(threaded_broker) == 0


def test_drain_when_there_is_nothing_then_nothing_is_in_the_spool(read: Read) -> None:
    assert drain(read()) == []


def test_drain_when_it_has_enough_rows_then_the_rest_stays_at_the_broker(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, *range(50))

    first = drain(read(maxRows="20", prefetch="8"))
    assert spooled(first) == list(range(20))
    assert left(threaded_broker) == 30

    assert spooled(drain(read())) == list(range(20, 50))
    assert spooled(first) == list(range(20))


def test_drain_when_the_link_breaks_on_the_way_then_each_row_is_there_once(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, *range(500))
    for octets in (3000, 12000):
        threaded_broker.call(partial(break_after, octets=octets))

    segments = drain(read(prefetch="50", idleTimeoutMs="1500"))

    assert sorted(spooled(segments)) == list(range(500))
    assert left(threaded_broker) == 0


def break_after(broker: Broker, *, octets: int) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=octets))


def test_drain_when_acks_are_lost_then_the_copies_are_dropped(threaded_broker: ThreadedBroker, read: Read) -> None:
    publish(threaded_broker, *range(100))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))

    def cut() -> None:
        # With the RECEIPT of the first ACK swallowed, the drain waits for it.
        threaded_broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().received[Command.ACK] > 0))
        threaded_broker.call(Broker.drop_connections)

    cutter = threading.Thread(target=cut)
    cutter.start()
    segments = drain(read(prefetch="20", idleTimeoutMs="1500"))
    cutter.join()

    assert sorted(spooled(segments)) == list(range(100))


def test_drain_when_the_one_before_died_then_its_rows_are_in_this_one_and_copies_are_dropped(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    publish(threaded_broker, *range(30))
    drain(read())
    # As if it had died behind the segment and before the ACK: the broker has all of them still.
    store.delete([each.name for each in store.objects("reads")])
    publish(threaded_broker, *range(40))

    again = drain(read())

    assert spooled(again) == list(range(40))
    assert spooled(drain(read())) == []


@pytest.mark.parametrize(
    ("process", "ago", "is_dead"),
    [
        pytest.param("", 0, False, id="on a machine that does not tell"),
        pytest.param("0123456789ab-4194304-7", 0, False, id="in another container"),
        pytest.param("0123456789ab-4194304-7", 100, True, id="in another container, silent"),
        pytest.param("ended", 0, True, id="killed on this machine"),
    ],
)
def test_drain_when_another_one_is_at_work_then_it_keeps_its_rows_unless_its_process_is_gone(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore, process: str, ago: float, is_dead: bool
) -> None:
    publish(threaded_broker, *range(3))
    drain(read())
    (complete,) = store.objects("reads")
    shard = complete.name.removeprefix("reads/").removesuffix(".json")
    store.delete([complete.name])
    if process == "ended":
        process = identity_of_an_ended_process()
    here = ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, host=socket.gethostname(), process=process)
    write_status(store, here)
    path = store.path(f"status/{shard}.json")
    changed = Path(path).stat().st_mtime - ago
    os.utime(path, (changed, changed))

    assert spooled(drain(read())) == (list(range(3)) if is_dead else [])


def test_drain_when_a_segment_is_truncated_then_it_says_which(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    publish(threaded_broker, *range(3))
    (only,) = drain(read())
    Path(only.path).write_bytes(b"half")

    with pytest.raises(SpoolError, match=r"has 4 bytes instead of \d+: it was truncated"):
        drain(read())


def test_drain_when_the_note_of_an_earlier_read_is_damaged_then_the_error_names_it(
    read: Read, store: SpoolStore
) -> None:
    store.put("reads/x.json", b"nonsense")

    with pytest.raises(SpoolError, match=r"cannot read .*/reads/x.json of the spool"):
        drain(read())


def test_drain_when_the_last_ack_of_the_one_before_was_lost_then_its_copies_are_dropped(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, *range(30))
    drain(read())
    publish(threaded_broker, *range(25, 35))

    assert spooled(drain(read())) == list(range(30, 35))


@pytest.mark.parametrize(
    ("dedupe", "again"), [("none", list(range(30))), ("header:other", list(range(30))), ("header:dedup-id", [])]
)
def test_dedupe_when_chosen_then_copies_are_known_by_that(
    threaded_broker: ThreadedBroker, read: Read, dedupe: str, again: list[int]
) -> None:
    publish(threaded_broker, *range(30))
    drain(read(dedupe=dedupe))
    publish(threaded_broker, *range(30))

    assert spooled(drain(read(dedupe=dedupe))) == again


@pytest.mark.parametrize("dedupe", ["auto", "header:dedup-id"])
def test_dedupe_when_the_ids_are_empty_then_no_message_is_a_copy(
    threaded_broker: ThreadedBroker, read: Read, dedupe: str
) -> None:
    for number in range(3):
        threaded_broker.call(partial(put, body=str(number).encode(), headers=[("dedup-id", "")]))

    assert spooled(drain(read(dedupe=dedupe))) == list(range(3))


def test_drain_when_the_broker_is_gone_for_good_then_it_fails_and_keeps_what_it_has(
    threaded_broker: ThreadedBroker, read: Read
) -> None:
    publish(threaded_broker, *range(10))

    def stop() -> None:
        threaded_broker.call(lambda inner: inner.wait_until(lambda: left_at(inner) == 0))
        threaded_broker.call(Broker.stop_listening)
        threaded_broker.call(Broker.drop_connections)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(StompError):
        drain(read(idleTimeoutMs="60000", reconnectTimeoutMs="500"))
    stopper.join()
    threaded_broker.call(Broker.start_listening)
    publish(threaded_broker, 10)

    assert spooled(drain(read())) == list(range(11))


def test_copies_when_another_read_is_not_complete_then_each_row_is_in_one_of_them(
    threaded_broker: ThreadedBroker, read: Read, store: SpoolStore
) -> None:
    """A read on another machine has died or still runs, and the broker has delivered its messages again."""
    publish(threaded_broker, *range(10))
    drain(read())
    (complete,) = store.objects("reads")
    shard = complete.name.removeprefix("reads/").removesuffix(".json")
    store.delete([complete.name])
    write_status(store, ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, host="elsewhere", pid=1))
    publish(threaded_broker, *range(5, 15))

    second = spooled(drain(read()))
    write_status(store, ReceiverStatus(shard=shard, state=ReceiverState.FAILED, host="elsewhere", pid=1))
    third = spooled(drain(read()))

    assert sorted(second + third) == list(range(15))


@pytest.mark.parametrize("first", ["a", "b"])
def test_copies_when_two_reads_end_one_after_the_other_then_the_older_row_is_kept(
    read: Read, store: SpoolStore, first: str
) -> None:
    write(store, "a", 1, ["1", "2"], suspects=2, time=1 if first == "a" else 3)
    write(store, "b", 1, ["2", "3"], suspects=2, time=2)
    for shard in ("a", "b"):
        write_status(store, ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, host="elsewhere", pid=1))

    def ended(shard: str) -> list[int]:
        write_status(store, ReceiverStatus(shard=shard, state=ReceiverState.FAILED, host="elsewhere", pid=1))
        return spooled(drain(read()))

    assert [len(ended(shard)) for shard in ("a", "b")] == ([2, 1] if first == "a" else [1, 2])


def left_at(broker: Broker) -> int:
    return broker.depth(QUEUE) + broker.unacknowledged(QUEUE)
