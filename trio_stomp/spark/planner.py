"""The planner: which rows of the spool a batch consists of, and which of them are copies.

It sees all shards, so it can find copies, whichever receiver they came to. What it decides it writes down
beside the segment before an offset covers the segment, so a batch that is run again has the same rows:

1. list the spool; take the segments behind the last offset, in the order of their times;
2. write ``drops/<shard>/<first row>.json`` for each that has copies;
3. return the offset, which Spark logs;
4. when Spark is done with the batch: write down that it is, save the ids of its segments, and delete them.

What an offset promises is compared with what the spool holds: at the start with all that the spool says about itself,
and before each batch with what this planner has seen. Every row behind the offset that is known to exist, from a
segment, from the status of its receiver or from the progress of the query, must be there.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from trio_stomp.spark.lease import Lease, SpoolTaken
from trio_stomp.spark.receiver_status import SILENT_SECONDS, ReceiverStatus, StatusWatch, read_status
from trio_stomp.spark.recent_ids import RecentIds, Window
from trio_stomp.spark.segment_slices import SegmentSlice, cut, missing
from trio_stomp.spark.segments import Listing, Segment, find_spool, list_spool, mark_spool, read_drops
from trio_stomp.spark.spool_store import SpoolError, SpoolFull, SpoolStore, StoreClock
from trio_stomp.spark.stream_offsets import KEPT_SHARDS, Offset, Offsets, QueryProgress, read_progress, write_progress

__all__ = ["DataLoss", "Planner", "SpoolReplaced", "refuse_other_spool"]

logger: Final = logging.getLogger("trio_stomp.spark")

# Each release writes an object of ids, so it waits until it is worth one.
_RELEASE_SEGMENTS: Final = 64
_RELEASE_SECONDS: Final = 30.0
_RELEASE_SHARE: Final = 8
_RELEASE_BYTES: Final = 16 * 1024**2
# A receiver that could not write its status gives up its shard long before this.
_RETIRED_SECONDS: Final = 3600.0
# A query without a checkpoint begins behind what was written down, so this is what it may repeat after a crash.
_PROGRESS_SECONDS: Final = 1.0
# Each status of a receiver is an object to read.
_STATUS_SECONDS: Final = 1.0
# An error does not name more shards than this.
_NAMED: Final = 5

_ADVICE: Final = (
    "Put back the spool that belongs to this checkpoint, or the checkpoint that belongs to this spool; or continue "
    "without these rows with the option failOnDataLoss=false"
)
_ADVICE_FOR_OPTION: Final = (
    "Put back that spool, or give another startingOffsets; or begin with the oldest rows that are there with the "
    "option failOnDataLoss=false"
)


class DataLoss(RuntimeError):
    """Rows that the checkpoint or the spool itself promises are not in the spool."""


class SpoolReplaced(DataLoss):
    """The spool is not the one that the checkpoint belongs to."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Rows of a shard that are missing. Without a last one, it is not known how many there were."""

    shard: str
    first: int
    last: int | None

    @property
    def rows(self) -> int:
        return 0 if self.last is None else self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class _Silence:
    """A receiver whose status is some time old: when it was written, since when that is known, whether it is final."""

    changed: float
    since: float
    is_over: bool


