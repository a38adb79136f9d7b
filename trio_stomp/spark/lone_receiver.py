"""A receiver on its own: in any process, with neither Spark nor PySpark."""

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
    """Receive into a spool, until cancelled.

    A query with the same ``subscribe`` and ``spoolLocation``, and ``receivers`` 0, reads the rows.

    Args:
        options: Those of the streaming source that concern receiving.
        connection: How to reach the broker; None: as the options say.
        report: Who is told how far it is; None: the status in the spool is enough.
        working: Entered around the work on a connection. If its block is cancelled, and it swallows that, the receiver
            unsubscribes and disconnects.
        idle: Seconds without a message that are worth a report.
        max_rows: It ends after so many rows; None: never.

    Raises:
        OptionError: An option is missing, not known, or wrong.
        ConnectError: The broker could not be reached, for the first time.
        ConnectionLost: It was gone for too long.
        BrokerError: It refused.
        TooSlowError: It did not confirm an ACK for as long as an outage may take.
        SpoolError: The spool cannot be used.

    Cancellation: a segment that is being written is finished and acknowledged; the broker delivers the rest again.
    """
    reader = OptionReader(options)
    intake = IntakeOptions.read(reader, connection)
    reader.refuse_unknown("a receiver")
    told = ReceiverOptions(intake=intake, use=STREAM, idle=idle, max_rows=max_rows)
    await receive(told, report, working=working)
