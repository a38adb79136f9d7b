"""The options of ``spark.readStream.format("stomp")``."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.option_reader import OptionError, OptionReader

__all__ = ["SpoolTransport", "StreamOptions"]

_POLL_SECONDS: Final = 0.2
_MAX_PARTITIONS: Final = 8
_AVAILABLE_IDLE_SECONDS: Final = 2.0
_AVAILABLE_SECONDS: Final = 300.0
# The driver keeps the rows inside the plan of a batch, more than once.
_INLINE_ROWS: Final = 10_000
# There, each message goes to every subscriber, so each receiver would get all of them.
_COPYING: Final = ("/topic/", "/exchange/", "topic://")


class SpoolTransport(enum.Enum):
    """How executors get the rows."""

    FILE = "file"
    INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of a stream.

    Attributes:
        intake: What to receive, and how to store it.
        receivers: How many processes receive, each with a connection and a shard of the spool; 1: the driver's own;
            0: none, others fill the spool.
        max_rows: Maximum number of rows in a batch; None: all.
        min_partitions: Minimum number of tasks that read a batch, if it has enough rows.
        max_partitions: Maximum number of tasks.
        poll_timeout: How many seconds Spark's request for new rows waits for some.
        fail_on_data_loss: Whether planned rows that are missing in the spool fail the query.
        available_idle: Seconds without a message that end a run with ``Trigger.AvailableNow``.
        available_timeout: Seconds after which such a run receives no more messages.
        transport: How executors get the rows.
    """

    intake: IntakeOptions
    receivers: int
    max_rows: int | None
    min_partitions: int
    max_partitions: int
    poll_timeout: float
    fail_on_data_loss: bool
    available_idle: float
    available_timeout: float
    transport: SpoolTransport

    @classmethod
    def read(cls, options: Mapping[str, str]) -> StreamOptions:
        """Read the options of ``spark.readStream``.

        Raises:
            OptionError: An option is missing, unknown or invalid.
        """
        reader = OptionReader(options)
        transport = reader.choice("spoolTransport", SpoolTransport, SpoolTransport.FILE)
        max_rows = reader.whole_or_none("maxOffsetsPerTrigger")
        made = cls(
            intake=IntakeOptions.read(reader),
            receivers=reader.whole("receivers", 1, least=0),
            max_rows=_INLINE_ROWS if max_rows is None and transport is SpoolTransport.INLINE else max_rows,
            min_partitions=reader.whole("minPartitions", 1),
            max_partitions=reader.whole("maxPartitions", _MAX_PARTITIONS),
            poll_timeout=reader.seconds("pollTimeoutMs", _POLL_SECONDS),
            fail_on_data_loss=reader.flag("failOnDataLoss", default=True),
            available_idle=reader.seconds("availableNowIdleMs", _AVAILABLE_IDLE_SECONDS),
            available_timeout=reader.seconds("availableNowTimeoutMs", _AVAILABLE_SECONDS),
            transport=transport,
        )
        reader.refuse_unknown("the STOMP streaming source")
        made._check()
        return made

    def _check(self) -> None:
        if self.min_partitions > self.max_partitions:
            msg = (
                f"the option 'minPartitions' is {self.min_partitions} and 'maxPartitions' is {self.max_partitions}; "
                "the first must not be the larger one"
            )
            raise OptionError(msg)
        if self.receivers > 1 and self.intake.destination.startswith(_COPYING):
            msg = (
                f"the option 'receivers' is {self.receivers}, but {self.intake.destination!r} gives each of them every "
                "message; use 1, or a queue"
            )
            raise OptionError(msg)