class Planner:
    """Plans the batches of one query.

    Methods that list the spool raise `SpoolError` if it cannot be used, `SpoolTaken` if another query reads it,
    `SpoolReplaced` if it is not the same one any more, and `DataLoss` if rows behind an offset are missing.

    Args:
        store: The spool. If there is none, it is made.
        destination: Where its messages come from.
        window: How many ids to keep; None: copies are not looked for.
        max_bytes: How large the spool may become.
        fail_on_data_loss: Whether missing rows fail the query.
        lease: The right to read the spool; None: no other query reads it.
        monotonic: A clock that is never set.

    Attributes:
        spool: The id of the spool.
    """

    def __init__(
        self,
        store: SpoolStore,
        *,
        destination: str,
        window: Window | None,
        max_bytes: int,
        fail_on_data_loss: bool,
        lease: Lease | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._lease = lease
        self._monotonic = monotonic
        self._fail_on_data_loss = fail_on_data_loss
        self._max_bytes = max_bytes
        self._release_bytes = min(_RELEASE_BYTES, max_bytes // _RELEASE_SHARE)
        self.spool = mark_spool(store, destination)
        self._ids = None if window is None else RecentIds(store, window, self._is_in_doubt)
        # Up to which row copies were looked for; None until an offset says what earlier processes have planned.
        self._planned: Offsets | None = None
        # What earlier processes were done with, whatever the checkpoint says.
        self._decided: Offsets = {}
        self._drops: dict[str, tuple[int, ...]] = {}
        # The last row of each shard that is known to exist.
        self._promised: Offsets = {}
        self._has_begun = False
        # Receivers that have said nothing for a while.
        self._silent: dict[str, _Silence] = {}
        self._store_time = StoreClock(store, monotonic)
        self._watch = StatusWatch(self._store_time, monotonic)
        self._progress = read_progress(store, self.spool) or QueryProgress(spool=self.spool)
        self._told = -_PROGRESS_SECONDS
        self._done: Offsets = {}
        # Since when there are segments that Spark is done with.
        self._waits_since: float | None = None
        self._gaps_told: set[_Gap] = set()
        # When spool.json was written: it never is again, unless the spool is replaced.
        self._about: tuple[float, int] | None = None
        # How many copies were left out, and the receivers, as they were when their statuses were last read.
        self._copies = 0
        self._running: list[ReceiverStatus] = []
        self._asked = -_STATUS_SECONDS
        # Spark asks for the end of a batch, for the newest rows and for the slices: one listing for all of them.
        self._listed: Listing | None = None
        store.remove_halves()

    @property
    def retired(self) -> int:
        """How many shards are finished, and no longer in offsets."""
        return self._progress.retired

    @property
    def lost(self) -> int:
        """How many rows were missing, and left out."""
        return self._progress.lost

    # --- where a query begins -----------------------------------------------------------------------------------------

    def first(self) -> Offset:
        """Where a query without a checkpoint begins: behind the rows that an earlier query has processed.

        No others were deleted in order. So of a shard of which none are known to be, it begins with the first row that
        there ever was, whether the spool still has it or not.
        """
        return self._offset({**dict.fromkeys(self._oldest(), 0), **self._progress.rows})

    def earliest(self) -> Offset:
        """Before the oldest rows that the spool still has, whether they were processed or not."""
        return self._offset({**self._progress.rows, **self._oldest()})

    def latest(self) -> Offset:
        """Behind the newest rows that there are."""
        return self._offset({**self._progress.rows, **self.newest()})

    def _oldest(self) -> Offsets:
        return {shard: segments[0].first - 1 for shard, segments in self._list().segments.items() if segments}

    def _offset(self, rows: Offsets) -> Offset:
        return Offset(spool=self.spool, rows=rows, retired=self._progress.retired)

    # --- what the spool must have -------------------------------------------------------------------------------------

    def begin(self, begun: Offset) -> None:
        """Compare the offset with which this process begins with all that the spool says about itself."""
        self._has_begun = True
        listing = self._list(begun.rows)
        statuses = self._statuses(listing)
        promised = self._promises(listing, statuses)
        # A listing may leave out what is written while it is made. The statuses were read before this one.
        if self._gaps_behind(begun, listing, promised):
            listing = self._list(begun.rows)
        self._promised = {
            shard: max(row, self._promised.get(shard, 0)) for shard, row in self._promises(listing, statuses).items()
        }
        self._miss(self._gaps_behind(begun, listing, self._promised), begun)
        if begun.retired > self._progress.retired:
            # Offsets go on from there.
            self._progress = replace(self._progress, retired=begun.retired)

    def _statuses(self, listing: Listing) -> dict[str, ReceiverStatus]:
        found = self._store.each(lambda shard: read_status(self._store, shard), sorted(listing.statuses))
        return {each.shard: each for each in found if each is not None and each.spool in {"", self.spool}}

    def _promises(self, listing: Listing, statuses: Mapping[str, ReceiverStatus]) -> Offsets:
        """The last row of each shard that is known to exist, or to have existed."""
        promised = dict(self._progress.finished)
        found = [
            *self._progress.rows.items(),
            *((shard, each.rows) for shard, each in statuses.items()),
            *((shard, segments[-1].last) for shard, segments in listing.segments.items() if segments),
        ]
        for shard, row in found:
            promised[shard] = max(promised.get(shard, 0), row)
        return promised

    def _gaps_behind(self, begun: Offset, listing: Listing, promised: Offsets) -> list[_Gap]:
        finished = self._progress.finished
        # The number of each of these shards, counted from the first that there ever was.
        numbers = {
            shard: self._progress.retired - len(finished) + number for number, shard in enumerate(finished, start=1)
        }
        gaps: list[_Gap] = []
        for shard, last in sorted(promised.items()):
            # A shard that was finished before the offset was written is not in it.
            is_before = shard in finished and numbers[shard] <= begun.retired
            start = max(begun.rows.get(shard, 0), finished[shard] if is_before else 0)
            gaps += [_Gap(shard, *rows) for rows in missing(listing.segments.get(shard, []), start, last)]
        for shard, row in sorted(begun.rows.items()):
            is_gone = (
                shard not in finished
                and not listing.segments.get(shard)
                and shard not in listing.statuses
                and read_status(self._store, shard) is None
            )
            if is_gone and row >= promised.get(shard, 0):
                gaps.append(_Gap(shard, row + 1, None))
            elif row > promised.get(shard, 0):
                # The spool was restored from a backup that is older than the checkpoint.
                gaps.append(_Gap(shard, promised.get(shard, 0) + 1, row))
        return gaps

    def _miss(self, gaps: Sequence[_Gap], begun: Offset) -> None:
        """Say which rows are missing; raises DataLoss unless the query is to continue without them."""
        forgotten = self._progress.retired - len(self._progress.finished) - begun.retired
        reasons: list[str] = []
        if forgotten > 0:
            reasons.append(
                f"the checkpoint is older than {forgotten} shards whose rows are all processed and deleted, so rows of "
                "them may be missing too"
            )
        if begun.retired > self._progress.retired:
            reasons.append("the spool is older than the checkpoint: it was restored from a backup")
        self._report(gaps, reasons)

    def _report(self, gaps: Sequence[_Gap], reasons: Sequence[str] = ()) -> None:
        new = [each for each in gaps if each not in self._gaps_told]
        if not new and not reasons:
            return
        rows = f"does not have {_named(new)}" if new else ""
        msg = f"the spool {self._store.folder} {'; '.join(filter(None, [rows, *reasons]))}. {_ADVICE}"
        if self._fail_on_data_loss:
            raise DataLoss(msg)
        logger.warning("%s", msg)
        self._gaps_told.update(new)
        self._progress = replace(self._progress, lost=self._progress.lost + sum(each.rows for each in new))

    def _check_spool(self, listing: Listing) -> None:
        """Raise SpoolReplaced if the spool is not the same one any more."""
        about = None if listing.about is None else (listing.about.changed, listing.about.size)
        if about is not None and about == self._about:
            return
        found = find_spool(self._store)
        if found is None or found.id != self.spool:
            what = "is gone" if found is None else f"was replaced by the spool {found.id}"
            raise SpoolReplaced(
                f"the spool {self.spool} in {self._store.folder} {what} while the query was running: rows that were "
                f"received and not yet processed are missing, {_named(_after(self._promised))}. {_ADVICE}"
            )
        self._about = about

    # --- planning -----------------------------------------------------------------------------------------------------

    def next(
        self, begun: Offsets, most: int | None, until: Offsets | None = None, most_bytes: int | None = None
    ) -> Offsets:
        """The end of the next batch.

        Args:
            begun: Where it begins. Spark is done with everything before.
            most: Maximum number of rows.
            until: The last row of each shard that may be in it; None: all that there are.
            most_bytes: How many bytes its rows may take in the spool, the rows of a segment being equally large. A
                single row may take more.

        Returns:
            Its end; the same offset if there are no rows.
        """
        if not self._has_begun:
            self.begin(self._offset(begun))
        begun_all = {**self._progress.finished, **begun}
        listing = self._list_behind(begun_all)
        self._start_planning(begun, listing)
        self._done = begun
        self._release(begun_all, listing)
        self._retire(begun_all, listing)
        self._tell()
        end = dict(begun)
        left, left_bytes = inf if most is None else most, inf if most_bytes is None else most_bytes
        taken: list[Segment] = []
        for segment in _behind(begun_all, listing):
            last = segment.last if until is None else min(segment.last, until.get(segment.shard, 0))
            rows = last - max(begun_all.get(segment.shard, 0), segment.first - 1)
            if rows <= 0:
                continue
            row_bytes = segment.size / segment.rows
            fitting = max(left_bytes / row_bytes, 0 if taken else 1)
            some = int(min(rows, left, fitting))
            if some <= 0:
                break
            taken.append(segment)
            end[segment.shard] = last - rows + some
            left, left_bytes = left - some, left_bytes - some * row_bytes
            if some < rows:
                break
        self._plan(taken, listing)
        if end == begun:
            return begun
        finished = self._progress.finished
        return {shard: row for shard, row in end.items() if row > finished.get(shard, -1)}

    def waiting(self, begun: Offsets) -> int:
        """How many rows are behind an offset, copies included."""
        begun_all = {**self._progress.finished, **begun}
        return sum(max(0, row - begun_all.get(shard, 0)) for shard, row in self.newest().items())

    @property
    def is_full(self) -> bool:
        """Whether the spool is so large that receivers wait for room."""
        return self._listed is not None and self._listed.size >= self._max_bytes

    def newest(self) -> Offsets:
        """The newest rows that there are."""
        listing = self._listed or self._list()
        return {shard: segments[-1].last for shard, segments in listing.segments.items() if segments}

    def slices(self, start: Offsets, end: Offsets) -> list[SegmentSlice]:
        """The rows after `start`, up to `end`, without copies; always the same."""
        begun = {**self._progress.finished, **start}
        listing = self._listed
        if listing is None or _gaps(listing, begun, end):
            listing = self._list(end)
        self._start_planning(end, listing)
        self._report(_gaps(listing, begun, end))
        slices: list[SegmentSlice] = []
        for shard, last in sorted(end.items()):
            first = begun.get(shard, 0)
            for segment in listing.segments.get(shard, []):
                slices += cut(self._store, [segment], first, last, self._drops_of(segment, listing))
        return slices

    def _list(self, covered: Offsets | None = None) -> Listing:
        """List the spool, without segments that were given up while they were written.

        Args:
            covered: The rows that offsets have; None: those that this planner has planned.
        """
        listing = list_spool(self._store)
        if self._lease is not None:
            self._lease.check(listing)
        self._check_spool(listing)
        for text in listing.damaged.values():
            if self._fail_on_data_loss:
                raise SpoolError(f"{text}. To continue without its rows, set failOnDataLoss=false")
            logger.warning("%s", text)
        self._leave_out_void(listing, covered or self._planned or {})
        self._listed = listing
        return listing

    def _leave_out_void(self, listing: Listing, covered: Offsets) -> None:
        """Leave out segments of receivers that gave up: their messages were not acknowledged, and are redelivered.

        It has written that down, or its shard was finished because it had written nothing for long; then it does not
        acknowledge.
        """
        finished = self._progress.finished
        for shard, segments in listing.segments.items():
            is_finished = shard in finished and shard not in listing.statuses
            if not is_finished and not listing.void:
                continue
            listing.segments[shard] = [
                each
                for each in segments
                if each.first <= covered.get(shard, 0)
                or not (each.void_name in listing.void or (is_finished and each.first > finished[shard]))
            ]

    def _list_behind(self, begun: Offsets) -> Listing:
        """List the spool, and check that all rows behind an offset are there that were there before.

        A segment that is written while a large folder is listed may be left out, and a newer one may not. A second
        listing has all that are older than those of the first.
        """
        listing = self._list()
        newest = self.newest()
        grown = {shard: max(row, self._promised.get(shard, 0)) for shard, row in newest.items()}
        promised = {**self._promised, **grown}
        if _gaps(listing, begun, promised):
            listing = self._list()
            for shard, segments in listing.segments.items():
                listing.segments[shard] = [each for each in segments if each.last <= promised.get(shard, 0)]
            self._report(_gaps(listing, begun, promised))
        self._promised = promised
        return listing

    def _start_planning(self, planned: Offsets, listing: Listing) -> None:
        """Take over what earlier processes have planned."""
        if self._planned is not None:
            return
        self._planned = {**self._progress.finished, **planned}
        self._decided = dict(self._progress.rows)
        segments = listing.oldest_first()
        of_none = listing.drops - {each.drops_name for each in segments}
        if of_none:
            # An earlier process was killed before it deleted them.
            self._check_lease()
            self._store.delete(of_none)
        if self._ids is None:
            return
        # The checkpoint may be a new one, or restored from a backup. Then ids of rows that are planned again may be
        # among those that were saved, so what was decided about these rows stays.
        decided = [each for each in segments if each.first <= self._decided.get(each.shard, 0)]
        left_out = {each.name: self._drops_of(each, listing) for each in decided}
        known = [each for each in segments if each.first <= self._planned.get(each.shard, 0) or each.name in left_out]
        self._ids.restore(listing.ids, known, left_out)

    def _plan(self, segments: Sequence[Segment], listing: Listing) -> None:
        """Look for copies in segments, in each once, and write down which there are."""
        planned, decided = self._planned, self._decided
        if self._ids is None or planned is None:
            return
        # An earlier process has looked at the others.
        wanted = [each for each in segments if each.first > max(planned.get(each.shard, 0), decided.get(each.shard, 0))]
        is_checked = False
        for segment, copies in zip(wanted, self._ids.copies_in(wanted), strict=True):
            if copies:
                logger.info("%d rows of %s are copies, and are left out", len(copies), segment.name)
                self._copies += len(copies)
            # A planner that died, or one with another checkpoint, may have decided in another order.
            if copies or segment.drops_name in listing.drops:
                if not is_checked:
                    # Of two planners that decide in another order, each would leave out the copy that the other keeps.
                    self._check_lease()
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

    def _check_lease(self) -> None:
        """Raise SpoolTaken if another query has taken the spool, as of this very moment."""
        if self._lease is not None:
            self._lease.check_now()

    # --- deleting -----------------------------------------------------------------------------------------------------

    def _release(self, end: Offsets, listing: Listing) -> None:
        """Delete segments whose rows Spark is done with."""
        done = [each for shard, found in listing.segments.items() for each in found if each.last <= end.get(shard, 0)]
        if not done:
            return
        if self._waits_since is None:
            self._waits_since = self._monotonic()
        is_worth_it = len(done) >= _RELEASE_SEGMENTS or sum(each.size for each in done) >= self._release_bytes
        oldest = (self._store_time() - _RELEASE_SECONDS) * 1000
        is_old = (
            any(each.written < oldest for each in done) or self._monotonic() - self._waits_since >= _RELEASE_SECONDS
        )
        if not is_worth_it and not is_old:
            return
        doubts = self._doubts(done, listing)
        done = [each for each in done if each.name in doubts]
        if not done:
            return
        self._check_lease()
        try:
            # Before anything is gone. And it may need the space that the segments take.
            self._write_progress()
            if self._ids is not None:
                self._ids.save(done, {name for name, is_in_doubt in doubts.items() if is_in_doubt})
                self._ids.delete_outdated(listing.ids)
        except SpoolFull as error:
            logger.warning("segments that Spark is done with cannot be deleted yet: %s", error)
            return
        self._store.delete(each.name for each in done)
        # Last: without them, what a crash leaves of the segments would have copies again.
        self._store.delete(each.drops_name for each in done if each.drops_name in listing.drops)
        self._waits_since = None
        for each in done:
            self._drops.pop(each.drops_name, None)
            listing.segments[each.shard].remove(each)
        with contextlib.suppress(SpoolError):
            self._store.remove_halves()

    def _doubts(self, segments: Sequence[Segment], listing: Listing) -> dict[str, bool]:
        """Whether the acknowledgment of each segment is in doubt; without those that a receiver is about to confirm."""
        doubts: dict[str, bool] = {}
        last: list[Segment] = []
        for each in segments:
            successor = listing.successor(each)
            if successor is None:
                last.append(each)
            else:
                doubts[each.name] = successor.in_doubt > 0
        silent = self._watch.silent(listing.statuses)
        statuses = self._store.each(lambda each: read_status(self._store, each.shard), last)
        for each, status in zip(last, statuses, strict=True):
            is_confirmed = status is not None and status.confirmed >= each.last
            if is_confirmed or status is None or status.is_over() or each.shard in silent:
                doubts[each.name] = not is_confirmed
        return doubts

    def _is_in_doubt(self, segment: Segment) -> bool:
        """Whether the broker may still deliver the messages of a segment again, as far as the last listing says."""
        listing = self._listed
        if listing is None or segment not in listing.segments.get(segment.shard, []):
            return False
        return listing.is_in_doubt(segment)

    def _retire(self, done: Offsets, listing: Listing) -> None:
        """Forget receivers that will write no more, and whose rows are all done.

        It takes two listings: a receiver may write its last segment between a listing and the moment at which its
        status is read. And a receiver is not taken for dead by a clock alone.
        """
        now, here = self._store_time(), self._monotonic()
        before, self._silent = self._silent, {}
        for shard, changed in listing.statuses.items():
            if listing.segments.get(shard) or now - changed < SILENT_SECONDS:
                continue
            silence = before.get(shard)
            if silence is None or silence.changed != changed:
                status = read_status(self._store, shard)
                is_own = status is not None and status.spool in {"", self.spool}
                is_over = status is None or not is_own or (status.is_over() and status.rows <= done.get(shard, 0))
                self._silent[shard] = _Silence(changed, here, is_over)
            elif silence.is_over or (now - changed > _RETIRED_SECONDS and here - silence.since >= SILENT_SECONDS):
                self._forget(shard, done.get(shard, 0), listing, is_over=silence.is_over)
            else:
                self._silent[shard] = silence

    def _forget(self, shard: str, last: int, listing: Listing, *, is_over: bool) -> None:
        """Take a shard out of offsets, and delete what is left of it.

        Otherwise each listing would come upon the folders of all receivers that there ever were.
        """
        self._check_lease()
        # What such a receiver writes later, or has given up while it was written, is not to be taken for new rows.
        may_write = not is_over or any(name.startswith(f"void/{shard}/") for name in listing.void)
        known = self._progress.finished
        # One that was killed here may have written it down already.
        if last > known.get(shard, 0) or (may_write and shard not in known):
            finished = {name: row for name, row in known.items() if name != shard}
            kept = dict([*finished.items(), (shard, last)][-KEPT_SHARDS:])
            self._progress = replace(self._progress, retired=self._progress.retired + 1, finished=kept)
            self._write_progress()
        self._store.delete(each.name for each in self._store.objects(f"segments/{shard}"))
        for kind, names in (("drops", listing.drops), ("void", listing.void)):
            self._store.delete(name for name in names if name.startswith(f"{kind}/{shard}/"))
        for folder in (f"segments/{shard}", f"drops/{shard}", f"void/{shard}"):
            self._store.delete_empty_folder(folder)
        self._store.delete([f"status/{shard}.json"])
        self._promised.pop(shard, None)
        if self._planned is not None:
            self._planned.pop(shard, None)

    # --- progress -----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Write down what Spark is done with, now and then."""
        if self._rows_done() != self._progress.rows and self._monotonic() - self._told >= _PROGRESS_SECONDS:
            with contextlib.suppress(SpoolError):
                self._write_progress()

    def _rows_done(self) -> Offsets:
        finished = self._progress.finished
        return {shard: row for shard, row in self._done.items() if row > finished.get(shard, -1)}

    def _write_progress(self) -> None:
        self._told = self._monotonic()
        progress = replace(self._progress, rows=self._rows_done(), time=time.time())
        write_progress(self._store, progress)
        self._progress = progress

    def close(self) -> None:
        """Write down what Spark is done with. A query without a checkpoint begins there."""
        if self._has_begun and self._rows_done() != self._progress.rows:
            # Not into a spool that is another one now, or another query's.
            with contextlib.suppress(SpoolError, DataLoss, SpoolTaken):
                self._list()
                self._write_progress()

    # --- receivers ----------------------------------------------------------------------------------------------------

    def receivers(self) -> list[ReceiverStatus]:
        """Return the receivers that write their status, and are not known to have ended."""
        return self._alive(self._list())

    def _alive(self, listing: Listing) -> list[ReceiverStatus]:
        silent = self._watch.silent(listing.statuses)
        statuses = (read_status(self._store, shard) for shard in listing.statuses if shard not in silent)
        return [each for each in statuses if each is not None and not each.is_over()]

    # --- metrics ------------------------------------------------------------------------------------------------------

    def metrics(self, planned: Offsets) -> dict[str, int]:
        """Return what users watch a query by, for Spark's progress reports.

        Args:
            planned: The offset up to which batches were planned.
        """
        listing = self._listed or self._list()
        now = self._monotonic()
        if now - self._asked >= _STATUS_SECONDS:
            self._asked, self._running = now, self._alive(listing)
        begun_all = {**self._progress.finished, **planned}
        oldest = next(iter(_behind(begun_all, listing)), None)
        # Never 0 if anything waits, also where the clocks differ, or all was written in this very millisecond.
        waited = 0 if oldest is None else max(1, int(1000 * self._store_time() - oldest.written))
        return {
            "rowsWaiting": self.waiting(planned),
            "oldestWaitingMs": waited,
            "receivers": len(self._running),
            "redelivered": sum(each.redelivered for each in self._running),
            "copiesLeftOut": self._copies,
            "rowsLost": self.lost,
        }


def refuse_other_spool(
    store: SpoolStore, begun: Offset, *, fail_on_data_loss: bool, is_checkpoint: bool = True
) -> None:
    """Check that a spool is the one that an offset belongs to, before a new one is made in its place.

    Args:
        store: The spool.
        begun: The offset.
        fail_on_data_loss: Whether another one is an error; otherwise it is logged.
        is_checkpoint: Whether it is of the checkpoint; otherwise of the option ``startingOffsets``.

    Raises:
        SpoolReplaced: It is not.
        SpoolError: The spool cannot be read.
    """
    found = find_spool(store)
    if found is not None and found.id == begun.spool:
        return
    what = "no spool is there" if found is None else f"it has the spool {found.id}"
    last = [f"row {row} of shard {shard}" for shard, row in sorted(begun.rows.items())]
    more = [f"the last rows of {len(last) - _NAMED} more shards"] if len(last) > _NAMED else []
    which = f": those after {'; '.join([*last[:_NAMED], *more])}" if last else ""
    owner, advice = ("the checkpoint", _ADVICE) if is_checkpoint else ("startingOffsets", _ADVICE_FOR_OPTION)
    msg = (
        f"{owner} belongs to the spool {begun.spool} in {store.folder}, but {what}. Any rows that were received but "
        f"not yet processed are missing{which}. {advice}"
    )
    if fail_on_data_loss:
        raise SpoolReplaced(msg)
    logger.warning("%s", msg)


def _named(gaps: Sequence[_Gap]) -> str:
    """Name missing rows, for an error."""
    by_shard: dict[str, list[str]] = {}
    for each in gaps:
        text = f"{each.first} to {each.last}" if each.last is not None else f"from {each.first}"
        by_shard.setdefault(each.shard, []).append(text)
    named = [f"the rows {', '.join(rows)} of shard {shard}" for shard, rows in list(by_shard.items())[:_NAMED]]
    more = len(by_shard) - len(named)
    return "; ".join([*named, *([f"and rows of {more} more shards"] if more > 0 else [])])


def _after(rows: Mapping[str, int]) -> list[_Gap]:
    """All rows after an offset, as missing ones of an unknown number."""
    return [_Gap(shard, row + 1, None) for shard, row in sorted(rows.items())]


def _gaps(listing: Listing, start: Offsets, end: Offsets) -> list[_Gap]:
    """The rows between two offsets that no segment has."""
    return [
        _Gap(shard, *rows)
        for shard, last in sorted(end.items())
        for rows in missing(listing.segments.get(shard, []), start.get(shard, 0), last)
    ]


def _behind(begun: Offsets, listing: Listing) -> Iterable[Segment]:
    """The segments with rows after an offset, the oldest first."""
    return (each for each in listing.oldest_first() if each.last > begun.get(each.shard, 0))
