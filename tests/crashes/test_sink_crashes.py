"""The crash matrix of the sink: a process dies at each step, everything is run again, and the queue is looked at.

No row may be lost, and no row may be there twice for a consumer that drops what bears an id it has seen. On a broker
that does that itself nothing may be there twice at all.
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

from tests.crashes.dying_sink import DyingSink
from tests.crashes.targets import Target
from trio_stomp.spark.sink_writer import Step, WriteMode

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "sink_job.py"
# Six chunks of rows or so, in two tasks.
ROWS = 6_000
DEADLINE = 120.0

MODES = pytest.mark.parametrize("mode", list(WriteMode), ids=lambda mode: mode.value)
STEPS = pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name.lower())


def settings(target: Target, folder: Path, queue: str, mode: WriteMode, step: Step) -> dict[str, str]:
    rows = folder / "in"
    rows.mkdir()
    (rows / "rows.txt").write_text("".join(f"{number}\n" for number in range(ROWS)), "utf-8")
    return {
        **target.options,
        "destination": queue,
        "writeMode": mode.value,
        "dieAt": step.value,
        "mark": str(folder / "mark"),
        "victim": "0",
        "folder": str(folder),
    }


def judge(target: Target, queue: str, folder: Path) -> None:
    assert (folder / "mark").exists(), "nothing has died: this test shows nothing"
    expected = set(map(str, range(ROWS)))
    drained = target.drain(queue, expected)
    assert expected == set(drained.bodies), "rows were lost"
    assert sorted(expected) == sorted(drained.kept), "rows are there twice under different ids"
    if target.drops_duplicates:
        assert drained.copies == 0


@MODES
@STEPS
def test_worker_when_it_dies_at_a_step_then_each_row_is_there_once(
    spark: SparkSession, target: Target, tmp_path: Path, mode: WriteMode, step: Step
) -> None:
    spark.dataSource.register(DyingSink)
    queue = target.new_queue()
    options = settings(target, tmp_path, queue, mode, step)
    # The death of a task is cured by Spark; that of the process that notes the batch fails the query.
    for _ in range(2):
        try:
            run_query(spark, options)
            break
        except PySparkException:
            continue

    judge(target, queue, tmp_path)


def run_query(spark: SparkSession, options: dict[str, str]) -> None:
    given = dict(options)
    folder = Path(given.pop("folder"))
    rows = spark.readStream.schema("body STRING").text(str(folder / "in"))
    writing = rows.repartition(2).writeStream.format("dying").options(**given)
    started = writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    started.awaitTermination()


@MODES
@pytest.mark.parametrize("step", [Step.SENDING, Step.CONFIRMED, Step.BATCH_DONE], ids=lambda step: step.name.lower())
def test_driver_when_it_dies_at_a_step_then_each_row_is_there_once(
    target: Target, tmp_path: Path, mode: WriteMode, step: Step
) -> None:
    queue = target.new_queue()
    options = settings(target, tmp_path, queue, mode, step)
    command = [sys.executable, str(JOB), json.dumps(options)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}

    first = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)
    again = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)

    assert first.returncode != 0
    assert again.returncode == 0, again.stderr.decode()
    judge(target, queue, tmp_path)
