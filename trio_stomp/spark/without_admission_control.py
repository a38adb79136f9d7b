"""The streaming source for PySpark 4.0 and 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from trio_stomp.spark.pyspark_versions import ReadAllAvailable
from trio_stomp.spark.stream_source import StompStreamReader

__all__ = ["WithoutAdmissionControl"]


class WithoutAdmissionControl(DataSourceStreamReader):
    """A reader of streams for PySpark 4.0 and 4.1, which call `latestOffset` without arguments.

    They call it when the batch that they planned last has ended, so the end of that batch is the start. On the first
    call after a restart, the checkpoint is unknown. The answer is then the newest offset, since an earlier one could be
    before the checkpoint.

    Args:
        reader: The reader.
    """

    def __init__(self, reader: StompStreamReader) -> None:
        self._reader = reader
        self._planned: dict[str, object] | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        """Return where a query without a checkpoint begins."""
        return {**self._reader.initialOffset()}

    def latestOffset(self) -> dict[str, object]:  # type: ignore[override]  # noqa: N802  # as PySpark 4.1 has it
        """Return the end of the next batch."""
        reader = self._reader
        if self._planned is None:
            self._planned = {**reader.latestOffset({**reader.initialOffset()}, ReadAllAvailable())}
        else:
            self._planned = {**reader.latestOffset(self._planned, reader.getDefaultReadLimit())}
        return self._planned

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the rows between two offsets, in parts."""
        if self._planned is None:
            # A batch that was planned before a restart.
            self._planned = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of a part."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, object]) -> None:
        """Spark needs no rows before this offset any more."""
        self._reader.commit(end)  # pyright: ignore[reportUnknownMemberType]  # PySpark says `dict` only

    def stop(self) -> None:
        """Stop receiving."""
        self._reader.stop()
