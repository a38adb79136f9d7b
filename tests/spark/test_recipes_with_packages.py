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


def run_twice(
    heading: str,
    spark: SparkSession,
    broker: ThreadedBroker,
    connection: dict[str, str],
    folder: Path,
    table: Callable[[], DataFrame],
) -> list[str]:
    """Run a program, run its first batch again, and go on for a further message; returns what is in the table."""

    def rows() -> int:
        try:
            return table().count()
        except Exception:  # noqa: BLE001  # there is no table before the first batch
            return 0

    die_before_recorded(heading, spark, connection, folder, lambda: publish(broker, "/queue/orders", *BODIES[:2]))
    assert rows() >= 1
    with running(heading, spark, connection, folder) as query:
        publish(broker, "/queue/orders", *BODIES[2:])
        wait_until(query, lambda: rows() >= 3)
        query.processAllAvailable()
    return sorted(row["body"] for row in table().collect())


def test_delta_when_a_batch_is_run_again_then_its_rows_are_there_once(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    def table() -> DataFrame:
        return spark.read.format("delta").load(str(tmp_path / "table"))

    assert run_twice("Delta Lake", spark, threaded_broker, connection, tmp_path, table) == BODIES


def test_iceberg_when_a_batch_is_run_again_then_its_rows_are_there_once(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    def table() -> DataFrame:
        return spark.table("local.shop.orders")

    assert run_twice("Iceberg", spark, threaded_broker, connection, tmp_path, table) == BODIES


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
