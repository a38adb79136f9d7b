"""The batch source in Spark: the shared session, an embedded broker at the other end."""

import json
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from trio_stomp.spark.batch_source import BatchOptions, StompBatchReader, batch_reader
from trio_stomp.spark.segment_slices import SegmentGroup
from trio_stomp.spark.spark_schema import spark_schema
from trio_stomp.testing import Broker, ThreadedBroker

QUEUE = "/queue/a"


def publish(broker: ThreadedBroker, count: int) -> None:
    for number in range(count):
        broker.call(partial(put, number=number))


def put(broker: Broker, *, number: int) -> None:
    headers = [("content-type", "application/json"), ("parity", str(number % 2))]
    broker.publish(QUEUE, json.dumps({"n": number}), headers)


def load(spark: SparkSession, connection: dict[str, str], spool: Path, **options: str) -> DataFrame:
    needed = {"subscribe": QUEUE, "spoolLocation": str(spool), "idleTimeoutMs": "400"}
    return spark.read.format("stomp").options(**connection, **needed, **options).load()


def test_destination_when_loaded_then_every_action_sees_the_same_rows(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    publish(threaded_broker, 120)
    messages = load(spark, connection, tmp_path, includeHeaders="true", segmentRows="50")

    assert messages.count() == 120
    publish(threaded_broker, 5)
    numbers = messages.select(f.get_json_object(f.col("body").cast("string"), "$.n").cast("int").alias("n"))
    assert sorted(row.n for row in numbers.collect()) == list(range(120))
    odd = messages.where(f.col("headers")["parity"] == "1")
    assert odd.union(odd).count() == 120
    (row,) = messages.where("seq = 1").collect()
    assert (row.destination, row.content_type, bytes(row.body)) == (QUEUE, "application/json", b'{"n": 0}')
    assert threaded_broker.call(lambda broker: broker.depth(QUEUE)) == 5


def test_destination_when_loaded_twice_then_the_second_has_what_came_since(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    publish(threaded_broker, 10)
    first = load(spark, connection, tmp_path)
    assert first.count() == 10
    publish(threaded_broker, 3)

    assert load(spark, connection, tmp_path).count() == 3
    assert first.count() == 10


def test_destination_when_empty_then_no_rows(spark: SparkSession, connection: dict[str, str], tmp_path: Path) -> None:
    assert load(spark, connection, tmp_path).collect() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxRow": "1"}, "did you mean 'maxRows'"),
        ({"spoolLocation": "spool"}, "must be an absolute path"),
    ],
)
def test_read_when_it_cannot_be_meant_then_refused(
    spark: SparkSession, connection: dict[str, str], tmp_path: Path, options: dict[str, str], said: str
) -> None:
    needed = {"subscribe": QUEUE, "spoolLocation": str(tmp_path)}

    with pytest.raises(PySparkException, match=said):
        spark.read.format("stomp").options(**{**connection, **needed, **options}).load().count()


OPTIONS = BatchOptions.read({"brokers": "b", "subscribe": QUEUE, "spoolLocation": "/spool"})


def test_schema_when_the_user_gives_another_one_then_refused() -> None:
    assert batch_reader(OPTIONS, spark_schema(OPTIONS.intake.columns)).options == OPTIONS
    with pytest.raises(ValueError, match=r"leave out \.schema"):
        batch_reader(OPTIONS, StructType([]))


def test_partition_when_it_is_of_another_source_then_refused() -> None:
    with pytest.raises(TypeError, match="expected a partition of this source"):
        list(StompBatchReader(OPTIONS).read(InputPartition(None)))
    assert list(StompBatchReader(OPTIONS).read(SegmentGroup(()))) == []
