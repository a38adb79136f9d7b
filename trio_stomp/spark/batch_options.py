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
    """What the options of a batch read say.

    Attributes:
        intake: What to take, and how it is kept.
        max_rows: No more than so many rows; None: all there are.
        idle_timeout: Seconds without a message that end the read.
        max_partitions: In how many tasks the rows are read at most.
    """

    intake: IntakeOptions
    max_rows: int | None
    idle_timeout: float
    max_partitions: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> BatchOptions:
        """Read the options of ``spark.read``.

        Raises:
            OptionError: One is missing, not known, or cannot be meant.
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
