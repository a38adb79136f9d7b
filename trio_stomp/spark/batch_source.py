"""The batch source as Spark calls it: ``spark.read.format("stomp")``.

Spark asks for the partitions once for each ``load()``, when its first action is planned, and gives the same ones to
every action on the DataFrame and on what is derived from it. So that is when the destination is drained; the rows are
read from the spool from then on, as often as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from trio_stomp.spark.batch_drain import drain
from trio_stomp.spark.batch_options import BatchOptions
from trio_stomp.spark.segment_files import SegmentFile, read_segment

__all__ = ["SegmentGroup", "StompBatchReader", "batch_reader", "grouped"]

# Below so many rows another task costs more than it saves.
_ROWS_WORTH_A_TASK: Final = 5_000


class SegmentGroup(InputPartition):
    """Segments that one task reads.

    Args:
        segments: The segments, in order.
    """

    def __init__(self, segments: Sequence[SegmentFile]) -> None:
        super().__init__(None)
        self.segments = tuple(segments)


class StompBatchReader(DataSourceReader):
    """Drains a destination, and reads what was drained.

    Args:
        options: What to drain, and into which spool.
    """

    def __init__(self, options: BatchOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Drain the destination; the groups of segments that came of it."""
        segments = drain(self.options)
        groups: list[InputPartition] = [SegmentGroup(group) for group in grouped(segments, self.options.max_partitions)]
        # With no partition at all Spark would make up one.
        return groups or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a group of segments."""
        if not isinstance(partition, SegmentGroup):
            msg = f"expected a partition of this source, got a {type(partition).__name__}"
            raise TypeError(msg)
        names = self.options.columns.spark_schema().fieldNames()
        for segment in partition.segments:
            for batch in read_segment(segment.path):
                yield batch.select(names)


def batch_reader(options: BatchOptions, schema: StructType) -> StompBatchReader:
    """The reader of a DataFrame.

    Raises:
        ValueError: The user has given a schema of their own.
    """
    if schema != options.columns.spark_schema():
        msg = (
            f"the columns of messages are {options.columns.spark_schema().simpleString()}; leave out .schema(...), and "
            "make other columns of 'body' with from_json() or from_csv()"
        )
        raise ValueError(msg)
    return StompBatchReader(options)


def grouped(segments: Sequence[SegmentFile], most: int) -> list[list[SegmentFile]]:
    """Segments in groups of about as many rows each, none of them torn, in order."""
    total = sum(segment.rows for segment in segments)
    count = max(1, min(most, total // _ROWS_WORTH_A_TASK))
    groups: list[list[SegmentFile]] = [[] for _ in range(count)]
    before = 0
    for segment in segments:
        # By the middle of the segment, so that each falls into one group.
        groups[(before + segment.rows // 2) * count // max(1, total)].append(segment)
        before += segment.rows
    return [group for group in groups if group]
