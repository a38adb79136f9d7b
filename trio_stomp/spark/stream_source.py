"""The streaming source as Spark calls it: ``spark.readStream.format("stomp")``.

Spark pickles a reader into the plan, and keeps another one in a process of its own for the length of a query: only
that one opens the spool and receives. It is asked for the newest offset before each batch, then for the partitions
between two offsets. What it answers depends on nothing but the spool, so that a batch which is run again has the same
rows.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from types import FrameType
from typing import Final, NoReturn

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.lease import Lease, SpoolTaken
from trio_stomp.spark.planner import Planner, SpoolReplaced, refuse_other_spool
from trio_stomp.spark.pyspark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from trio_stomp.spark.segment_slices import InlineGroup, SegmentGroup, grouped, rows_of
from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolError
from trio_stomp.spark.stream_offsets import Offset, Offsets, checked, offset_of
from trio_stomp.spark.stream_options import SpoolTransport, Start, StreamOptions
from trio_stomp.spark.stream_receivers import QueryReceivers

__all__ = ["StompStreamReader", "WithoutAdmissionControl"]

logger: Final = logging.getLogger("trio_stomp.spark")


class _Query:
    """What is open while a query runs, in the process that Spark asks.

    Args:
        begun: Where this process begins; None: the query has no checkpoint yet.

    Raises:
        SpoolTaken: Another query reads the spool.
        SpoolReplaced: The spool is not the one of the checkpoint.
        SpoolError: The spool cannot be used.
    """

    def __init__(self, options: StreamOptions, begun: Offset | None) -> None:
        self.options = options
        self.store = options.intake.open_spool(STREAM)
        promised = options.starting if begun is None else begun
        # Ids of spools that are gone, of which offsets still are.
        self._gone: set[str] = set()
        if isinstance(promised, Offset):
            # Before anything is written, which would make a new spool in place of the one that is missing.
            refuse_other_spool(
                self.store,
                promised,
                fail_on_data_loss=options.fail_on_data_loss,
                is_checkpoint=begun is not None,
            )
            self._gone.add(promised.spool)
        mark_spool(self.store, options.intake.destination)
        self._is_checked = False
        with ExitStack() as undo:
            self.lease = Lease(self.store)
            undo.callback(self.lease.release)
            self.planner = Planner(
                self.store,
                destination=options.intake.destination,
                window=options.intake.dedupe.wanted,
                max_bytes=options.intake.max_spool_bytes,
                fail_on_data_loss=options.fail_on_data_loss,
                lease=self.lease,
            )
            if begun is not None:
                self.begin(begun)
            undo.pop_all()
        self.receivers = QueryReceivers(options, self.planner)
        # Up to which row batches were planned, and when. The first one does not wait, as with Spark's Kafka source.
        self.planned: Offsets = {}
        self._planned = -inf
        # With Trigger.AvailableNow: when receiving ends at the latest, and then the newest rows of the run.
        self.until = time.monotonic() + options.available_timeout
        self.last: Offsets | None = None

    def first(self) -> Offset:
        """Where a query without a checkpoint begins."""
        match self.options.starting:
            case Start.UNREAD:
                return self.planner.first()
            case Start.EARLIEST:
                return self.planner.earliest()
            case Start.LATEST:
                return self.planner.latest()
            case begun:
                return self.own(begun)

    def own(self, offset: Offset) -> Offset:
        """Return an offset of this spool. One of a spool that is gone becomes the oldest rows of this one.

        If the query is not to continue without that spool, it raises `SpoolReplaced`.
        """
        if offset.spool == self.planner.spool:
            return offset
        if offset.spool not in self._gone:
            refuse_other_spool(self.store, offset, fail_on_data_loss=self.options.fail_on_data_loss)
            self._gone.add(offset.spool)
        return self.planner.earliest()

    def is_due(self, begun: Offsets) -> bool:
        """Whether enough rows wait for a batch, or no more come, or it has waited long enough for them."""
        options, now = self.options, time.monotonic()
        is_enough = self.planner.waiting(begun) >= options.min_rows or self.planner.is_full
        if not is_enough and now - self._planned < options.max_delay:
            return False
        self._planned = now
        return True

    def begin(self, begun: Offset) -> None:
        """Check where this process begins, if it did not know that when it opened the spool.

        PySpark 4.1 and older first say where a batch begins when it is run.
        """
        if not self._is_checked:
            self._is_checked = True
            self.planner.begin(self.own(begun))

    def close(self) -> None:
        """Stop receiving, and give the spool back."""
        self.receivers.stop()
        self.planner.close()
        self.lease.release()


class StompStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Receives into a spool, and reads from it."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._query: _Query | None = None
        self._available_now = False
        # Why this query cannot begin, if it has no checkpoint.
        self._taken: SpoolTaken | None = None

    def __getstate__(self) -> dict[str, object]:
        """What travels in the plan: the options, and nothing that is open."""
        return {**self.__dict__, "_query": None}

    def _opened(self, begun: Offset | None) -> _Query:
        if self._taken is not None:
            raise self._taken
        if self._query is None:
            _leave_on_sigterm()
            self._query = _Query(self.options, begun)
        return self._query

    def _printed(self, offset: Offset) -> dict[str, object]:
        return offset_of(self.options.intake.destination, offset)

    def _checked(self, offset: Mapping[str, object]) -> Offset:
        return checked(offset, self.options.intake.destination)

    # --- offsets --------------------------------------------------------------------------------------------------

    @ConciseErrors()
    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        """Where a query begins that has no checkpoint yet: as the option ``startingOffsets`` says."""
        try:
            return self._printed(self._opened(None).first())
        except SpoolTaken as error:
            # The offset is only asked for to plan a batch, and planning raises this.
            self._taken = error
            return self._printed(Offset(spool="", rows={}))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """One of the limits that the options set. Spark asks with it, or for all that there is (``Trigger.Once``)."""
        options = self.options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadMinRows(options.min_rows) if options.min_rows > 1 else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """From now on there is an end: the rows that are in the spool when the destination is idle."""
        self._available_now = True

    @ConciseErrors()
    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802  # Spark's name
        """The offset that the next batch goes to; waits a little for rows, where there are none.

        Spark asks when the batch that ended here is done, so that its segments can go. Its commit() comes one batch
        later, or never.

        Raises:
            StompError: A receiver has failed, and all that it had taken was handed out.
            DataLoss: Rows behind the start are missing in the spool.
            SpoolTaken: Another query reads the spool.
        """
        begun = self._checked(start)
        try:
            return self._latest(start, begun, limit)
        except SpoolReplaced as error:
            if self.options.fail_on_data_loss:
                raise
            logger.warning("%s", error)
        # The spool was deleted while the query was running, which is to continue.
        self.stop()
        return self._latest(start, begun, limit)

    def _latest(self, start: dict[str, object], begun: Offset, limit: ReadLimit) -> dict[str, object]:
        # Spark's limit can be one only, and this one lifts all.
        everything = isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        most_bytes = None if everything else self.options.max_bytes
        query = self._opened(begun)
        query.planned = rows = query.own(begun).rows
        is_snapshot = self._available_now and not self.options.available_idle
        if not is_snapshot:
            query.receivers.start()
        until = query.until if self._available_now else time.monotonic() + self.options.poll_timeout
        while True:
            # Before the spool is listed: rows that arrive later are news.
            news = query.receivers.progress.news
            failure = query.receivers.progress.failure
            is_over = time.monotonic() >= until
            if self._available_now and query.last is None:
                is_over = is_over or is_snapshot or query.receivers.are_idle()
                if is_over:
                    # No more is taken, and what others write from now on is not for this run.
                    query.receivers.stop()
                    query.last = query.planner.latest().rows
            is_over = is_over or query.last is not None
            end = query.planner.next(rows, most, query.last, most_bytes)
            # A run that ends, and a source that has failed, hand out what there is.
            if end != rows and (everything or self._available_now or failure is not None or query.is_due(rows)):
                query.planned = end
                return self._printed(replace(begun, spool=query.planner.spool, rows=end, retired=query.planner.retired))
            if is_over:
                return dict(start)
            if failure is not None:
                raise failure
            query.receivers.wait(news, max(0.0, until - time.monotonic()), for_idle=self._available_now)

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802  # Spark's name
        """The newest rows that there are and the metrics of the query, for Spark's progress reports.

        PySpark gives a source no other place for metrics: only the JVM's own count what a Python source sends.
        """
        query = self._query
        if query is None:
            return None
        newest = self._printed(query.planner.latest())
        try:
            return {**newest, "metrics": query.planner.metrics(query.planned)}
        except SpoolError as error:
            # No reason to end a query: what matters is read again before the next batch, and then fails.
            logger.warning("no metrics: %s", error)
            return newest

    # --- rows -----------------------------------------------------------------------------------------------------

    @ConciseErrors()
    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The rows between two offsets, in groups; always the same ones.

        Raises:
            DataLoss: Some are not in the spool any more.
        """
        options = self.options
        begun, ended = self._checked(start), self._checked(end)
        query = self._opened(begun)
        query.begin(begun)
        slices = query.planner.slices(query.own(begun).rows, query.own(ended).rows)
        groups = grouped(slices, options.max_partitions, options.min_partitions)
        if options.transport is SpoolTransport.INLINE:
            return [InlineGroup(query.store, group, self._names) for group in groups]
        return [SegmentGroup(group) for group in groups]

    @property
    def _names(self) -> list[str]:
        return self.options.intake.columns.arrow_schema().names

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group."""
        with ConciseErrors():
            yield from rows_of(self.options.intake.spool, partition, self._names)

    def stop(self) -> None:
        """Stop receiving: what was taken is in the spool, the rest is given back."""
        query, self._query = self._query, None
        if query is not None:
            query.close()


def _leave_on_sigterm() -> None:
    """Let SIGTERM end the process in order: that is how Spark stops a source, and by itself it would end at once."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    # Spark sends it twice.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


