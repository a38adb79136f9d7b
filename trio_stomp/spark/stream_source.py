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
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import NoReturn

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from trio_stomp.spark.planner import Planner
from trio_stomp.spark.pyspark_versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from trio_stomp.spark.segment_slices import InlineGroup, SegmentGroup, grouped, rows_of
from trio_stomp.spark.spark_schema import refuse_other
from trio_stomp.spark.stream_offsets import Offsets, checked, offset_of
from trio_stomp.spark.stream_options import SpoolTransport, StreamOptions
from trio_stomp.spark.stream_receivers import STREAM, QueryReceivers

__all__ = ["StompStreamReader", "stream_reader"]


class _Query:
    """What is open while a query runs, in the process that Spark asks."""

    def __init__(self, options: StreamOptions) -> None:
        self.store = options.intake.open_spool(STREAM)
        self.planner = Planner(
            self.store,
            destination=options.intake.destination,
            window=options.intake.dedupe.wanted,
            max_bytes=options.intake.max_spool_bytes,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        self.receivers = QueryReceivers(options, self.planner)
        # With Trigger.AvailableNow: when the intake ends at the latest.
        self.until = time.monotonic() + options.available_timeout


class StompStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Receives into a spool, and reads from it.

    Args:
        options: What the user wants.
    """

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._query: _Query | None = None
        self._available_now = False

    def __getstate__(self) -> dict[str, object]:
        """What travels in the plan: the options, and nothing that is open."""
        return {**self.__dict__, "_query": None}

    def _opened(self) -> _Query:
        if self._query is None:
            self._query = _Query(self.options)
            _leave_on_sigterm()
        return self._query

    def _offset(self, rows: Offsets) -> dict[str, object]:
        return offset_of(self.options.intake.destination, rows)

    def _rows(self, offset: Mapping[str, object]) -> Offsets:
        return checked(offset, self.options.intake.destination)

    # --- offsets --------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        """Where a query begins that has no checkpoint yet: with the oldest rows that the spool still has."""
        return self._offset(self._opened().planner.first())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """As many rows as ``maxOffsetsPerTrigger`` says."""
        rows = self.options.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """From now on there is an end: when the destination is idle."""
        self._available_now = True

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802  # Spark's name
        """The offset that the next batch goes to; waits a little for rows, where there are none.

        Spark asks when the batch that ended here is done, so that its segments can go. Its commit() comes one batch
        later, or never.

        Raises:
            StompError: A receiver has failed, and all that it had taken was handed out.
        """
        begun = self._rows(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        query = self._opened()
        query.receivers.start()
        until = query.until if self._available_now else time.monotonic() + self.options.poll_timeout
        while True:
            # Before the spool is listed: rows that arrive later are news.
            news = query.receivers.news
            failure = query.receivers.failure
            is_over = time.monotonic() >= until or (self._available_now and query.receivers.are_idle())
            if is_over and self._available_now:
                # No more is taken, so the rows that are there now are all of them.
                query.receivers.stop()
            end = query.planner.next(begun, most)
            if end != begun or is_over:
                return self._offset(end)
            if failure is not None:
                raise failure
            query.receivers.wait(news, max(0.0, until - time.monotonic()), for_idle=self._available_now)

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802  # Spark's name
        """The newest rows that there are, for Spark's progress reports."""
        return None if self._query is None else self._offset(self._query.planner.newest())

    # --- rows -----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The rows between two offsets, in groups; always the same ones.

        Raises:
            DataLoss: Some are not in the spool any more.
        """
        options = self.options
        query = self._opened()
        slices = query.planner.slices(self._rows(start), self._rows(end))
        groups = grouped(slices, options.max_partitions, options.min_partitions)
        if options.transport is SpoolTransport.INLINE:
            return [InlineGroup(query.store, group, self._names) for group in groups]
        return [SegmentGroup(group) for group in groups]

    @property
    def _names(self) -> list[str]:
        return self.options.intake.columns.arrow_schema().names

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group."""
        return rows_of(self.options.intake.spool, partition, self._names)

    def stop(self) -> None:
        """Stop receiving: what was taken is in the spool, the rest is given back."""
        query, self._query = self._query, None
        if query is not None:
            query.receivers.stop()


def stream_reader(options: StreamOptions, schema: StructType) -> StompStreamReader:
    """The reader of a stream.

    Raises:
        ValueError: The user has given a schema of their own.
    """
    refuse_other(options.intake.columns, schema)
    return StompStreamReader(options)


def _leave_on_sigterm() -> None:
    """Let SIGTERM end the process in order: that is how Spark stops a source, and by itself it would end at once."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    # Spark sends it twice.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
