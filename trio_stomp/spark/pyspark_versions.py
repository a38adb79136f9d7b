"""What PySpark 4.0 and 4.1 lack, in a form that they understand.

| PySpark | lacks |
|---|---|
| 4.0 | writers of streams that take Arrow |
| 4.0, 4.1 | admission control: Spark names neither the start of a batch nor its limit; see `WithoutAdmissionControl` |
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

HAS_ADMISSION_CONTROL: Final = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:  # pragma: no cover  # scripts/pyspark_versions runs it
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A writer of streams to which PySpark 4.0 gives Arrow, because it is one of DataFrames as well."""


if TYPE_CHECKING or HAS_ADMISSION_CONTROL:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:  # pragma: no cover  # scripts/pyspark_versions runs it
    from dataclasses import dataclass

    class ReadLimit:
        """How much a batch may have."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):
        """All there is."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):
        """At most this number of rows."""

        max_rows: int

    @dataclass(frozen=True)
    class ReadMaxBytes(ReadLimit):
        """At most this number of bytes."""

        max_bytes: int

    @dataclass(frozen=True)
    class ReadMinRows(ReadLimit):
        """At least this number of rows."""

        min_rows: int

    class SupportsTriggerAvailableNow:
        """A reader that is told of ``Trigger.AvailableNow``; by no version that needs this class."""
