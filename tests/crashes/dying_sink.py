"""A sink that kills a process at one step, once: the first process to get there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyarrow import RecordBatch
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from tests.crashes.sink_steps import SinkStep, watched_task
from trio_stomp.spark.sink_writer import SinkOptions
from trio_stomp.spark.sinks import StompStreamWriter, TaskCommitted

__all__ = ["DyingSink", "die_once", "run_query"]


def die_once(mark: Path, victim: int) -> None:
    """Kill a process, unless that was done before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(victim, signal.SIGKILL)
    if victim != os.getpid():
        # Without its driver this process has nothing to do any more.
        os.kill(os.getpid(), signal.SIGKILL)


class DyingSink(DataSource):
    """The sink, under another name and with options for its death.

    ``dieat``: the step; ``mark``: a file that remembers that it was done; ``victim``: a process to kill, instead of
    the one that has come so far.
    """

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StompStreamWriter:  # noqa: N802  # Spark's name
        given = {name.lower(): value for name, value in self.options.items()}
        step, mark, victim = given.pop("dieat"), given.pop("mark"), given.pop("victim")
        return DyingWriter(SinkOptions.read(given), step, mark, int(victim))


class DyingWriter(StompStreamWriter):
    def __init__(self, options: SinkOptions, step: str, mark: str, victim: int) -> None:
        super().__init__(options)
        self.step = step
        self.mark = mark
        self.victim = victim

    def passed(self, step: SinkStep) -> None:
        if step.value == self.step:
            die_once(Path(self.mark), self.victim or os.getpid())

    def write(self, iterator: Iterator[Row | RecordBatch]) -> TaskCommitted:
        with watched_task(self.passed):
            committed = super().write(iterator)
        self.passed(SinkStep.CONFIRMED)
        return committed

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        super().commit(messages, batchId)
        self.passed(SinkStep.BATCH_DONE)


def run_query(spark: SparkSession, options: dict[str, str]) -> None:
    """Write the rows of a folder."""
    given = dict(options)
    folder = Path(given.pop("folder"))
    rows = spark.readStream.schema("body STRING").text(str(folder / "in"))
    writing = rows.repartition(2).writeStream.format("dying").options(**given)
    started = writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    started.awaitTermination()
