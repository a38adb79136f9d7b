"""The data source as Spark finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark.receiving import QUEUE, publish
from trio_stomp.errors import StompError
from trio_stomp.spark import StompDataSource
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.spark_schema import spark_schema
from trio_stomp.testing import ThreadedBroker

NEEDED = {"brokers": "stomp://localhost:61613", "subscribe": "/queue/a", "spoolLocation": "/spool"}


def test_name_when_asked_then_the_format_of_the_options() -> None:
    assert StompDataSource.name() == "stomp"


def test_schema_when_no_option_says_otherwise_then_the_columns_of_messages() -> None:
    assert StompDataSource(NEEDED).schema() == spark_schema(MessageColumns())
    assert "headers" in StompDataSource({**NEEDED, "includeHeaders": "true"}).schema().fieldNames()


@pytest.mark.parametrize("option", [{"maxRows": "5"}, {"maxOffsetsPerTrigger": "5"}])
def test_schema_when_options_are_those_of_a_batch_or_of_a_stream_then_accepted(option: dict[str, str]) -> None:
    assert StompDataSource({**NEEDED, **option}).schema() == spark_schema(MessageColumns())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxOffsetPerTrigger": "5"}, "the STOMP source .*'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'"),
        ({"maxRow": "5"}, "the STOMP source .*'maxrow'; did you mean 'maxRows'"),
        (
            {"somethingElse": "x"},
            "the STOMP source .*'somethingelse'; there are .*maxOffsetsPerTrigger.*maxRows",
        ),
        ({"kafka.bootstrap.servers": "x"}, "no option 'kafka.bootstrap.servers'; name the brokers with 'brokers'"),
        ({"maxRowsPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"url": "stomp://a:1"}, "no option 'url'; name the brokers with 'brokers'"),
        ({"user": "a"}, "no option 'user'; did you mean 'login'"),
        ({"subscribePattern": "/queue/.*"}, "STOMP cannot list destinations"),
        ({"endingOffsets": "latest"}, "ends when nothing has come for 'idleTimeoutMs'"),
        ({"maxRows": "5", "maxOffsetsPerTrigger": "5"}, "the STOMP streaming source has no option 'maxrows'"),
        ({"receivers": "-1"}, "'receivers' must be a whole number from 0"),
        ({"prefetch": "x"}, "'prefetch' must be a whole number from 1"),
        ({"passcode": "x"}, r"use .option\('password', ...\)"),
    ],
)
def test_schema_when_options_are_wrong_for_batch_and_stream_then_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        StompDataSource({**NEEDED, **options}).schema()


@pytest.mark.parametrize("option", list(NEEDED))
def test_schema_when_a_needed_option_is_missing_then_it_says_which(option: str) -> None:
    source = StompDataSource({name: value for name, value in NEEDED.items() if name != option})
    with pytest.raises(ValueError, match=f"'{option}' is missing"):
        source.schema()


def test_source_when_spark_passes_no_options_then_it_says_what_to_use_in_place_of_a_table() -> None:
    source = StompDataSource({})
    columns = spark_schema(MessageColumns())

    for ask in (
        source.schema,
        lambda: source.reader(columns),
        lambda: source.streamReader(columns),
        lambda: source.writer(columns, overwrite=False),
    ):
        with pytest.raises(ValueError, match=r"CREATE TEMPORARY VIEW .* USING stomp OPTIONS"):
            ask()


def test_load_when_an_option_is_wrong_then_it_fails(spark: SparkSession) -> None:
    given = {**NEEDED, "maxOffsetPerTrigger": "5"}

    with pytest.raises(AnalysisException, match="did you mean 'maxOffsetsPerTrigger'"):
        spark.readStream.format("stomp").options(**given).load()
    with pytest.raises(AnalysisException, match="did you mean 'maxOffsetsPerTrigger'"):
        spark.read.format("stomp").options(**given).load()


def test_view_when_made_with_sql_then_its_rows_are_the_messages_each_time(
    spark: SparkSession, connection: dict[str, str], threaded_broker: ThreadedBroker, tmp_path: Path
) -> None:
    publish(threaded_broker, range(5))
    given = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path / "spool"), "idleTimeoutMs": "300"}
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING stomp OPTIONS ({options})")

    for _ in range(2):
        found = spark.sql("SELECT CAST(CAST(body AS STRING) AS INT) AS n FROM orders WHERE NOT redelivered").collect()
        assert sorted(row.n for row in found) == list(range(5))


def test_reader_when_an_option_is_unknown_then_the_nearest_is_named() -> None:
    source = StompDataSource({**NEEDED, "maxRow": "5"})
    with pytest.raises((StompError, ValueError), match="maxRows"):
        source.reader(spark_schema(MessageColumns()))


@pytest.mark.parametrize("option", list(NEEDED))
def test_reader_when_a_needed_option_is_missing_then_it_says_which(option: str) -> None:
    source = StompDataSource({name: value for name, value in NEEDED.items() if name != option})
    with pytest.raises((StompError, ValueError), match=f"'{option}' is missing"):
        source.reader(spark_schema(MessageColumns()))
