"""The planner: which rows of the spool a batch consists of, and which of them are copies.

It sees all shards, so it can find copies, whichever receiver they came to. What it decides it writes down
beside the segment before an offset covers the segment, so a batch that is run again has the same rows:

1. list the spool; take the segments behind the last offset, in the order of their times;
2. write ``drops/<shard>/<first row>.json`` for each that has copies;
3. return the offset, which Spark logs;
4. when Spark is done with the batch: save the ids of its segments, and delete them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.query_progress import QueryProgress, write_progress
from trio_stomp.spark.receiver_status import SILENT_SECONDS, ReceiverState, ReceiverStatus, read_status
from trio_stomp.spark.recent_ids import RecentIds, Window
from trio_stomp.spark.segment_slices import SegmentSlice, cut, missing
from trio_stomp.spark.segments import Listing, Segment, list_spool, mark_spool, read_drops
from trio_stomp.spark.spool_store import SpoolError, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["DataLoss", "Planner", "SpoolTaken"]

logger: Final = logging.getLogger("trio_stomp.spark")

_QUERY: Final = "query.json"
# Each release writes an object of ids, so it waits until it is worth one.
_RELEASE_SEGMENTS: Final = 64
_RELEASE_SECONDS: Final = 30.0
_RELEASE_SHARE: Final = 8
_RELEASE_BYTES: Final = 16 * 1024**2
# A receiver that could not write its status gives up its shard long before this.
_RETIRED_SECONDS: Final = 3600.0
_PROGRESS_SECONDS: Final = 5.0


class DataLoss(RuntimeError):
    """Rows that were planned are not in the spool."""


class SpoolTaken(RuntimeError):
    """Another query reads this spool."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """A receiver whose status is some time old: when it was written, since when that is known, whether it is final."""

    changed: float
    since: float
    is_over: bool


class Planner:
    """Plans the batches of one query. Only one plans at a time: the one that was started last.

    Args:
        store: The spool.
        destination: Where its messages come from.
        window: How many ids to keep; None: copies are not looked for.
        max_bytes: How large the spool may become.
        fail_on_data_loss: Whether rows that are planned, and not in the spool, fail the query.

    Raises:
        SpoolError: The spool cannot be used.
    """

    def __init__(
        self, store: SpoolStore, *, destination: str, window: Window | None, max_bytes: int, fail_on_data_loss: bool
    ) -> None:
        self._store = store
        self._fail_on_data_loss = fail_on_data_loss
        self._release_bytes = min(_RELEASE_BYTES, max_bytes // _RELEASE_SHARE)
        self._ids = None if window is None else RecentIds(store, window)
        # Up to which row copies were looked for; None until an offset says what earlier processes have planned.
        self._planned: Offsets | None = None
        self._drops: dict[str, tuple[int, ...]] = {}
        # Receivers that have said nothing for a while.
        self._silent: dict[str, _Silence] = {}
        # Shards that are in the offset, but were not in the last listing; and since when.
        self._missed: dict[str, float] = {}
        self._told = QueryProgress(rows={}, time=0.0)
        # Spark asks for the end of a batch, for the newest rows and for the slices: one listing for all of them.
        self._listed: Listing | None = None
        self._token = uuid.uuid4().hex
        mark_spool(store, destination)
        store.put_json(_QUERY, {"token": self._token})

    # --- planning -----------------------------------------------------------------------------------------------------

    def first(self) -> Offsets:
        """Where a query begins that has no checkpoint yet: before the oldest rows that the spool still has."""
        return {shard: segments[0].first - 1 for shard, segments in self._list().segments.items()}

    def next(self, begun: Offsets, most: int | None) -> Offsets:
        """The end of the next batch.

        Args:
            begun: Where it begins. Spark is done with everything before.
            most: Maximum number of rows.

        Returns:
            Its end; the same offset if there are no rows.

        Raises:
            SpoolError: The spool cannot be used.
            SpoolTaken: Another query has been started with it.
        """
        listing = self._list_behind(begun)
        self._begin(begun, listing)
        self._release(begun, listing)
        self._retire(listing)
        self._tell(begun)
        end = dict(begun)
        room = most
        taken: list[Segment] = []
        for segment in _behind(begun, listing):
            if room is not None and room <= 0:
                break
            rows = segment.last - max(begun.get(segment.shard, 0), segment.first - 1)
            taken.append(segment)
            some = rows if room is None else min(rows, room)
            end[segment.shard] = segment.last - rows + some
            room = None if room is None else room - some
        self._plan(taken, listing)
        if end == begun:
            return begun
        return self._without_gone(end, listing)

    def _without_gone(self, end: Offsets, listing: Listing) -> Offsets:
        """Leave out shards that have neither rows nor a receiver and will never have any; so offsets stay small.

        A listing may leave out what is replaced meanwhile, so one listing without a shard proves nothing.
        """
        now = time.monotonic()
        here = {shard for shard in end if listing.segments.get(shard) or shard in listing.statuses}
        self._missed = {shard: self._missed.get(shard, now) for shard in end if shard not in here}
        gone = {shard for shard, since in self._missed.items() if now - since >= SILENT_SECONDS}
        if self._planned is not None:
            self._planned = {shard: row for shard, row in self._planned.items() if shard not in gone}
        return {shard: row for shard, row in end.items() if shard not in gone}

    def newest(self) -> Offsets:
        """The newest rows that there are."""
        listing = self._listed or self._list()
        return {shard: segments[-1].last for shard, segments in listing.segments.items() if segments}

    def slices(self, start: Offsets, end: Offsets) -> list[SegmentSlice]:
        """The rows after `start`, up to `end`, without copies; always the same.

        Raises:
            DataLoss: Some are not there.
            SpoolError: The spool cannot be read.
        """
        listing = self._listed
        if listing is None or _gaps(listing, start, end):
            listing = self._list()
        self._begin(end, listing)
        for shard, gaps in _gaps(listing, start, end).items():
            self._lost(shard, gaps)
        slices: list[SegmentSlice] = []
        for shard, last in sorted(end.items()):
            begun = start.get(shard, 0)
            for segment in listing.segments.get(shard, []):
                slices += cut(self._store, [segment], begun, last, self._drops_of(segment, listing))
        return slices

    def _list(self) -> Listing:
        listing = list_spool(self._store)
        for text in listing.damaged:
            if self._fail_on_data_loss:
                raise SpoolError(f"{text}. To continue without its rows, set failOnDataLoss=false")
            logger.warning("%s", text)
        self._listed = listing
        return listing

    def _list_behind(self, begun: Offsets) -> Listing:
        """List the spool, without gaps between the segments behind an offset unless rows are missing.

        A segment that is written while a large folder is listed may be left out, and a newer one may not. A second
        listing has all that are older than those of the first.
        """
        listing, newest = self._list(), self.newest()
        if not _gaps(listing, begun, newest):
            return listing
        listing = self._list()
        for shard, segments in listing.segments.items():
            listing.segments[shard] = [each for each in segments if each.last <= newest.get(shard, 0)]
        return listing

    def _begin(self, planned: Offsets, listing: Listing) -> None:
        """Take over what earlier processes have planned."""
        if self._planned is not None:
            return
        self._planned = dict(planned)
        if self._ids is not None:
            whole = [
                each
                for segments in listing.segments.values()
                for each in segments
                if each.first <= planned.get(each.shard, 0)
            ]
            self._ids.restore(listing.ids, sorted(whole, key=lambda each: each.time))

    def _plan(self, segments: Sequence[Segment], listing: Listing) -> None:
        """Look for copies in segments, in each once, and write down which there are."""
        planned = self._planned
        if self._ids is None or planned is None:
            return
        wanted = [each for each in segments if each.first > planned.get(each.shard, 0)]
        is_checked = False
        for segment, copies in zip(wanted, self._ids.copies_in(wanted), strict=True):
            if copies:
                logger.info("%d rows of %s are copies, and are left out", len(copies), segment.name)
            # A planner that died, or one with another checkpoint, may have decided in another order.
            if copies or segment.drops_name in listing.drops:
                if not is_checked:
                    # Of two planners that decide in another order, each would leave out the copy that the other keeps.
                    self._check_token()
                    is_checked = True
                self._store.put_json(segment.drops_name, copies)
            # Also that there are none: a planner that was replaced may still write that there are.
            self._drops[segment.drops_name] = tuple(copies)
            planned[segment.shard] = segment.last

    def _drops_of(self, segment: Segment, listing: Listing) -> tuple[int, ...]:
        name = segment.drops_name
        if name not in self._drops and name in listing.drops:
            self._drops[name] = read_drops(self._store, segment)
        return self._drops.get(name, ())

    def _lost(self, shard: str, gaps: Sequence[tuple[int, int]]) -> None:
        rows = ", ".join(f"{first} to {last}" for first, last in gaps)
        msg = (
            f"the spool {self._store.folder} does not have the rows {rows} of shard {shard}, which the checkpoint says "
            "are next: was it deleted, moved, or used by another query? Put it back, or continue without them with the "
            "option failOnDataLoss=false"
        )
        if self._fail_on_data_loss:
            raise DataLoss(msg)
        logger.warning("%s", msg)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def _release(self, end: Offsets, listing: Listing) -> None:
        """Delete segments whose rows Spark is done with, and what is left of receivers that are gone."""
        now = time.time()
        done = [each for shard, found in listing.segments.items() for each in found if each.last <= end.get(shard, 0)]
        is_old = any(each.time < (now - _RELEASE_SECONDS) * 1000 for each in done)
        is_worth_it = len(done) >= _RELEASE_SEGMENTS or sum(each.size for each in done) >= self._release_bytes
        if not done or not (is_worth_it or is_old):
            return
        self._check_token()
        if self._ids is not None:
            self._ids.save(done)
            self._ids.delete_outdated(listing.ids, now)
        # They go before their segments, or a crash in between would leave them behind.
        self._store.delete(each.drops_name for each in done if each.drops_name in listing.drops)
        self._store.delete(each.name for each in done)
        for each in done:
            self._drops.pop(each.drops_name, None)
            listing.segments[each.shard].remove(each)

    def _check_token(self) -> None:
        match self._store.get_json(_QUERY):
            case {"token": self._token}:
                return
            case _:
                raise SpoolTaken(
                    f"another query was started with the spool {self._store.folder}, and continues in place of this "
                    "one; give each query a spoolLocation of its own"
                )

    def _retire(self, listing: Listing) -> None:
        """Forget receivers that will write no more, and whose rows are all done.

        It takes two listings: a receiver may write its last segment between a listing and the moment at which its
        status is read. And a receiver is not taken for dead by a clock alone, because that of the spool may differ.
        """
        now, here = time.time(), time.monotonic()
        before, self._silent = self._silent, {}
        for shard, changed in list(listing.statuses.items()):
            if listing.segments.get(shard) or now - changed < SILENT_SECONDS:
                continue
            silence = before.get(shard)
            if silence is None or silence.changed != changed:
                status = read_status(self._store, shard)
                is_over = status is None or status.state in ReceiverState.over()
                self._silent[shard] = _Silence(changed, here, is_over)
            elif silence.is_over or (now - changed > _RETIRED_SECONDS and here - silence.since >= SILENT_SECONDS):
                # Otherwise each listing would come upon the folders of all receivers that there ever were.
                self._store.delete(name for name in listing.drops if name.startswith(f"drops/{shard}/"))
                for folder in (f"segments/{shard}", f"drops/{shard}"):
                    self._store.delete_empty_folder(folder)
                self._store.delete([f"status/{shard}.json"])
                del listing.statuses[shard]
                self._missed[shard] = -math.inf
            else:
                self._silent[shard] = silence

    # --- progress -----------------------------------------------------------------------------------------------------

    def _tell(self, done: Offsets) -> None:
        """Write down what Spark is done with, now and then: for people, so it may fail."""
        progress = QueryProgress(rows=done, time=time.time())
        if done != self._told.rows and progress.time - self._told.time >= _PROGRESS_SECONDS:
            self._told = progress
            with contextlib.suppress(SpoolError):
                write_progress(self._store, progress)

    # --- receivers ----------------------------------------------------------------------------------------------------

    def receivers(self) -> list[ReceiverStatus]:
        """Return the receivers that have written their status lately, and are not known to have ended."""
        now = time.time()
        found = self._list().statuses
        statuses = (read_status(self._store, shard) for shard, at in found.items() if now - at < SILENT_SECONDS)
        return [each for each in statuses if each is not None and not each.is_over()]


def _gaps(listing: Listing, start: Offsets, end: Offsets) -> dict[str, list[tuple[int, int]]]:
    """The rows between two offsets that no segment has, for each shard with such rows."""
    found = {
        shard: missing(listing.segments.get(shard, []), start.get(shard, 0), last)
        for shard, last in sorted(end.items())
    }
    return {shard: gaps for shard, gaps in found.items() if gaps}


def _behind(begun: Offsets, listing: Listing) -> Iterable[Segment]:
    """The segments with rows after an offset, the oldest first; those of a shard in its order."""
    ordered: list[tuple[int, Segment]] = []
    for shard, segments in listing.segments.items():
        at = 0
        for each in segments:
            # A clock may have been set back.
            at = max(at, each.time)
            if each.last > begun.get(shard, 0):
                ordered.append((at, each))
    return [each for _, each in sorted(ordered, key=lambda found: (found[0], found[1].shard, found[1].first))]
