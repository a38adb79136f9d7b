"""The batch source in Spark: the shared session, an embedded broker at the other end."""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.receiving import QUEUE
from trio_stomp.testing import Broker, ThreadedBroker


def publish(broker: ThreadedBroker, count: int) -> None:
    def put(inner: Broker) -> None:
        for number in range(count):
            headers = [("content-type", "application/json"), ("parity", str(number % 2))]
            inner.publish(QUEUE, json.dumps({"n": number}), headers)

    broker.call(put)


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


def test_destination_when_empty_then_no_rows(spark: SparkSession, connection: dict[str, str], tmp_path: Path) -> None:
    assert load(spark, connection, tmp_path).collect() == []
