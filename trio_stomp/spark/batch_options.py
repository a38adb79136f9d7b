"""The options of ``spark.read.format("stomp")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.option_reader import OptionReader

__all__ = ["BatchOptions"]

_IDLE_SECONDS: Final = 2.0
_MAX_PARTITIONS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of a batch read.

    Attributes:
        intake: What to receive, and how to store it.
        max_rows: Maximum number of rows; None: all.
        idle_timeout: Seconds without a message that end the read.
        max_partitions: Maximum number of tasks that read the rows.
    """

    intake: IntakeOptions
    max_rows: int | None
    idle_timeout: float
    max_partitions: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> BatchOptions:
        """Read the options of ``spark.read``.

        Raises:
            OptionError: An option is missing, unknown or invalid.
        """
        reader = OptionReader(options)
        made = cls(
            intake=IntakeOptions.read(reader),
            max_rows=reader.whole_or_none("maxRows"),
            idle_timeout=reader.seconds("idleTimeoutMs", _IDLE_SECONDS),
            max_partitions=reader.whole("maxPartitions", _MAX_PARTITIONS),
        )
        reader.refuse_unknown("the STOMP batch source")
        return made
