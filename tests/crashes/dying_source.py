"""A streaming source that kills a process at one step, once: the first process to get there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyarrow import RecordBatch
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tests.crashes.dying_sink import die_once
from tests.crashes.source_steps import SourceStep, watch_intake, watch_planner
from trio_stomp.spark import StompDataSource
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_source import StompStreamReader

__all__ = ["DyingSource", "run_query"]

DEADLINE = 300


class DyingSource(DataSource):
    """The source, under another name and with options for its death.

    ``dieat``: the step; ``mark``: a file that remembers that it was done; ``victim``: a process to kill, instead of
    the one that has come so far; ``after``: how many times the step is passed before.
    """

    @classmethod
    def name(cls) -> str:
        return "dying_source"

    def schema(self) -> StructType:
        given, _ = self._split()
        return StompDataSource(given).schema()

    def _split(self) -> tuple[dict[str, str], dict[str, str]]:
        given = {name.lower(): value for name, value in self.options.items()}
        return given, {name: given.pop(name) for name in ("dieat", "mark", "victim", "after")}

    def streamReader(self, schema: StructType) -> StompStreamReader:  # noqa: N802  # Spark's name
        given, death = self._split()
        return DyingReader(StreamOptions.read(given), death)


class DyingReader(StompStreamReader):
    def __init__(self, options: StreamOptions, death: dict[str, str]) -> None:
        super().__init__(options)
        self.death = death
        self.times = 0
        self.watched = False

    def passed(self, step: SourceStep) -> None:
        if step.name.lower() != self.death["dieat"]:
            return
        self.times += 1
        if self.times > int(self.death["after"]):
            die_once(Path(self.death["mark"]), int(self.death["victim"]) or os.getpid())

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802  # Spark's name
        # Only the process that receives is asked for offsets.
        if not self.watched:
            self.watched = True
            watch_intake(self.passed)
            watch_planner(self.passed)
        end = super().latestOffset(start, limit)
        self.passed(SourceStep.OFFSET)
        return end

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        found = super().partitions(start, end)
        self.passed(SourceStep.PARTITIONS)
        return found

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        yield from super().read(partition)
        self.passed(SourceStep.READ)


def run_query(spark: SparkSession, options: dict[str, str]) -> None:
    """Read the queue into a table."""
    given = dict(options)
    folder = Path(given.pop("folder"))
    numbers = spark.readStream.format("dying_source").options(**given).load()
    writing = numbers.selectExpr("CAST(CAST(body AS STRING) AS INT) AS n").writeStream.format("parquet")
    writing = writing.option("path", str(folder / "table")).option("checkpointLocation", str(folder / "checkpoint"))
    started = writing.trigger(availableNow=True).start()
    try:
        assert started.awaitTermination(DEADLINE), "the query hangs"
    finally:
        started.stop()