class WithoutAdmissionControl(DataSourceStreamReader):
    """A reader of streams for PySpark 4.0 and 4.1, which call `latestOffset` without arguments.

    They call it when the batch that they planned last has ended, so the end of that batch is the start. On the first
    call after a restart, the checkpoint is unknown. The answer is then the newest offset, since an earlier one could be
    before the checkpoint.
    """

    def __init__(self, reader: StompStreamReader) -> None:
        self._reader = reader
        self._planned: dict[str, object] | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        """Return where a query without a checkpoint begins."""
        return {**self._reader.initialOffset()}

    def latestOffset(self) -> dict[str, object]:  # type: ignore[override]  # noqa: N802  # as PySpark 4.1 has it
        """Return the end of the next batch."""
        reader = self._reader
        if self._planned is None:
            self._planned = {**reader.latestOffset({**reader.initialOffset()}, ReadAllAvailable())}
        else:
            self._planned = {**reader.latestOffset(self._planned, reader.getDefaultReadLimit())}
        return self._planned

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the rows between two offsets, in parts."""
        if self._planned is None:
            # A batch that was planned before a restart.
            self._planned = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of a part."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, object]) -> None:
        """Spark needs no rows before this offset any more."""
        self._reader.commit(end)  # pyright: ignore[reportUnknownMemberType]  # PySpark says `dict` only

    def stop(self) -> None:
        """Stop receiving."""
        self._reader.stop()
