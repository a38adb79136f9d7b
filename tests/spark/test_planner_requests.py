"""What the planner asks of a spool for each batch: it grows no faster than the number of receivers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from tests.spark.memory_store import MemoryStore
from tests.spark.receiving import planner_of, write
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import list_spool
from trio_stomp.spark.spool_store import StoredObject
from trio_stomp.spark.stream_offsets import Offsets

BATCHES = 20


class CountingStore(MemoryStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[str]()

    def objects(self, below: str = "") -> list[StoredObject]:
        self.asked["listings"] += 1
        return super().objects(below)

    def get(self, name: str) -> bytes | None:
        self.asked[name] += 1
        return super().get(name)

    def open_file(self, path: str) -> pa.NativeFile:
        self.asked["reads"] += 1
        return super().open_file(path)

    def put(self, name: str, octets: bytes | pa.Buffer, *, durable: bool = True) -> None:
        self.asked["writes"] += 1
        super().put(name, octets, durable=durable)


def asked_by_the_planner(receivers: int, *, marks: bool) -> Counter[str]:
    """What it asks for all batches, each with one new segment of each receiver."""
    store = CountingStore()
    planner = planner_of(store, window=Window(rows=100_000, seconds=1e9))
    asked = Counter[str]()
    done: Offsets = {}
    for batch in range(BATCHES):
        for shard in range(receivers):
            ids = [f"{shard}-{batch}-{row}" for row in range(2)]
            write(store, f"shard-{shard:03}", 1 + 2 * batch, ids, suspects=0 if marks else len(ids))
        store.asked.clear()
        end = planner.next(done, None)
        planner.newest()
        planner.slices(done, end)
        planner.metrics(end)
        done = end
        asked += store.asked
    return asked


# Where the broker does not mark what it delivers again, the ids of all rows are read before the batch, too.
@pytest.mark.parametrize(("marks", "reads"), [(True, 1), (False, 2)])
def test_planner_when_there_are_more_receivers_then_one_listing_and_no_more_reads_for_each(
    marks: bool, reads: int
) -> None:
    for receivers in (16, 64):
        asked = asked_by_the_planner(receivers, marks=marks)

        # One more for the first batch, which also finds out what there ever was.
        assert asked["listings"] == BATCHES + 1
        assert asked["spool.json"] == 1
        assert 0 < asked["reads"] <= reads * receivers * BATCHES
        assert asked["writes"] <= 2 * BATCHES


def test_planner_when_a_batch_has_many_copies_then_it_looks_once_whether_another_query_has_the_spool() -> None:
    store = CountingStore()
    lease = Lease(store)
    planner = planner_of(store, window=Window(rows=100_000, seconds=1e9), lease=lease)
    for shard in range(20):
        write(store, f"shard-{shard:03}", 1, ["1"], suspects=1)
    planner.begin(planner.first())
    store.asked.clear()

    planner.next({}, None)
    lease.release()

    # One of the spool; then one of the leases alone, and one more when it is given back.
    assert store.asked["listings"] == 3
    assert len(list_spool(store).drops) == 19
