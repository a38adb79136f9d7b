"""The programs of docs/spark-recipes.md that need nothing besides Spark."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.recipes import die_before_recorded, publish, running
from tests.spark.waiting import wait_until
from trio_stomp.testing import ThreadedBroker


def depth(broker: ThreadedBroker, queue: str) -> int:
    return broker.call(lambda inner: inner.depth(queue))


def test_dead_letters_when_a_batch_is_run_again_then_good_rows_are_stored_once_and_bad_ones_have_the_same_ids(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    heading = "Dead-letter what cannot be parsed"
    orders = ['{"id": 1, "amount": 2.5}', "nonsense", '{"amount": 1}', '{"id": 2}']
    # All of them are in one segment, and so in one batch, however slow the machine is.
    one_segment = {"segmentRows": "4", "lingerMs": "240000"}
    die_before_recorded(
        heading,
        spark,
        connection,
        tmp_path,
        lambda: publish(threaded_broker, "/queue/orders", *orders),
        reading=one_segment,
    )
    assert depth(threaded_broker, "/queue/orders.dead") == 2
    with running(heading, spark, connection, tmp_path, one_segment) as query:
        wait_until(query, lambda: depth(threaded_broker, "/queue/orders.dead") >= 4)
        query.processAllAvailable()

    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted((row["id"], row["amount"]) for row in rows) == [(1, 2.5), (2, None)]
    dead = threaded_broker.call(lambda inner: inner.messages("/queue/orders.dead"))
    assert sorted(message.body for message in dead) == [b"nonsense", b"nonsense", b'{"amount": 1}', b'{"amount": 1}']
    assert len({message.headers["dedup-id"] for message in dead}) == 2
    assert {message.headers["reason"] for message in dead} == {"not an order"}


def test_two_queues_when_joined_then_each_order_has_its_payment(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    def matched() -> list[tuple[int, str, float]]:
        if not any((tmp_path / "table").glob("*.parquet")):
            return []
        rows = spark.read.schema("id BIGINT, item STRING, paid DOUBLE").parquet(str(tmp_path / "table")).collect()
        return sorted((row["id"], row["item"], row["paid"]) for row in rows)

    publish(
        threaded_broker, "/queue/orders", *(json.dumps({"id": number, "item": f"i{number}"}) for number in (1, 2, 3))
    )
    publish(
        threaded_broker, "/queue/payments", *(json.dumps({"id": number, "paid": number / 2}) for number in (2, 3, 4))
    )
    with running("Join two queues", spark, connection, tmp_path) as query:
        wait_until(query, lambda: len(matched()) >= 2)

    assert matched() == [(2, "i2", 1.0), (3, "i3", 1.5)]
