"""trio_stomp in Spark: the streaming source, the sinks, the spool, and the way of one message."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Final, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.order import Order, answer
from benchmarks.payload import BODY
from trio_stomp.spark import StompDataSource
from trio_stomp.testing import Broker, run_broker_in_thread

__all__ = ["main"]

_ALERTS: Final = 100
_ALERT_SECONDS: Final = 0.12
_SPOOL_TIMES: Final = 5
_POLL_SECONDS: Final = 0.02


def open_session(folder: str) -> SparkSession:
    """A session on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("benchmark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # PySpark warns of a version of pandas that it may not know, and uses it for nothing here.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(StompDataSource)
    return session


class Bench:
    """What all of it needs."""

    def __init__(self, order: Order, spark: SparkSession, folder: str) -> None:
        self.order = order
        self.spark = spark
        self.folder = folder
        self.connection = {"brokers": f"{order.host}:{order.port}", "login": "guest", "password": "guest"}

    def stream(self, name: str, destination: str, **options: str) -> DataFrame:
        """The messages of a destination."""
        spool = f"{self.folder}/{name}"
        needed = {"subscribe": destination, "spoolLocation": spool, "prefetch": str(self.order.window)}
        return self.spark.readStream.format("stomp").options(**{**self.connection, **needed, **options}).load()

    def start(self, name: str, rows: DataFrame) -> StreamingQuery:
        """Read them, and do nothing with them."""
        writing = rows.writeStream.format("noop").option("checkpointLocation", f"{self.folder}/{name}.checkpoint")
        return writing.start()

    def source(self, receivers: int) -> float:
        """Rows a second from the destination through the spool and a batch, once it is under way."""
        total = self.order.limit
        destination = f"/queue/stock.{self.order.window}.{total // receivers}"
        name = f"source{receivers}"
        query = self.start(name, self.stream(name, destination, receivers=str(receivers)))
        started, begun, before, rows = time.perf_counter(), 0.0, 0, 0
        while rows < total:
            time.sleep(_POLL_SECONDS)
            rows = sum(each["numInputRows"] for each in query.recentProgress)
            if rows and not begun:
                # Its first batch has what came while it started.
                begun, before = time.perf_counter(), rows
        ended = time.perf_counter()
        query.stop()
        # Few rows come in one batch, which has the start of the query in it.
        return (rows - before) / (ended - begun) if before < rows else rows / (ended - started)

    def spool(self) -> float:
        """Rows a second out of the spool that `source` has left, in the tasks of a batch read."""
        needed = {"subscribe": f"/queue/stock.{self.order.window}.{self.order.limit}", "idleTimeoutMs": "300"}
        read = self.spark.read.format("stomp").options(**self.connection, **needed, prefetch=str(self.order.window))
        rows = read.option("spoolLocation", f"{self.folder}/spool").load()
        # The first time it is drained.
        rows.write.format("noop").mode("overwrite").save()
        took: list[float] = []
        for _ in range(_SPOOL_TIMES):
            begun = time.perf_counter()
            rows.write.format("noop").mode("overwrite").save()
            took.append(time.perf_counter() - begun)
        return self.order.limit / statistics.median(took)

    def sink(self, mode: str) -> float:
        """Rows a second into a destination, confirmed."""
        body = f.lit(BODY.decode("ascii"))
        took = 0.0
        for count in (self.order.limit // 20, self.order.limit):
            rows = self.spark.range(count, numPartitions=2).select(body.alias("body"))
            writing = rows.write.format("stomp").mode("append").options(**self.connection)
            begun = time.perf_counter()
            writing.option("destination", "/queue/sink").option("writeMode", mode).save()
            took = time.perf_counter() - begun
        return self.order.limit / took

    def alerts(self) -> tuple[float, float]:
        """Seconds from SEND to a batch: half of the messages take no longer, 95 of 100."""
        took: list[float] = []

        def note(batch: DataFrame, _number: int) -> None:
            sent = [float(row.sent) for row in batch.select(f.col("body").cast("string").alias("sent")).collect()]
            now = time.time()
            took.extend(now - each for each in sent)

        with run_broker_in_thread() as broker:
            self.connection = {"brokers": f"127.0.0.1:{broker.port}", "login": "guest", "password": "guest"}
            rows = self.stream("alerts", "/queue/alerts")
            writing = rows.writeStream.option("checkpointLocation", f"{self.folder}/alerts.checkpoint")
            query = writing.foreachBatch(note).start()
            while len(took) < _ALERTS:
                broker.call(_publish_now)
                time.sleep(_ALERT_SECONDS)
            query.stop()
        # The first ones waited for the query to start.
        ordered = sorted(took[_ALERTS // 5 :])
        return statistics.median(ordered), ordered[int(0.95 * len(ordered))]


def _publish_now(broker: Broker) -> None:
    broker.publish("/queue/alerts", str(time.time()))


def main() -> NoReturn:
    """Do all of it."""
    order = Order.from_argument()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(folder)
        bench = Bench(order, spark, str(Path(folder).resolve()))
        result = {f"source/{receivers}": bench.source(receivers) for receivers in (1, 2)}
        result["spool"] = bench.spool()
        result |= {f"sink/{mode}": bench.sink(mode) for mode in ("receipt", "transaction")}
        result["p50"], result["p95"] = bench.alerts()
        spark.stop()
    answer(result)


if __name__ == "__main__":
    main()
