"""The streaming source as Spark calls it: ``spark.readStream.format("stomp")``.

Spark pickles a reader into the plan, and keeps another one in a process of its own for the length of a query: only
that one opens the spool and receives. It is asked for the newest offset before each batch, then for the partitions
between two offsets. What it answers depends on nothing but the spool, so that a batch which is run again has the same
rows.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from trio_stomp.spark.segment_slices import InlineGroup, SegmentGroup, grouped, rows_of
from trio_stomp.spark.stream_feed import StreamFeed, first_offsets
from trio_stomp.spark.stream_offsets import Offsets, limited, parsed
from trio_stomp.spark.stream_options import SpoolTransport, StreamOptions

__all__ = ["StompStreamReader", "stream_reader"]


class StompStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Receives into a spool, and reads from it.

    Args:
        options: What the user wants.
    """

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._feed: StreamFeed | None = None
        # With Trigger.AvailableNow: when the intake ends at the latest.
        self._available_until: float | None = None
        self._available_now = False

    def __getstate__(self) -> dict[str, object]:
        """What travels in the plan: the options, and nothing that is open."""
        return {**self.__dict__, "_feed": None}

    def _opened(self) -> StreamFeed:
        if self._feed is None:
            self._feed = StreamFeed(self.options)
            _leave_on_sigterm()
        return self._feed

    # --- offsets --------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Where a query begins that has no checkpoint yet: with the oldest rows that the spool still has."""
        return first_offsets(self.options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """As many rows as ``maxOffsetsPerTrigger`` says."""
        rows = self.options.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """From now on there is an end: when the destination is idle."""
        self._available_now = True

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """The offset that the next batch goes to; waits a little for rows, where there are none.

        Raises:
            StompError: The receiver has failed, and all that it had taken was handed out.
        """
        begun = parsed(start)
        feed = self._opened()
        # Spark asks when the batch that ended here is done. Its commit() comes one batch later, or never.
        feed.release(begun)
        if not feed.receiving:
            feed.start(begun)
            self._available_until = time.monotonic() + self.options.available_timeout
        if self._available_now:
            self._wait_for_idle(feed, begun)
        else:
            feed.progress.wait(begun, self.options.poll_timeout)
        end = limited(begun, feed.progress.last, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        if end == begun and feed.progress.failure is not None:
            raise feed.progress.failure
        return dict(end)

    def _wait_for_idle(self, feed: StreamFeed, begun: Offsets) -> None:
        """Wait until there are rows, or will be none."""
        if self._available_until is None:
            return
        left = self._available_until - time.monotonic()
        if left <= 0 or not feed.progress.wait(begun, left, feed.all_idle):
            # No more is taken, so the rows that are there now are all of them.
            feed.stop()
            self._available_until = None

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802  # Spark's name
        """The newest rows that there are, for Spark's progress reports."""
        return None if self._feed is None else dict(self._feed.progress.last)

    # --- rows -----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The rows between two offsets, in groups; always the same ones.

        Raises:
            DataLoss: Some are not in the spool any more.
        """
        options = self.options
        slices = self._opened().slices(parsed(start), parsed(end))
        groups = grouped(slices, options.max_partitions, options.min_partitions)
        if options.transport is SpoolTransport.INLINE:
            return [InlineGroup(group, self._names) for group in groups]
        return [SegmentGroup(group) for group in groups]

    @property
    def _names(self) -> list[str]:
        return self.options.intake.columns.spark_schema().fieldNames()

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group."""
        return rows_of(partition, self._names)

    def commit(self, end: dict[str, object]) -> None:
        """Delete what Spark will not ask for again."""
        self._opened().release(parsed(end))

    def stop(self) -> None:
        """Stop receiving: what was taken is in the spool, the rest is given back."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


def stream_reader(options: StreamOptions, schema: StructType) -> StompStreamReader:
    """The reader of a stream.

    Raises:
        ValueError: The user has given a schema of their own.
    """
    options.intake.columns.refuse_other(schema)
    return StompStreamReader(options)


def _leave_on_sigterm() -> None:
    """Let SIGTERM end the process in order: that is how Spark stops a source, and by itself it would end at once."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    # Spark sends it twice.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
