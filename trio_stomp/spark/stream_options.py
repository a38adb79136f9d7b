"""The options of ``spark.readStream.format("stomp")``."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.intake_options import IntakeOptions, destinations_of, named_together
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.stream_offsets import Offset, checked

__all__ = ["SpoolTransport", "Start", "StreamOptions"]

_POLL_SECONDS: Final = 0.2
_MAX_PARTITIONS: Final = 8
# As in Spark's source for Kafka.
_MAX_DELAY_SECONDS: Final = 900.0
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


class Start(enum.Enum):
    """The words of the option ``startingOffsets``; see `Planner.first`, `Planner.earliest` and `Planner.latest`."""

    UNREAD = "unread"
    EARLIEST = "earliest"
    LATEST = "latest"


def _starting(reader: OptionReader) -> Start | Offset:
    """Read the option ``startingOffsets``; raises OptionError if it is neither a word nor an offset."""
    value = reader.text("startingOffsets")
    if value is None:
        return Start.UNREAD
    for word in Start:
        if word.value == value.strip().lower():
            return word
    expected = "unread, earliest, latest, or an offset as Spark's progress reports print it"
    if not value.lstrip().startswith("{"):
        msg = f"the option 'startingOffsets' must be {expected}, got {value!r}"
        raise OptionError(msg)
    try:
        found: dict[str, object] = json.loads(value)
        return checked(found, named_together(destinations_of(reader)))
    except ValueError as error:
        msg = f"the option 'startingOffsets' must be {expected}, got {value!r}: {error}"
        raise OptionError(msg) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of a stream, as in the manual: durations in seconds, sizes in bytes, and None for no limit."""

    intake: IntakeOptions
    receivers: int
    max_rows: int | None
    max_bytes: int | None
    min_rows: int
    max_delay: float
    min_partitions: int
    max_partitions: int
    poll_timeout: float
    fail_on_data_loss: bool
    starting: Start | Offset
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
            max_bytes=reader.size_or_none("maxBytesPerTrigger"),
            min_rows=reader.whole("minOffsetsPerTrigger", 1),
            max_delay=reader.seconds("maxTriggerDelayMs", _MAX_DELAY_SECONDS),
            min_partitions=reader.whole("minPartitions", 1),
            max_partitions=reader.whole("maxPartitions", _MAX_PARTITIONS),
            poll_timeout=reader.seconds("pollTimeoutMs", _POLL_SECONDS),
            fail_on_data_loss=reader.flag("failOnDataLoss", default=True),
            starting=_starting(reader),
            available_idle=reader.seconds("availableNowIdleMs", _AVAILABLE_IDLE_SECONDS, least=0),
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
        if self.max_rows is not None and self.min_rows > self.max_rows:
            msg = (
                f"the option 'minOffsetsPerTrigger' is {self.min_rows}, and a batch has at most {self.max_rows} rows "
                "(maxOffsetsPerTrigger, or 10000 with spoolTransport=inline); the first must not be the larger one"
            )
            raise OptionError(msg)
        for destination in self.intake.destinations:
            if self.receivers > 1 and destination.startswith(_COPYING):
                msg = (
                    f"the option 'receivers' is {self.receivers}, but {destination!r} gives each of them every "
                    "message; use 1, or a queue"
                )
                raise OptionError(msg)
