"""The status of a spool: its receivers, and the rows that wait for a query."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.query_progress import QueryProgress, read_progress
from trio_stomp.spark.receiver_status import SILENT_SECONDS, ReceiverState, ReceiverStatus, read_status
from trio_stomp.spark.segments import describe_spool, list_spool
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolError, SpoolLocation, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["DestinationStatus", "SpoolStatus", "status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStatus:
    """The part of a spool that belongs to one destination.

    Attributes:
        destination: The destination.
        receivers: Its receivers, the newest first. Those that have ended are listed until their rows are read.
        rows: How many rows wait for a query, copies included. A query writes every few seconds what it has read.
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
    return SpoolStatus(location=location.uri, destinations=tuple(each for each in found if each is not None))


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
