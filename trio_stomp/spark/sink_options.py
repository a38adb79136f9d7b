"""The options of the sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.sink_columns import DEDUP_ID
from trio_stomp.spark.sink_identity import DedupIds
from trio_stomp.spark.sink_rows import RowRules
from trio_stomp.spark.sink_writer import TaskPlan, WriteMode

__all__ = ["SinkOptions"]

# Measured: the best is between 500 and 2000 on all brokers, enough to hide the round-trip time.
_RECEIPT_WINDOW: Final = 1_000
_IN_FLIGHT_BYTES: Final = 16 * 1024**2
# The broker also keeps a transaction in memory.
_TRANSACTION_BYTES: Final = 256 * 1024**2
_PERSISTENT: Final = "persistent"


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
        headers = reader.headers("sendHeaders")
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
