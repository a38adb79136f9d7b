"""The crash matrix of the sink: a process dies at each step, everything is run again, and the queue is looked at.

No row may be lost, and no row may be there twice for a consumer that drops what bears an id it has seen. On a broker
that does that itself nothing may be there twice at all.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.crashes.driver import run_twice
from tests.crashes.dying_sink import DyingSink, run_query
from tests.crashes.sink_steps import SinkStep
from tests.crashes.targets import Target, combinations
from trio_stomp.spark.sink_writer import WriteMode

# Six chunks of rows or so, in two tasks.
ROWS = 6_000

WORKER_CELLS = combinations(
    [
        (WriteMode.TRANSACTION, SinkStep.CONNECTED),
        (WriteMode.TRANSACTION, SinkStep.ROWS_SENT),
        (WriteMode.TRANSACTION, SinkStep.CONFIRMED),
        (WriteMode.RECEIPT, SinkStep.SENDING),
        (WriteMode.RECEIPT, SinkStep.BATCH_DONE),
        (WriteMode.AUTO, SinkStep.SENDING),
        (WriteMode.AUTO, SinkStep.CONFIRMED),
    ],
    list(itertools.product(WriteMode, SinkStep)),
)
DRIVER_CELLS = combinations(
    [
        (WriteMode.TRANSACTION, SinkStep.CONFIRMED),
        (WriteMode.RECEIPT, SinkStep.SENDING),
        (WriteMode.AUTO, SinkStep.SENDING),
        (WriteMode.AUTO, SinkStep.BATCH_DONE),
    ],
    list(itertools.product(WriteMode, [SinkStep.SENDING, SinkStep.CONFIRMED, SinkStep.BATCH_DONE])),
)


def settings(target: Target, folder: Path, queue: str, mode: WriteMode, step: SinkStep) -> dict[str, str]:
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


@pytest.mark.parametrize(("mode", "step"), WORKER_CELLS, ids=lambda value: value.name.lower())
def test_worker_when_it_dies_at_a_step_then_each_row_is_there_once(
    spark: SparkSession, sink_target: Target, tmp_path: Path, mode: WriteMode, step: SinkStep
) -> None:
    spark.dataSource.register(DyingSink)
    queue = sink_target.new_queue()
    options = settings(sink_target, tmp_path, queue, mode, step)
    # The death of a task is cured by Spark; that of the process that notes the batch fails the query.
    for _ in range(2):
        try:
            run_query(spark, options)
            break
        except PySparkException:
            continue

    judge(sink_target, queue, tmp_path)


@pytest.mark.parametrize(("mode", "step"), DRIVER_CELLS, ids=lambda value: value.name.lower())
def test_driver_when_it_dies_at_a_step_then_each_row_is_there_once(
    sink_target: Target, tmp_path: Path, mode: WriteMode, step: SinkStep
) -> None:
    queue = sink_target.new_queue()
    options = settings(sink_target, tmp_path, queue, mode, step)

    run_twice("sink", options)

    judge(sink_target, queue, tmp_path)
