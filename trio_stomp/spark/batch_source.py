"""The batch source as Spark calls it: ``spark.read.format("stomp")``.

Spark asks for the partitions once for each ``load()``, when its first action is planned, and gives the same ones to
every action on the DataFrame and on what is derived from it. So that is when the destination is drained; the rows are
read from the spool from then on, as often as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from trio_stomp.spark.batch_drain import drain
from trio_stomp.spark.batch_options import BatchOptions
from trio_stomp.spark.segment_slices import SegmentGroup, grouped, rows_of
from trio_stomp.spark.spark_schema import refuse_other

__all__ = ["StompBatchReader", "batch_reader"]


class StompBatchReader(DataSourceReader):
    """Drains a destination, and reads what was drained.

    Args:
        options: What to drain, and into which spool.
    """

    def __init__(self, options: BatchOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Drain the destination; the groups of segments that came of it."""
        slices = drain(self.options)
        groups: list[InputPartition] = [SegmentGroup(group) for group in grouped(slices, self.options.max_partitions)]
        # With no partition at all Spark would make up one.
        return groups or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group of segments."""
        return rows_of(self.options.intake.spool, partition, self.options.intake.columns.arrow_schema().names)


def batch_reader(options: BatchOptions, schema: StructType) -> StompBatchReader:
    """The reader of a DataFrame.

    Raises:
        ValueError: The user has given a schema of their own.
    """
    refuse_other(options.intake.columns, schema)
    return StompBatchReader(options)
