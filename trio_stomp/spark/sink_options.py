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

# Measured best between 500 and 2000 on all brokers: enough to hide the way to the broker and back.
_RECEIPT_WINDOW: Final = 1_000
_IN_FLIGHT_BYTES: Final = 16 * 1024**2
# The broker holds a transaction in its memory, too.
_TRANSACTION_BYTES: Final = 256 * 1024**2
_PERSISTENT: Final = "persistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What the options of a sink say; travels to the tasks, so it holds nothing but data.

    Attributes:
        connection: How to reach the broker.
        destination: Where rows go that don't say it themselves.
        write_mode: One transaction for each task, receipts, or what suits the broker.
        receipt_window: How many rows may await their RECEIPT.
        in_flight_bytes: How many bytes their bodies may come to.
        transaction_bytes: How much memory the rows of one transaction may take.
        dedup_ids: How ids are made for rows that bring none.
        dedup_header: The header that carries them; None takes the broker's own.
        dedup_id_column: The column with the rows' own ids.
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
            OptionError: One is missing, not known, or cannot be meant.
        """
        reader = OptionReader(options)
        if reader.has("path"):
            msg = "a destination is no path: use .option('destination', ...).save() or .start(), without an argument"
            raise OptionError(msg)
        headers = reader.headers("sendHeaders")
        persistent = reader.flag(_PERSISTENT, default=True)
        if persistent:
            # RabbitMQ loses a message with persistent:false where nobody listens: it is left out.
            headers = {_PERSISTENT: "true"} | headers
        made = cls(
            connection=ConnectionOptions.read(reader),
            destination=reader.text("destination"),
            write_mode=reader.choice("writeMode", WriteMode, WriteMode.AUTO),
            receipt_window=reader.whole("receiptWindow", _RECEIPT_WINDOW),
            in_flight_bytes=reader.octets("maxInFlightBytes", _IN_FLIGHT_BYTES),
            transaction_bytes=reader.octets("maxTransactionBytes", _TRANSACTION_BYTES),
            dedup_ids=reader.choice("dedupIds", DedupIds, DedupIds.CONTENT),
            dedup_header=reader.text("dedupHeader"),
            dedup_id_column=reader.text("dedupIdColumn") or DEDUP_ID,
            headers=tuple(headers.items()),
        )
        reader.refuse_unknown("the STOMP sink")
        return made

    def task_plan(self, scope: str) -> TaskPlan:
        """What a task has to do.

        Args:
            scope: What the ids of this task begin with.
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
        """What to say of rows that a failed write has left at the broker.

        Args:
            confirmed: How many, for people.
        """
        tasks = f"{confirmed}; these stay where they were sent, STOMP takes nothing back"
        if self.write_mode is WriteMode.TRANSACTION:
            tasks += "; tasks that failed before COMMIT have left nothing"
        else:
            tasks += "; of tasks that failed, some rows may be there"
        if self.dedup_ids is DedupIds.NONE:
            return f"{tasks}; running it again sends them a second time"
        return f"{tasks}; a stream that is run again sends them with the same ids"
