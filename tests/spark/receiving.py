"""What the tests of the streaming source share: a queue of numbers, and looking at what became of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tests.spark.memory_store import MemoryStore
from trio_stomp.spark import ReceiverState, ReceiverStatus
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.planner import Planner
from trio_stomp.spark.receiver_status import read_status, write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segment_slices import rows_of
from trio_stomp.spark.segments import Segment, SegmentFormat, encoded, list_spool, open_batches
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore
from trio_stomp.testing import Broker, DropLink, ThreadedBroker

QUEUE = "/queue/a"
T_co = TypeVar("T_co", covariant=True)


class Makes(Protocol[T_co]):
    """Makes something, with the options that every test needs; others are given."""

    def __call__(self, **given: str) -> T_co: ...


def publish(broker: ThreadedBroker, numbers: Iterable[int]) -> None:
    """Put messages into the queue, whose bodies are these numbers, with ids."""
    broker.call(partial(_publish, numbers=list(numbers)))


def _publish(broker: Broker, *, numbers: list[int]) -> None:
    for number in numbers:
        broker.publish(QUEUE, str(number), [("dedup-id", f"id-{number}")])


def left(broker: ThreadedBroker) -> int:
    """How many messages the broker has still."""
    return broker.call(_left)


def _left(broker: Broker) -> int:
    return broker.depth(QUEUE) + broker.unacknowledged(QUEUE)


def wait_until_left(broker: ThreadedBroker, count: int) -> None:
    """Wait until the broker has so many messages."""
    broker.call(partial(_wait_until_left, count=count))


async def _wait_until_left(broker: Broker, *, count: int) -> None:
    await broker.wait_until(lambda: _left(broker) == count, timeout=60)


def wait_until_disconnected(broker: ThreadedBroker) -> None:
    """Wait until no client is connected."""
    broker.call(lambda inner: inner.wait_until(lambda: not inner.sessions, timeout=60))


def break_links(broker: ThreadedBroker, *octets: int) -> None:
    """Have the next links break, each after the broker has sent so much over it."""
    for each in octets:
        broker.call(partial(_break_after, octets=each))


def _break_after(broker: Broker, *, octets: int) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=octets))


def opened(folder: Path, *below: str) -> SpoolStore:
    """The store in a local folder, or below it."""
    return SpoolLocation.of(str(folder)).open(*below)


def planner_of(
    store: SpoolStore,
    *,
    destination: str = QUEUE,
    window: Window | None = None,
    max_bytes: int = 1 << 30,
    fails: bool = True,
    lease: Lease | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Planner:
    """A planner that looks for no copies, unless a window is given, and fails where rows are missing, unless told."""
    return Planner(
        store,
        destination=destination,
        window=window,
        max_bytes=max_bytes,
        fail_on_data_loss=fails,
        lease=lease,
        monotonic=monotonic,
    )


def segments_in(store: SpoolStore) -> list[Segment]:
    """The segments of all shards, in order."""
    found = [each for segments in list_spool(store).segments.values() for each in segments]
    return sorted(found, key=lambda each: (each.shard, each.first))


def numbers_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """The numbers in rows."""
    return [int(body) for batch in batches for body in batch.to_pydict()["body"]]


def bodies_of(store: SpoolStore, segment: Segment) -> list[int]:
    """The numbers in a segment."""
    return numbers_of(open_batches(store, store.path(segment.name), ["body"]))


def numbers_in(store: SpoolStore) -> list[int]:
    """The numbers in a spool, copies included."""
    return [number for each in segments_in(store) for number in bodies_of(store, each)]


def rows_in(store: SpoolStore, partition: InputPartition) -> list[int]:
    """The numbers in a part of a batch, as a task of Spark reads it."""
    return numbers_of(rows_of(SpoolLocation.of(store.folder), partition, ["body"]))


def statuses_in(store: SpoolStore) -> list[ReceiverStatus]:
    """What the receivers of a spool have said last."""
    found = (read_status(store, shard) for shard in list_spool(store).statuses)
    return [each for each in found if each is not None]


@cache
def identity_of_an_ended_process() -> str:
    """The identity of a process of this machine that has ended."""
    script = "from trio_stomp.spark.process_identity import process_identity; print(process_identity())"
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


def make_older(store: SpoolStore, name: str, seconds: float) -> None:
    """Have an object seem to have been written so much earlier."""
    path = Path(store.path(name))
    changed = path.stat().st_mtime - seconds
    os.utime(path, (changed, changed))


def segment_of(
    shard: str,
    first: int,
    ids: Sequence[str | None],
    *,
    redelivered: Sequence[int] = (),
    suspects: int | None = None,
    in_doubt: int = 0,
    time: int = 0,
    form: SegmentFormat = SegmentFormat.ARROW,
) -> tuple[Segment, bytes]:
    """Return a segment, whose bodies are the numbers of its rows, and its content.

    Args:
        shard: The shard.
        first: The number of its first row.
        ids: The ids of its rows.
        redelivered: The positions of rows that the broker has marked.
        suspects: How many rows are suspect; None: those that are marked.
        in_doubt: How many rows directly before it were not confirmed as acknowledged.
        time: When.
        form: How it is encoded.
    """
    columns = {
        "body": pa.array([str(first + each).encode() for each in range(len(ids))], pa.binary()),
        "stable_id": pa.array(ids, pa.string()),
        "redelivered": [each in redelivered for each in range(len(ids))],
    }
    octets = encoded(pa.record_batch(columns), form)
    made = Segment(
        shard=shard,
        first=first,
        rows=len(ids),
        suspects=len(redelivered) if suspects is None else suspects,
        in_doubt=in_doubt,
        size=octets.size,
        time=time or first,
        form=form,
    )
    return made, octets.to_pybytes()


def write(
    store: SpoolStore,
    shard: str,
    first: int,
    ids: Sequence[str | None],
    *,
    redelivered: Sequence[int] = (),
    suspects: int | None = None,
    in_doubt: int = 0,
    time: int = 0,
    form: SegmentFormat = SegmentFormat.ARROW,
) -> Segment:
    """Write a segment of `segment_of`, and the status of its receiver, which has confirmed ACKs.

    The clocks of the receiver and of the store agree.
    """
    made, octets = segment_of(
        shard, first, ids, redelivered=redelivered, suspects=suspects, in_doubt=in_doubt, time=time, form=form
    )
    store.put(made.name, octets)
    if isinstance(store, MemoryStore):
        store.found[made.name] = (octets, made.time / 1000)
    elif store.is_local:
        os.utime(store.path(made.name), (made.time / 1000, made.time / 1000))
    told = ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING, rows=made.last, confirmed=made.last)
    write_status(store, told)
    return made
