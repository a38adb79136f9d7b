"""The crash matrix of the source: a process dies at each step, the query is run again, and the table is looked at.

The table is idempotent: Spark's own file sink, which notes each batch. So a row that is missing was lost by the source,
and one that is there twice was doubled by it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.crashes.driver import run_twice
from tests.crashes.dying_source import DyingSource, run_query
from tests.crashes.source_steps import SourceStep
from tests.crashes.targets import Target, combinations

ROWS = 3_000
# Several segments for a batch, several batches for the queue.
SIZES = {"prefetch": "300", "segmentRows": "200", "maxOffsetsPerTrigger": "700", "maxSpoolBytes": "400k"}
TRIES = 3

# Receivers on executors are killed at the other steps, which are the same code.
STEPS = combinations(
    [SourceStep.RECEIVED, SourceStep.ACKNOWLEDGED, SourceStep.OFFSET, SourceStep.READ, SourceStep.DELETED],
    list(SourceStep),
)
DRIVER_STEPS = combinations([SourceStep.STORED, SourceStep.READ], [SourceStep.ACKNOWLEDGED, SourceStep.PARTITIONS])


def name_of(step: SourceStep) -> str:
    return step.name.lower()


def settings(target: Target, folder: Path, step: SourceStep, *, ids: bool = True) -> dict[str, str]:
    queue = target.new_queue()
    target.fill(queue, map(str, range(ROWS)), ids=ids)
    return {
        **target.options,
        **SIZES,
        # Real brokers may pause in the middle of a queue.
        "availableNowIdleMs": "1000" if target.name == "embedded" else "3000",
        "subscribe": queue,
        "spoolLocation": str(folder / "spool"),
        "dieAt": step.name.lower(),
        # Not at the very first time: there should be something before it.
        "after": "0" if step in {SourceStep.READ, SourceStep.DELETING, SourceStep.DELETED} else "1",
        "mark": str(folder / "mark"),
        "victim": "0",
        "folder": str(folder),
    }


def judge(spark: SparkSession, target: Target, options: dict[str, str], rows: int) -> None:
    folder = Path(options["folder"])
    assert Path(options["mark"]).exists(), "nothing has died: this test shows nothing"
    found = [row.n for row in spark.read.schema("n INT").parquet(str(folder / "table")).collect()]
    assert set(found) == set(range(rows)), "rows were lost"
    assert sorted(found) == list(range(rows)), "rows are there twice"
    assert target.drain(options["subscribe"], set()).bodies == [], "the broker has some still"


@pytest.mark.parametrize("step", STEPS, ids=name_of)
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


@pytest.mark.parametrize("step", DRIVER_STEPS, ids=name_of)
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

    run_twice("source", options)

    judge(spark, target, options, 2 * ROWS)
