"""The crash matrix of receivers on executors: a process dies at each step, Spark or the test starts another, and the
table is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crashes.driver import run_twice
from tests.crashes.dying_receivers import run_query
from tests.crashes.dying_source import DyingSource
from tests.crashes.source_steps import SourceStep
from tests.crashes.targets import Target, combinations
from tests.crashes.test_source_crashes import ROWS, judge, settings
from tests.kit.needed import needs
from tests.spark.s3_server import S3Proxy, run_s3_server

# Each step, and each number of receivers. The driver's own receiver is killed at the other steps.
CASES = combinations(
    [
        (2, SourceStep.WRITTEN),
        (2, SourceStep.STORED),
        (2, SourceStep.PARTITIONS),
        (2, SourceStep.DELETING),
        (1, SourceStep.STORED),
        (4, SourceStep.ACKNOWLEDGED),
    ],
    [(2, SourceStep.RECEIVED), (2, SourceStep.ACKNOWLEDGED), (4, SourceStep.STORED)],
)
ON_S3 = combinations(
    [(1, SourceStep.STORED), (2, SourceStep.DELETING), (4, SourceStep.ACKNOWLEDGED)], [(2, SourceStep.STORED)]
)
DRIVER_DIES = combinations(
    [(2, SourceStep.PARTITIONS, "local"), (4, SourceStep.STORED, "s3")], [(4, SourceStep.STORED, "local")]
)


def name_of(value: object) -> str:
    return value.name.lower() if isinstance(value, SourceStep) else str(value)


@pytest.mark.parametrize(("count", "step"), CASES, ids=name_of)
def test_receivers_on_executors_when_a_process_dies_at_a_step_then_each_row_is_there_once(
    spark: SparkSession, target: Target, tmp_path: Path, count: int, step: SourceStep
) -> None:
    """The process is that of a receiver, up to its ACK, and that of the planner after it."""
    spark.dataSource.register(DyingSource)
    options = {**settings(target, tmp_path, step), "count": str(count), "rows": str(ROWS)}

    run_query(spark, options)

    judge(spark, target, options, ROWS)


@pytest.fixture(scope="module")
def s3() -> Generator[S3Proxy]:
    needs("moto")
    with run_s3_server() as s3:
        yield s3


def on_s3(s3: S3Proxy) -> dict[str, str]:
    spool = s3.location("spool")
    return {"spoolLocation": spool.uri, "spoolOptions": json.dumps(dict(spool.settings))}


@pytest.mark.parametrize(("count", "step"), ON_S3, ids=name_of)
def test_receivers_on_executors_when_a_process_dies_and_the_spool_is_on_s3_then_each_row_is_there_once(
    spark: SparkSession, target: Target, s3: S3Proxy, tmp_path: Path, count: int, step: SourceStep
) -> None:
    spark.dataSource.register(DyingSource)
    options = {**settings(target, tmp_path, step), **on_s3(s3), "count": str(count), "rows": str(ROWS)}

    run_query(spark, options)

    judge(spark, target, options, ROWS)
    assert not (tmp_path / "spool").exists()


def test_receivers_on_executors_when_senders_set_no_ids_then_nothing_is_lost_and_few_rows_are_doubled(
    spark: SparkSession, target: Target, tmp_path: Path
) -> None:
    spark.dataSource.register(DyingSource)
    options = {**settings(target, tmp_path, SourceStep.STORED, ids=False), "count": "2", "rows": str(ROWS)}

    run_query(spark, options)

    assert Path(options["mark"]).exists(), "nothing has died: this test shows nothing"
    found = [row.n for row in spark.read.schema("n INT").parquet(str(tmp_path / "table")).collect()]
    assert set(found) == set(range(ROWS))
    assert len(found) - ROWS <= int(options["prefetch"])
    assert target.drain(options["subscribe"], set()).bodies == []


@pytest.mark.parametrize(("count", "step", "where"), DRIVER_DIES, ids=name_of)
def test_receivers_on_executors_when_their_driver_dies_then_each_row_is_there_once(
    spark: SparkSession, target: Target, s3: S3Proxy, tmp_path: Path, count: int, step: SourceStep, where: str
) -> None:
    spark.dataSource.register(DyingSource)
    options = {**settings(target, tmp_path, step), "count": str(count), "rows": str(ROWS)}
    if where == "s3":
        options |= on_s3(s3)
    # Spark itself does not start again where it was killed in the first batch of all, with half a note of it.
    Path(options["mark"]).touch()
    run_query(spark, options)
    Path(options["mark"]).unlink()
    options |= {"after": "0", "rows": str(2 * ROWS)}
    target.fill(options["subscribe"], map(str, range(ROWS, 2 * ROWS)))

    run_twice("receivers", options)

    judge(spark, target, options, 2 * ROWS)
