"""Look at a spool and care for it: its receivers and rows, what is damaged, and what is not needed any more."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from trio_stomp.spark.intake_options import READS, STREAM
from trio_stomp.spark.lease import Lease, owner_of
from trio_stomp.spark.receiver_status import SILENT_SECONDS, ReceiverState, ReceiverStatus, read_status
from trio_stomp.spark.segments import Listing, Segment, complete_reads, describe_spool, list_spool, rows_in
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolError, SpoolLocation, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets, QueryProgress, read_progress

__all__ = ["CareReport", "DestinationStatus", "SpoolStatus", "care", "status"]
_ASIDE = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStatus:
    """The part of a spool that belongs to one destination.

    Attributes:
        destination: The destination.
        receivers: Its receivers, the newest first. Those that have ended are listed until their rows are read.
        rows: How many rows wait for a query, copies included. A query writes at most once a second what it has read.
        size: The size of these rows in bytes.
        lost: How many rows queries have found missing, and left out with ``failOnDataLoss=false``.
        read_at: When a query last wrote what it has read, in seconds since 1970; None if no query has.
        damaged: An error message for each truncated segment.
    """

    destination: str
    receivers: tuple[ReceiverStatus, ...]
    rows: int
    size: int
    lost: int
    read_at: float | None
    damaged: tuple[str, ...]

    @property
    def blocked(self) -> bool:
        """Whether a receiver has paused because the spool is full or cannot be written to."""
        return any(each.state in (ReceiverState.FULL, ReceiverState.BLOCKED) for each in self.receivers)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStatus:
    """The status of a spool.

    Attributes:
        location: Its location.
        destinations: Its destinations.
    """

    location: str
    destinations: tuple[DestinationStatus, ...]

    @property
    def rows(self) -> int:
        """How many rows wait for a query."""
        return sum(each.rows for each in self.destinations)

    @property
    def size(self) -> int:
        """The size of these rows in bytes."""
        return sum(each.size for each in self.destinations)

    @property
    def blocked(self) -> bool:
        """Whether a receiver has paused because the spool is full or cannot be written to."""
        return any(each.blocked for each in self.destinations)


def status(spool: str, settings: Mapping[str, str] | None = None) -> SpoolStatus:
    """Read the status of a spool, from any machine that can reach it. This changes nothing that stays.

    Whether a receiver is silent is decided by the clock of the store, for which a file is written and deleted. Where
    that is not allowed, the clock of this machine is used.

    Args:
        spool: The option ``spoolLocation``.
        settings: The option ``spoolOptions``.

    Returns:
        Its receivers, and the rows that wait for a query.

    Raises:
        OptionError: `spool` is not a valid location.
        SpoolError: The spool cannot be read.
    """
    location = SpoolLocation.of(spool, (settings or {}).items())
    stores = [location.open(folder, STREAM) for folder in location.open().folders()]
    found = [_status_of(store) for store in stores]
    return SpoolStatus(location=location.shown, destinations=tuple(each for each in found if each is not None))


def _progress(store: SpoolStore, spool: str) -> QueryProgress | None:
    """The progress of the query; None if there is none, or if it is damaged."""
    try:
        return read_progress(store, spool)
    except SpoolDamaged:
        return None


def _time_of(store: SpoolStore) -> float:
    try:
        return store.time()
    except SpoolError:
        return time.time()


def _status_of(store: SpoolStore) -> DestinationStatus | None:
    about = describe_spool(store)
    if about is None:
        return None
    # Before the listing, so that the listing is never older than the progress.
    progress = _progress(store, about.id)
    done: Offsets = {} if progress is None else progress.rows
    listing = list_spool(store)
    waiting = [
        (min(each.rows, each.last - done.get(shard, 0)), each)
        for shard, segments in listing.segments.items()
        for each in segments
        if each.last > done.get(shard, 0)
    ]
    shards = sorted(listing.statuses, reverse=True)
    now = _time_of(store) if shards else 0.0
    receivers = [
        _seen(each, now - listing.statuses[each.shard])
        for each in store.each(lambda shard: read_status(store, shard), shards)
        if each is not None
    ]
    return DestinationStatus(
        destination=about.destination,
        receivers=tuple(receivers),
        rows=sum(rows for rows, _ in waiting),
        size=sum(each.size * rows // each.rows for rows, each in waiting),
        lost=0 if progress is None else progress.lost,
        read_at=None if progress is None else progress.time,
        damaged=tuple(listing.damaged.values()),
    )


def _seen(status: ReceiverStatus, silent: float) -> ReceiverStatus:
    """Return the status, as `SILENT` if the receiver has not written it for a while."""
    if silent < SILENT_SECONDS or status.state in ReceiverState.over():
        return status
    return replace(status, state=ReceiverState.SILENT, rate=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CareReport:
    """What one part of a spool was found to have, and what was done about it.

    Attributes:
        destination: Where its messages come from.
        part: ``stream``, for streaming queries, or ``reads``, for batch reads.
        folder: Its folder.
        owner: The query that reads it; None if there is none.
        rows: How many rows it has.
        size: Their size in bytes.
        damaged: What is wrong with each damaged segment, by its name.
        set_aside: The names of those that were moved.
        halves: How many half-written files were deleted.
        reads: How many complete batch reads were deleted.
    """

    destination: str
    part: str
    folder: str
    owner: str | None
    rows: int
    size: int
    damaged: Mapping[str, str]
    set_aside: tuple[str, ...] = ()
    halves: int = 0
    reads: int = 0


def care(
    spool: str,
    settings: Mapping[str, str] | None = None,
    *,
    verify: bool = False,
    set_aside: bool = False,
    clean: bool = False,
    reads_older_than: float | None = None,
) -> Iterator[CareReport]:
    """Look at each part of a spool, and do what was asked for. Without that, nothing is changed.

    Args:
        spool: The option ``spoolLocation``.
        settings: The option ``spoolOptions``.
        verify: Read each segment, and not only look at its size.
        set_aside: Move damaged segments to the folder ``damaged``, where no query looks for them.
        clean: Delete half-written files of processes that have ended.
        reads_older_than: Delete complete batch reads whose last row is older than this number of seconds.

    Yields:
        A report for each part. Nothing is done with a part before the iteration has come to it.

    Raises:
        OptionError: `spool` is not a valid location.
        SpoolError: The spool cannot be used.
        SpoolTaken: A query reads a part of which segments are to be moved.
    """
    location = SpoolLocation.of(spool, (settings or {}).items())
    for folder in location.open().folders():
        for part in (STREAM, READS):
            store = location.open(folder, part)
            about = describe_spool(store)
            if about is None:
                continue
            listing = list_spool(store)
            damaged = dict(listing.damaged) | (_unreadable(store, listing) if verify else {})
            segments = [each for found in listing.segments.values() for each in found]
            yield CareReport(
                destination=about.destination,
                part=part,
                folder=store.folder,
                owner=owner_of(store, listing),
                rows=sum(each.rows for each in segments),
                size=sum(each.size for each in segments),
                damaged=damaged,
                set_aside=_set_aside(store, part, damaged) if set_aside and damaged else (),
                halves=store.remove_halves() if clean else 0,
                reads=_delete_reads(store, reads_older_than) if part == READS and reads_older_than is not None else 0,
            )


def _unreadable(store: SpoolStore, listing: Listing) -> dict[str, str]:
    """Read all segments; return what is wrong with those whose content is, by their names.

    Raises:
        SpoolError: The store does not give their content, which says nothing about it.
    """
    damaged: dict[str, str] = {}
    for segment in (each for found in listing.segments.values() for each in found):
        octets = store.get(segment.name)
        if octets is None:
            # Released by a query since the listing.
            continue
        try:
            rows = rows_in(octets, segment.form)
        except (OSError, pa.ArrowException, ValueError) as error:
            damaged[segment.name] = f"{store.path(segment.name)} of the spool is damaged: {error}"
        else:
            if rows != segment.rows:
                damaged[segment.name] = f"{store.path(segment.name)} has {rows} rows instead of {segment.rows}"
    return damaged


def _set_aside(store: SpoolStore, part: str, damaged: Mapping[str, str]) -> tuple[str, ...]:
    moved: list[str] = []
    with _owned(store, part):
        for name in damaged:
            octets = store.get(name)
            if octets is not None:
                store.put(f"{_ASIDE}/{name}", octets)
                store.delete([name])
                moved.append(name)
    return tuple(moved)


@contextmanager
def _owned(store: SpoolStore, part: str) -> Generator[None]:
    """Keep queries away meanwhile: they remember what they have listed."""
    if part != STREAM:
        yield
        return
    lease = Lease(store, patience=0)
    try:
        yield
    finally:
        lease.release()


def _delete_reads(store: SpoolStore, seconds: float) -> int:
    """Delete complete batch reads; return how many."""
    oldest = (store.time() - seconds) * 1000
    # Before the listing, so that it has all segments of these reads.
    complete = complete_reads(store)
    listing = list_spool(store)
    shared = [shard for shards in complete.values() for shard in shards]
    deleted = 0
    for name, shards in complete.items():
        segments = [each for shard in shards for each in listing.segments.get(shard, [])]
        is_old = bool(segments) and all(each.written < oldest for each in segments)
        # A shard that two reads have taken up is the rows of both.
        if not is_old or any(shared.count(shard) > 1 for shard in shards):
            continue
        store.delete(_names_of(segments, listing))
        # Last: without it, what is left of a read would be taken up by the next one.
        store.delete([name])
        for shard in shards:
            store.delete_empty_folder(f"segments/{shard}")
        deleted += 1
    return deleted


def _names_of(segments: list[Segment], listing: Listing) -> Iterator[str]:
    for each in segments:
        if each.drops_name in listing.drops:
            yield each.drops_name
        yield each.name
