"""The sinks in the form that Spark calls: a writer for the batches of a stream, and one for a DataFrame.

Spark pickles a writer, sends it to the tasks, and calls `write` there. It calls `commit` and `abort` on the driver's
side; for a stream, on another writer than that of the tasks. So a writer holds only options, and the task that uses a
connection opens it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import RecordBatch
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.pyspark_versions import DataSourceStreamArrowWriter
from trio_stomp.spark.sink_rows import check_columns
from trio_stomp.spark.sink_writer import SinkOptions, Written, write_task

__all__ = ["StompBatchWriter", "StompStreamWriter", "TaskCommitted", "batch_writer", "stream_writer"]

logger: Final = logging.getLogger("trio_stomp.spark")

# Local properties that Spark sets on the tasks of a stream.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommitted(WriterCommitMessage):
    """The message of a task to the driver: the broker has confirmed its rows."""

    written: Written


class StompStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to STOMP."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    @ConciseErrors()
    def write(self, iterator: Iterator[Row | RecordBatch]) -> TaskCommitted:
        """Send the rows of one task of one batch, and wait until the broker has confirmed each."""
        context = _task_context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            msg = f"expected the task of a stream, which knows {_QUERY_ID} and {_BATCH_ID}; got {query!r} and {batch!r}"
            raise RuntimeError(msg)
        # The id of a query and the number of a batch survive restarts, so the ids of a repeated batch are the same.
        scope = f"{query}.{batch}.{context.partitionId()}"
        return TaskCommitted(written=write_task(self.options, scope, _arrow(iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log that a batch is done; its rows were confirmed task by task."""
        logger.info("batch %d: %s", batchId, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log what a failed batch has left at the broker, since STOMP cannot undo it."""
        logger.warning("batch %d failed: %s", batchId, self.options.left_behind(_sum(messages)))


class StompBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame to STOMP.

    Args:
        options: The options of the sink.
        write_id: Identifies this write, in all its tasks.
    """

    def __init__(self, options: SinkOptions, write_id: str) -> None:
        self.options = options
        self.write_id = write_id

    @ConciseErrors()
    def write(self, iterator: Iterator[Row | RecordBatch]) -> TaskCommitted:
        """Send the rows of one task, and wait until the broker has confirmed each."""
        scope = f"{self.write_id}.{_task_context().partitionId()}"
        return TaskCommitted(written=write_task(self.options, scope, _arrow(iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that the write is done; the rows were confirmed task by task."""
        logger.info("write %s: %s", self.write_id, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what a failed write has left at the broker, since STOMP cannot undo it."""
        logger.warning("write %s failed: %s", self.write_id, self.options.left_behind(_sum(messages)))


def stream_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> StompStreamWriter:
    """Return the sink of a stream.

    Raises:
        ValueError: The columns do not fit, or the output mode is not append.
    """
    if overwrite:
        msg = (
            "expected outputMode('append'), got 'complete', which replaces its output with each batch: STOMP cannot "
            "take back what was sent"
        )
        raise ValueError(msg)
    check_columns(schema, options.rules)
    return StompStreamWriter(options)


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> StompBatchWriter:
    """Return the sink of a DataFrame.

    Raises:
        ValueError: The columns do not fit, or the save mode is not append.
    """
    if overwrite:
        msg = "expected mode('append'), got 'overwrite': STOMP cannot take back what is in a destination"
        raise ValueError(msg)
    check_columns(schema, options.rules)
    return StompBatchWriter(options, uuid.uuid4().hex)


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        msg = "expected to run in a task of Spark, and there is none; write() is called by Spark"
        raise RuntimeError(msg)
    return context


def _arrow(batches: Iterator[Row | RecordBatch]) -> Iterator[RecordBatch]:
    """Return the input as Arrow batches; by the signature of the base class, it could be rows."""
    for batch in batches:
        if not isinstance(batch, RecordBatch):
            msg = f"expected batches of Arrow, got a {type(batch).__name__}"
            raise TypeError(msg)
        yield batch


def _sum(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [each.written for each in messages if isinstance(each, TaskCommitted)]
    text = f"{sum(each.rows for each in done)} rows confirmed in {len(done)} of {len(messages)} tasks"
    repeated = sum(each.repeated for each in done)
    return f"{text}, {repeated} of which an earlier attempt had sent in part" if repeated else text
