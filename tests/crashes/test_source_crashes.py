"""The crash matrix of the source: a process dies at each step, the query is run again, and the table is looked at.

The table is idempotent: Spark's own file sink, which notes each batch. So a row that is missing was lost by the source,
and one that is there twice was doubled by it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.crashes.dying_source import DyingSource
from tests.crashes.targets import Target
from trio_stomp.spark.source_steps import SourceStep

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "source_job.py"
ROWS = 3_000
# Several segments for a batch, several batches for the queue.
SIZES = {"prefetch": "300", "segmentRows": "200", "maxOffsetsPerTrigger": "700"}
DEADLINE = 120
TRIES = 3

STEPS = pytest.mark.parametrize("step", list(SourceStep), ids=lambda step: step.name.lower())


def settings(target: Target, folder: Path, step: SourceStep) -> dict[str, str]:
    queue = target.new_queue()
    target.fill(queue, map(str, range(ROWS)))
    return {
        **target.options,
        **SIZES,
        # Real brokers may pause in the middle of a queue.
        "availableNowIdleMs": "1000" if target.name == "embedded" else "3000",
        "subscribe": queue,
        "spoolLocation": str(folder / "spool"),
        "dieAt": step.name.lower(),
        # Not at the very first time: there should be something before it.
        "after": "0" if step in {SourceStep.READ, SourceStep.COMMITTING, SourceStep.COMMITTED} else "1",
        "mark": str(folder / "mark"),
        "victim": "0",
        "folder": str(folder),
    }


def run_query(spark: SparkSession, options: dict[str, str]) -> None:
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


def judge(spark: SparkSession, target: Target, options: dict[str, str], rows: int) -> None:
    folder = Path(options["folder"])
    assert Path(options["mark"]).exists(), "nothing has died: this test shows nothing"
    found = [row.n for row in spark.read.schema("n INT").parquet(str(folder / "table")).collect()]
    assert set(found) == set(range(rows)), "rows were lost"
    assert sorted(found) == list(range(rows)), "rows are there twice"
    assert target.drain(options["subscribe"], set()).bodies == [], "the broker has some still"


@STEPS
def test_process_of_the_source_when_it_dies_at_a_step_then_each_row_is_there_once(
    spark: SparkSession, target: Target, tmp_path: Path, step: SourceStep
) -> None:
    spark.dataSource.register(DyingSource)
    options = settings(target, tmp_path, step)
    # The death of a task is cured by Spark; that of the source itself fails the query.
    for _ in range(TRIES):
        try:
            run_query(spark, options)
            break
        except PySparkException:
            continue

    judge(spark, target, options, ROWS)


@pytest.mark.parametrize(
    "step",
    [SourceStep.RENAMED, SourceStep.ACKNOWLEDGED, SourceStep.PARTITIONS, SourceStep.READ],
    ids=lambda step: step.name.lower(),
)
def test_driver_when_it_dies_at_a_step_then_each_row_is_there_once(
    spark: SparkSession, target: Target, tmp_path: Path, step: SourceStep
) -> None:
    spark.dataSource.register(DyingSource)
    options = settings(target, tmp_path, step)
    # Spark itself does not start again where it was killed in the first batch of all, with half a note of it.
    Path(options["mark"]).touch()
    run_query(spark, options)
    Path(options["mark"]).unlink()
    options["after"] = "0"
    target.fill(options["subscribe"], map(str, range(ROWS, 2 * ROWS)))
    command = [sys.executable, str(JOB), json.dumps(options)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}

    first = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)
    again = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)

    assert first.returncode != 0
    assert again.returncode == 0, again.stderr.decode()
    judge(spark, target, options, 2 * ROWS)
