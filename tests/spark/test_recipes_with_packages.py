"""The programs of docs/spark-recipes.md that need packages; scripts/pyspark_versions 4.1 runs them."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import PACKAGES
from tests.spark.recipes import die_before_recorded, publish, running
from tests.spark.waiting import wait_until
from trio_stomp.testing import ThreadedBroker

pytestmark = pytest.mark.skipif(PACKAGES not in os.environ, reason=f"needs packages from Maven Central; set {PACKAGES}")
BODIES = ["a", "b", "c"]


# What a program writes, by its heading.
TABLES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "Delta Lake": lambda spark, folder: spark.read.format("delta").load(str(folder / "table")),
    "Iceberg": lambda spark, _: spark.table("local.shop.orders"),
}


@pytest.mark.parametrize("heading", TABLES)
def test_table_when_a_batch_is_run_again_then_its_rows_are_there_once(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path, heading: str
) -> None:
    def rows() -> list[str]:
        try:
            return sorted(row["body"] for row in TABLES[heading](spark, tmp_path).collect())
        except Exception:  # noqa: BLE001  # there is no table before the first batch
            return []

    def publish_first() -> None:
        publish(threaded_broker, "/queue/orders", *BODIES[:2])

    die_before_recorded(heading, spark, connection, tmp_path, publish_first)
    assert rows()
    with running(heading, spark, connection, tmp_path) as query:
        publish(threaded_broker, "/queue/orders", *BODIES[2:])
        wait_until(query, lambda: len(rows()) >= 3)
        query.processAllAvailable()
    assert rows() == BODIES


def test_avro_when_bodies_have_it_then_decoded_and_encoded_again(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    # Avro: a long in zigzag, then a double.
    small, large = (bytes([2 * number]) + struct.pack("<d", amount) for number, amount in ((1, 99.5), (2, 100.0)))
    publish(threaded_broker, "/queue/orders", small, large)

    with running("Avro", spark, connection, tmp_path) as query:
        wait_until(query, lambda: threaded_broker.call(lambda inner: inner.depth("/queue/orders.large")) >= 1)
        query.processAllAvailable()

    (message,) = threaded_broker.call(lambda inner: inner.messages("/queue/orders.large"))
    assert message.body == large
    assert message.headers["content-type"] == "avro/binary"
