"""The spool of a stream with its receivers, as the process that Spark asks holds it for the length of a query."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from trio_stomp.spark.receiver import ReceiverOptions, ReceiverThread
from trio_stomp.spark.receiver_process import ReceiverProcess
from trio_stomp.spark.segment_files import SegmentFile, list_segments, lock_folder
from trio_stomp.spark.segment_slices import SegmentSlice, cut, missing
from trio_stomp.spark.stream_offsets import Offsets
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_progress import Progress

__all__ = ["DataLoss", "StreamFeed", "first_offsets"]

logger: Final = logging.getLogger("trio_stomp.spark")

_FOLDER: Final = "stream"
# A query that is started again at once overlaps with the one that is still leaving.
_LOCK_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0


class DataLoss(RuntimeError):
    """Rows that were planned are not in the spool."""


class _Receiver(Protocol):
    def stop(self) -> None: ...

    def join(self, timeout: float) -> bool: ...


class _Shard:
    """Tells the progress of one shard."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.reached = partial(progress.reached, name)
        self.idle = partial(progress.idle, name)


def _shards(options: StreamOptions) -> dict[str, Path]:
    """The shards: those that are received into, and those that an earlier query with more receivers has left."""
    home = options.intake.home / _FOLDER
    names = {str(number) for number in range(options.receivers)}
    if home.is_dir():
        names.update(path.name for path in home.iterdir() if path.is_dir() and path.name.isdigit())
    return {name: home / name for name in sorted(names, key=int)}


def _segments(folder: Path) -> list[SegmentFile]:
    return list_segments(folder) if folder.is_dir() else []


def first_offsets(options: StreamOptions) -> Offsets:
    """Where a query begins that has no checkpoint yet: before the oldest rows that the spool still has."""
    first = {name: _segments(folder)[:1] for name, folder in _shards(options).items()}
    return {name: segments[0].first - 1 if segments else 0 for name, segments in first.items()}


class StreamFeed:
    """Holds the spool from now on, and fills it when told to.

    Args:
        options: What the user wants.

    Raises:
        SpoolLocked: Another query has this spool, and goes on.
        OSError: The spool cannot be written to.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        home = options.intake.home / _FOLDER
        home.mkdir(parents=True, exist_ok=True)
        self._open = contextlib.ExitStack()
        self._open.enter_context(lock_folder(home, _LOCK_SECONDS))
        self._receivers: list[_Receiver] = []
        self._shards = _shards(options)
        newest = {name: _segments(folder)[-1:] for name, folder in self._shards.items()}
        self.progress = Progress({name: segments[0].last for name, segments in newest.items() if segments})

    # --- receiving ----------------------------------------------------------------------------------------------------

    @property
    def receiving(self) -> bool:
        """Whether the receivers were started."""
        return bool(self._receivers)

    def start(self, after: Offsets) -> None:
        """Start the receivers.

        Args:
            after: What the checkpoint says: rows are numbered after these, also if the spool was deleted.
        """
        options = self._options
        kind = ReceiverThread if options.receivers == 1 else ReceiverProcess
        for name in list(self._shards)[: options.receivers]:
            told = ReceiverOptions(
                intake=options.intake,
                folder=self._shards[name],
                after=after.get(name, 0),
                max_bytes=options.max_spool_bytes // options.receivers,
                idle=options.available_idle,
            )
            self._receivers.append(kind(told, _Shard(self.progress, name), self.progress.failed))

    def stop(self) -> None:
        """Stop the receivers: what they have taken is in the spool, the rest is given back."""
        for receiver in self._receivers:
            receiver.stop()
        until = time.monotonic() + _STOP_SECONDS
        for receiver in self._receivers:
            if not receiver.join(max(0.1, until - time.monotonic())):
                logger.warning("a receiver has not ended after %g s; it ends with its process", _STOP_SECONDS)

    def all_idle(self, idle: set[str]) -> bool:
        """Whether the receivers whose shards are not idle are none."""
        return idle.issuperset(list(self._shards)[: self._options.receivers])

    def close(self) -> None:
        """Stop the receivers, and let go of the spool."""
        self.stop()
        self._open.close()

    # --- the spool ----------------------------------------------------------------------------------------------------

    def slices(self, start: Offsets, end: Offsets) -> list[SegmentSlice]:
        """The rows after `start`, up to `end`.

        Raises:
            DataLoss: Some are not there, and the user wants to know.
        """
        slices: list[SegmentSlice] = []
        for name, last in end.items():
            first = start.get(name, 0)
            folder = self._options.intake.home / _FOLDER / name
            segments = _segments(folder)
            gaps = missing(segments, first, last)
            if gaps:
                self._lost(folder, gaps)
            slices += cut(segments, first, last)
        return slices

    def _lost(self, folder: Path, gaps: Sequence[tuple[int, int]]) -> None:
        rows = ", ".join(f"{first} to {last}" for first, last in gaps)
        msg = (
            f"the spool {folder} does not have the rows {rows}, which the checkpoint says are next: was it deleted, "
            "moved, or used by another query? Put it back, or go on without them with the option failOnDataLoss=false"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(msg)
        logger.warning("%s", msg)

    def release(self, end: Offsets) -> None:
        """Delete segments whose rows Spark is done with, but for the newest of each shard, which keeps its number."""
        for name, last in end.items():
            for segment in _segments(self._options.intake.home / _FOLDER / name)[:-1]:
                if segment.last > last:
                    break
                Path(segment.path).unlink(missing_ok=True)
