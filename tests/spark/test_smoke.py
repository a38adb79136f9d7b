"""Each way of using the data source, on any version of PySpark: scripts/pyspark_versions runs this on older ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.waiting import wait_until


def table(spark: SparkSession, folder: Path) -> list[int]:
    found = spark.read.schema("number INT").parquet(str(folder)).collect() if any(folder.glob("*.parquet")) else []
    return sorted(row.number for row in found)


def has_rows(spark: SparkSession, folder: Path, count: int) -> bool:
    return len(table(spark, folder)) >= count


def test_messages_when_sent_by_batch_and_stream_and_read_by_stream_and_batch_then_each_is_there_once(
    spark: SparkSession, connection: dict[str, str], tmp_path: Path
) -> None:
    numbers = spark.range(30).select(f.col("id").cast("string").alias("body"))
    source = {**connection, "subscribe": "/queue/there", "spoolLocation": str(tmp_path / "spool")}
    back = {**connection, "subscribe": "/queue/back", "spoolLocation": str(tmp_path / "spool")}
    there = spark.readStream.format("stomp").options(**source, includeHeaders="true").load()
    to_table = there.select(f.col("body").cast("string").cast("int").alias("number")).writeStream.format("parquet")
    # A query of its own has a spool of its own.
    again = (
        spark.readStream.format("stomp").options(**{**source, "spoolLocation": str(tmp_path / "spool-again")}).load()
    )
    to_queue = again.select("body").writeStream.format("stomp").options(**connection, destination="/queue/back")

    for run in (1, 2):
        # The second run goes on where the first one was stopped.
        numbers.write.format("stomp").mode("append").options(**connection, destination="/queue/there").save()
        query = (
            to_table.option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        wait_until(query, partial(has_rows, spark, tmp_path / "table", 30 * run))
        query.stop()
    assert table(spark, tmp_path / "table") == sorted([*range(30), *range(30)])

    numbers.write.format("stomp").mode("append").options(**connection, destination="/queue/there").save()
    query = to_queue.option("checkpointLocation", str(tmp_path / "checkpoint-back")).start()
    found: list[int] = []

    def read_on() -> bool:
        read = spark.read.format("stomp").options(**back, idleTimeoutMs="200").load()
        found.extend(int(bytes(row.body)) for row in read.collect())
        return len(found) >= 30

    wait_until(query, read_on)
    query.stop()
    assert sorted(found) == list(range(30))


def test_load_when_an_option_is_unknown_then_refused(spark: SparkSession, connection: dict[str, str]) -> None:
    needed = {**connection, "subscribe": "/queue/a", "spoolLocation": "/spool"}

    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException, match="did you mean 'maxRows'"):
            reader.format("stomp").options(**needed, maxRow="1").load()
