"""The batch source as Spark calls it: ``spark.read.format("stomp")``.

Spark asks for the partitions once for each ``load()``, when its first action is planned, and gives the same ones to
every action on the DataFrame and on what is derived from it. So that is when the destination is drained; the rows are
read from the spool from then on, as often as one likes.

Each read has its own shard. It is complete when ``reads/<shard>.json`` is written, which lists the shards of the read:
its own, and those of reads that died before they were complete. So no row is lost, and none is in two reads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, InputPartition

from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.intake_options import READS, IntakeOptions
from trio_stomp.spark.option_reader import OptionReader
from trio_stomp.spark.receiver import ReceiverOptions, receive
from trio_stomp.spark.receiver_status import read_status
from trio_stomp.spark.recent_ids import RecentIds
from trio_stomp.spark.segment_slices import SegmentGroup, SegmentSlice, cut, grouped, rows_of
from trio_stomp.spark.segments import Listing, Segment, complete_reads, list_spool, read_drops
from trio_stomp.spark.spool_store import SpoolError, SpoolStore

__all__ = ["BatchOptions", "StompBatchReader", "drain"]

logger: Final = logging.getLogger("trio_stomp.spark")

_IDLE_SECONDS: Final = 2.0
_MAX_PARTITIONS: Final = 8
# A read on another machine that has written no status for this time, by the clock of the store, is considered dead.
_SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of a batch read, as in the manual: durations in seconds, and None for no limit."""

    intake: IntakeOptions
    max_rows: int | None
    idle_timeout: float
    max_partitions: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> BatchOptions:
        """Read the options of ``spark.read``.

        Raises:
            OptionError: An option is missing, unknown or invalid.
        """
        reader = OptionReader(options)
        made = cls(
            intake=IntakeOptions.read(reader),
            max_rows=reader.whole_or_none("maxRows"),
            idle_timeout=reader.seconds("idleTimeoutMs", _IDLE_SECONDS),
            max_partitions=reader.whole("maxPartitions", _MAX_PARTITIONS),
        )
        reader.refuse_unknown("the STOMP batch source")
        return made


def drain(options: BatchOptions, now: Callable[[], float] = time.time) -> list[SegmentSlice]:
    """Take messages from the destination until it is idle, or until there are enough.

    Args:
        options: What to drain, and into which spool.
        now: The time, in seconds since 1970.

    Returns:
        The rows of this read, which stay in the spool.

    Raises:
        ConnectError: The broker cannot be reached. Rows already received are kept for the next read.
        ConnectionLost: The connection was lost for too long. Likewise.
        BrokerError: The broker refused the subscription or an ACK. Likewise.
        SpoolError: The spool cannot be used.
    """
    store = options.intake.open_spool(READS)
    left = _left_behind(store)
    rows_left = sum(each.rows for each in left)
    drained = _Drained()
    told = ReceiverOptions(
        intake=options.intake,
        use=READS,
        idle=options.idle_timeout,
        max_rows=None if options.max_rows is None else max(0, options.max_rows - rows_left),
    )
    anyio.run(drained.run, told, now, backend="trio")
    # Before the listing, so that the listing has what each of these reads has left out.
    complete = _complete(store)
    listing = _whole(list_spool(store))
    # Another read may have taken them up, too.
    left = [each for each in left if each.shard not in complete]
    segments = [*left, *listing.segments.get(drained.shard, [])]
    slices = _without_copies(options, store, listing, complete, segments)
    shards = sorted({drained.shard, *(each.shard for each in segments)})
    if segments:
        store.put_json(f"reads/{drained.shard}.json", {"shards": shards})
    store.delete(f"status/{shard}.json" for shard in shards)
    return slices


class _Drained:
    """One read in progress."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self.shard = ""

    async def run(self, options: ReceiverOptions, now: Callable[[], float]) -> None:
        """Receive until the destination is idle or there are enough rows."""
        with anyio.CancelScope() as self._scope:
            await receive(options, self, now)

    def wrote(self, shard: str, _last: int, /) -> None:
        """Note the name of the shard."""
        self.shard = shard

    def idle(self) -> None:
        """End the read."""
        if self._scope is not None:
            self._scope.cancel()


def _whole(listing: Listing) -> Listing:
    for text in listing.damaged.values():
        raise SpoolError(text)
    return listing


def _complete(store: SpoolStore) -> set[str]:
    return {shard for shards in complete_reads(store).values() for shard in shards}


def _left_behind(store: SpoolStore) -> list[Segment]:
    """Return the segments of reads that died before they were complete."""
    listing = _whole(list_spool(store))
    complete = _complete(store)
    left: list[Segment] = []
    open_reads = {shard: found for shard, found in sorted(listing.segments.items()) if shard not in complete}
    # Clocks of machines differ, so the store is asked.
    oldest = store.time() - _SILENT_SECONDS if open_reads else 0.0
    for shard, segments in open_reads.items():
        if _is_dead(store, shard) or listing.statuses.get(shard, 0) < oldest:
            logger.warning("%s: taking up a read that was not completed, with %d rows", shard, segments[-1].last)
            left += segments
    return left


def _is_dead(store: SpoolStore, shard: str) -> bool:
    status = read_status(store, shard)
    return status is None or status.is_over()


def _without_copies(
    options: BatchOptions, store: SpoolStore, listing: Listing, complete: set[str], segments: list[Segment]
) -> list[SegmentSlice]:
    """Return all rows of segments, except copies of rows in these or other reads.

    Each read decides for itself, and no row may be left out by all of them. So the rows that a complete read has kept
    come first, and of rows in reads that are not complete yet, the older one.
    """
    copies = dict[str, list[int]]()
    window = options.intake.dedupe.wanted
    if window is not None:
        everything = sorted((each for found in listing.segments.values() for each in found), key=_age)
        done = [each for each in everything if each.shard in complete]
        left_out = {each.name: read_drops(store, each) for each in done if each.drops_name in listing.drops}
        ids = RecentIds(store, window, listing.is_in_doubt)
        ids.restore([], done, left_out)
        copies = {each.name: ids.copies(each) for each in everything if each.shard not in complete}
    slices: list[SegmentSlice] = []
    for each in segments:
        own = copies.get(each.name, [])
        # A read that died may have decided otherwise.
        if own or each.drops_name in listing.drops:
            store.put_json(each.drops_name, own)
        slices += cut(store, [each], 0, each.last, tuple(own))
    return slices


def _age(segment: Segment) -> tuple[int, str, int]:
    # It never changes, whatever else is written meanwhile: of two reads in another order, each would leave out the row
    # that the other keeps.
    return segment.written, segment.shard, segment.first


class StompBatchReader(DataSourceReader):
    """Drains a destination, and reads what was drained."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options

    @ConciseErrors()
    def partitions(self) -> list[InputPartition]:
        """Drain the destination; the groups of segments that came of it."""
        slices = drain(self.options)
        groups: list[InputPartition] = [SegmentGroup(group) for group in grouped(slices, self.options.max_partitions)]
        # With no partition at all Spark would make up one.
        return groups or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group of segments."""
        with ConciseErrors():
            yield from rows_of(self.options.intake.spool, partition, self.options.intake.columns.arrow_schema().names)
