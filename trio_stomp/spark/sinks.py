"""The sinks in the form that Spark calls: a writer for the batches of a stream, and one for a DataFrame.

Spark pickles a writer, sends it to the tasks, and calls `write` there. It calls `commit` and `abort` on the driver's
side; for a stream, on another writer than that of the tasks. So a writer holds only options, and the task that uses a
connection opens it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import RecordBatch
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.pyspark_versions import DataSourceStreamArrowWriter
from trio_stomp.spark.sink_identity import DedupIds
from trio_stomp.spark.sink_rows import DEDUP_ID, RowRules, check_columns
from trio_stomp.spark.sink_writer import TaskPlan, WriteMode, Written, write_task

__all__ = ["SinkOptions", "StompBatchWriter", "StompStreamWriter", "TaskCommitted", "batch_writer", "stream_writer"]

logger: Final = logging.getLogger("trio_stomp.spark")

# Measured: the best is between 500 and 2000 on all brokers, enough to hide the round-trip time.
_RECEIPT_WINDOW: Final = 1_000
_IN_FLIGHT_BYTES: Final = 16 * 1024**2
# The broker also keeps a transaction in memory.
_TRANSACTION_BYTES: Final = 256 * 1024**2
_PERSISTENT: Final = "persistent"
# Headers of SEND that the sink sets, or that belong to receipts and transactions.
_RESERVED: Final = frozenset({"destination", "content-length", "receipt", "transaction"})
# Local properties that Spark sets on the tasks of a stream.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink. They are pickled for the tasks, so this holds only data.

    Attributes:
        connection: How to reach the broker.
        destination: Where to send rows without a destination of their own.
        write_mode: One transaction for each task, receipts, or what is faster on the broker.
        receipt_window: How many rows may await their RECEIPT.
        in_flight_bytes: How many bytes their bodies may have in total.
        transaction_bytes: How much memory the rows of one transaction may take.
        dedup_ids: How to make ids for rows without one.
        dedup_header: The header for the ids; None: that of the broker.
        dedup_id_column: The column with ids.
        headers: Headers of every message.
    """

    connection: ConnectionOptions
    destination: str | None
    write_mode: WriteMode
    receipt_window: int
    in_flight_bytes: int
    transaction_bytes: int
    dedup_ids: DedupIds
    dedup_header: str | None
    dedup_id_column: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of ``df.write`` or ``df.writeStream``.

        Raises:
            OptionError: An option is missing, unknown or invalid.
        """
        reader = OptionReader(options)
        if reader.has("path"):
            msg = "a destination is no path: use .option('destination', ...).save() or .start(), without an argument"
            raise OptionError(msg)
        headers = _send_headers(reader)
        persistent = reader.flag(_PERSISTENT, default=True)
        if persistent:
            # RabbitMQ loses a message with persistent:false if there is no consumer, so the header is omitted.
            headers = {_PERSISTENT: "true"} | headers
        made = cls(
            connection=ConnectionOptions.read(reader),
            destination=reader.text("destination"),
            write_mode=reader.choice("writeMode", WriteMode, WriteMode.AUTO),
            receipt_window=reader.whole("receiptWindow", _RECEIPT_WINDOW),
            in_flight_bytes=reader.size("maxInFlightBytes", _IN_FLIGHT_BYTES),
            transaction_bytes=reader.size("maxTransactionBytes", _TRANSACTION_BYTES),
            dedup_ids=reader.choice("dedupIds", DedupIds, DedupIds.CONTENT),
            dedup_header=reader.text("dedupHeader"),
            dedup_id_column=reader.text("dedupIdColumn") or DEDUP_ID,
            headers=tuple(headers.items()),
        )
        reader.refuse_unknown("the STOMP sink")
        return made

    def task_plan(self, scope: str) -> TaskPlan:
        """Return the work of a task.

        Args:
            scope: The beginning of the ids of this task.
        """
        rules = RowRules(destination=self.destination, headers=dict(self.headers), dedup_id_column=self.dedup_id_column)
        return TaskPlan(
            dial=self.connection.dial_blocking,
            rules=rules,
            mode=self.write_mode,
            scope=scope,
            dedup_ids=self.dedup_ids,
            dedup_header=self.dedup_header,
            receipt_window=self.receipt_window,
            in_flight_bytes=self.in_flight_bytes,
            transaction_bytes=self.transaction_bytes,
        )

    def left_behind(self, confirmed: str) -> str:
        """Return the message about rows that a failed write has left at the broker.

        Args:
            confirmed: How many, as text.
        """
        tasks = f"{confirmed}; these stay where they were sent, STOMP takes nothing back"
        if self.write_mode is WriteMode.TRANSACTION:
            tasks += "; tasks that failed before COMMIT have left nothing"
        else:
            tasks += "; of tasks that failed, some rows may be there"
        if self.dedup_ids is DedupIds.NONE:
            return f"{tasks}; running it again sends them a second time"
        return f"{tasks}; a stream that is run again sends them with the same ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommitted(WriterCommitMessage):
    """The message of a task to the driver: the broker has confirmed its rows.

    Attributes:
        partition: The number of the task.
        rows: How many rows.
        repeated: Whether the broker already had some of them, from an earlier attempt.
    """

    partition: int
    rows: int
    repeated: bool


class StompStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to STOMP.

    Args:
        options: Where to send, and how.
    """

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
        partition = context.partitionId()
        # The id of a query and the number of a batch survive restarts, so the ids of a repeated batch are the same.
        plan = self.options.task_plan(f"{query}.{batch}.{partition}")
        return _committed(partition, write_task(plan, _arrow(iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log that a batch is done; its rows were confirmed task by task."""
        logger.info("batch %d: %s", batchId, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log what a failed batch has left at the broker, since STOMP cannot undo it."""
        logger.warning("batch %d failed: %s", batchId, self.options.left_behind(_sum(messages)))


class StompBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame to STOMP.

    Args:
        options: Where to send, and how.
        write_id: Identifies this write, in all its tasks.
    """

    def __init__(self, options: SinkOptions, write_id: str) -> None:
        self.options = options
        self.write_id = write_id

    @ConciseErrors()
    def write(self, iterator: Iterator[Row | RecordBatch]) -> TaskCommitted:
        """Send the rows of one task, and wait until the broker has confirmed each."""
        partition = _task_context().partitionId()
        plan = self.options.task_plan(f"{self.write_id}.{partition}")
        return _committed(partition, write_task(plan, _arrow(iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that the write is done; the rows were confirmed task by task."""
        logger.info("write %s: %s", self.write_id, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what a failed write has left at the broker, since STOMP cannot undo it."""
        logger.warning("write %s failed: %s", self.write_id, self.options.left_behind(_sum(messages)))


def _send_headers(reader: OptionReader) -> dict[str, str]:
    headers = reader.headers("sendHeaders")
    if reserved := sorted(headers.keys() & _RESERVED):
        name = reserved[0]
        advice = "use the option or the column 'destination'" if name == "destination" else "the sink sets it itself"
        msg = f"the option 'sendHeaders' has the header {name!r}; {advice}"
        raise OptionError(msg)
    return headers


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
    check_columns(schema, destination=options.destination, dedup_id_column=options.dedup_id_column)
    return StompStreamWriter(options)


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> StompBatchWriter:
    """Return the sink of a DataFrame.

    Raises:
        ValueError: The columns do not fit, or the save mode is not append.
    """
    if overwrite:
        msg = "expected mode('append'), got 'overwrite': STOMP cannot take back what is in a destination"
        raise ValueError(msg)
    check_columns(schema, destination=options.destination, dedup_id_column=options.dedup_id_column)
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


def _committed(partition: int, written: Written) -> TaskCommitted:
    return TaskCommitted(partition=partition, rows=written.rows, repeated=written.repeated)


def _sum(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [each for each in messages if isinstance(each, TaskCommitted)]
    text = f"{sum(each.rows for each in done)} rows confirmed in {len(done)} of {len(messages)} tasks"
    repeated = sum(each.repeated for each in done)
    return f"{text}, {repeated} of which an earlier attempt had sent in part" if repeated else text
