"""A receiver in any process. It requires neither Spark nor PySpark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from trio_stomp.spark.connection_options import Connection
from trio_stomp.spark.intake_options import STREAM, IntakeOptions
from trio_stomp.spark.option_reader import OptionReader
from trio_stomp.spark.receiver import IDLE_SECONDS, ReceiverOptions, Report, receive

__all__ = ["run_receiver"]


async def run_receiver(
    options: Mapping[str, str],
    *,
    connection: Connection | None = None,
    report: Report | None = None,
    working: Callable[[], AbstractContextManager[object]] = nullcontext,
    idle: float = IDLE_SECONDS,
    max_rows: int | None = None,
) -> None:
    """Receive into a spool until canceled, or until `max_rows` is reached.

    A query reads the rows if it has the same ``subscribe`` and ``spoolLocation``, and ``receivers`` is 0.

    Args:
        options: The options of the streaming source that concern receiving.
        connection: How to connect to the broker; None: as the options say.
        report: Receives the progress. The status in the spool contains it too.
        working: Entered around the work on a connection. If it cancels its block, the receiver ends gracefully: it
            unsubscribes and disconnects.
        idle: After how many seconds without a message to report that the destination is idle.
        max_rows: The receiver ends after this number of rows; None: no limit.

    Raises:
        OptionError: An option is missing, unknown, or wrong.
        ConnectError: The broker cannot be reached.
        ConnectionLost: The broker was unreachable for longer than ``reconnectTimeoutMs``.
        BrokerError: The broker refused the connection or the subscription.
        OperationTimeout: The broker did not confirm an ACK within ``reconnectTimeoutMs``.
        SpoolError: The spool cannot be used.

    Cancellation: a segment that is being written is finished and acknowledged; the broker redelivers the rest.
    """
    reader = OptionReader(options)
    intake = IntakeOptions.read(reader, connection)
    reader.refuse_unknown("a receiver")
    told = ReceiverOptions(intake=intake, use=STREAM, idle=idle, max_rows=max_rows)
    await receive(told, report, working=working)
