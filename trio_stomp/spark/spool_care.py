"""Care for a spool: find what is damaged, move it out of the way, and delete what is not needed any more."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from trio_stomp.spark.intake_options import READS, STREAM
from trio_stomp.spark.lease import Lease, owner_of
from trio_stomp.spark.segments import Listing, Segment, complete_reads, describe_spool, list_spool, rows_in
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore

__all__ = ["CareReport", "care"]

_ASIDE = "damaged"


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
