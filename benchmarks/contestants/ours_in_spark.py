"""trio_stomp in Spark: the streaming source, the sinks, the spool, and the way of one message."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
import trio
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contestants.ours import connection
from benchmarks.order import Order, answer
from benchmarks.payload import BODY
from benchmarks.processes import BROKER, PLANNER, RECEIVER, Processes
from benchmarks.spark_session import open_session
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.testing import Broker, run_broker_in_thread

__all__ = ["MASTER", "MODES", "SETTINGS", "main"]

MODES: Final = ("receipt", "transaction")
MASTER: Final = "local[2]"
SETTINGS: Final = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
_ALERTS: Final = 100
_ALERT_SECONDS: Final = 0.12
# Its batch is over before the next one comes.
_LONE_ALERTS: Final = 15
_LONE_ALERT_SECONDS: Final = 0.8
_EMPTY_BATCHES: Final = 12
# As that of the source.
_LINGER: Final = 0.005
_MICROSECONDS: Final = 1_000_000
_SPOOL_TIMES: Final = 5
_POLL_SECONDS: Final = 0.02


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

    def source(self, destination: str, receivers: int = 1) -> dict[str, float]:
        """Rows a second from a destination, from the first segment of the spool to the last, while batches read them.

        To the last batch it would be the time that Spark takes to start, too. So the processor time of batches is that
        from the end of the first one on.
        """
        total = self.order.limit
        name = f"source{receivers}"
        query = self.start(name, self.stream(name, destination, receivers=str(receivers)))
        # When each segment was written: its time and its rows are in its name, and it is deleted after its batch.
        written: dict[str, tuple[int, int]] = {}
        receiving, batches = Processes(self.order.broker_pid), Processes()
        rows = 0
        while rows < total:
            time.sleep(_POLL_SECONDS)
            rows = sum(each["numInputRows"] for each in query.recentProgress)
            for path in Path(self.folder, name).rglob("seg-*.arrow"):
                _, _, count, *_, when = path.stem.split("-")
                written[str(path)] = int(when), int(count)
            if written:
                receiving.begin(sum(count for _, count in written.values()))
            if rows:
                batches.begin(rows)
        used = batches.for_each(rows)
        if used:
            from_first = {RECEIVER, PLANNER, BROKER}
            used |= {kind: each for kind, each in receiving.for_each(rows).items() if kind in from_first}
        query.stop()
        first, *others = sorted(written.values())
        rate = sum(count for _, count in others) * 1000 / (others[-1][0] - first[0])
        return {"rate": rate, **_processor(used)}

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

    def sink(self, mode: str, destination: str, **options: str) -> dict[str, float]:
        """Rows a second into a destination, confirmed, and the processor time for each."""
        body = f.lit(BODY.decode("ascii"))
        result: dict[str, float] = {}
        for count in (self.order.limit // 20, self.order.limit):
            rows = self.spark.range(count, numPartitions=2).select(body.alias("body"))
            writing = rows.write.format("stomp").mode("append").options(**self.connection, **options)
            processes = Processes()
            processes.begin()
            begun = time.perf_counter()
            writing.option("destination", destination).option("writeMode", mode).save()
            took = time.perf_counter() - begun
            result = {"rate": count / took, "processor": sum(processes.for_each(count).values())}
        return result

    def alerts(self) -> dict[str, float]:
        """Seconds from SEND to the rows of a batch: half of the messages take no longer, 95 of 100.

        And seconds from the SEND of a message for which the query waits to the call for its batch, next to a whole
        micro-batch of Spark's own source, in which nothing is done.
        """
        took: list[float] = []
        called: list[float] = []

        def note(batch: DataFrame, _number: int) -> None:
            begun = time.time()
            sent = [float(row.sent) for row in batch.select(f.col("body").cast("string").alias("sent")).collect()]
            now = time.time()
            took.extend(now - each for each in sent)
            called.extend(begun - each for each in sent)

        with run_broker_in_thread() as broker:
            self.connection = {"brokers": f"127.0.0.1:{broker.port}", "login": "guest", "password": "guest"}
            rows = self.stream("alerts", "/queue/alerts")
            writing = rows.writeStream.option("checkpointLocation", f"{self.folder}/alerts.checkpoint")
            query = writing.foreachBatch(note).start()
            while len(took) < _ALERTS:
                broker.call(_publish_now)
                time.sleep(_ALERT_SECONDS)
            # The first ones waited for the query to start.
            ordered = sorted(took[_ALERTS // 5 :])
            called.clear()
            while len(called) < _LONE_ALERTS:
                broker.call(_publish_now)
                time.sleep(_LONE_ALERT_SECONDS)
            query.stop()
        return {
            "p50": statistics.median(ordered),
            "p95": ordered[int(0.95 * len(ordered))],
            "called": statistics.median(called),
            "empty": self.empty_batch(),
        }

    def empty_batch(self) -> float:
        """Seconds that a micro-batch takes in which nothing is done."""
        rows = self.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        writing = rows.writeStream.option("checkpointLocation", f"{self.folder}/empty.checkpoint")
        query = writing.foreachBatch(lambda _batch, _number: None).start()
        batches: list[float] = []
        while len(batches) < _EMPTY_BATCHES:
            time.sleep(_POLL_SECONDS)
            took = [each["durationMs"] for each in query.recentProgress]
            batches = [each["triggerExecution"] / 1000 for each in took if "addBatch" in each]
        query.stop()
        # The first one has the start of the query in it.
        return statistics.median(batches[1:])


def _publish_now(broker: Broker) -> None:
    broker.publish("/queue/alerts", str(time.time()))


def _processor(seconds: Mapping[str, float]) -> dict[str, float]:
    return {f"processor/{kind}": each for kind, each in seconds.items()}


def everything(bench: Bench) -> dict[str, float]:
    """At the peer of the benchmarks."""
    stock = {each: f"/queue/stock.{bench.order.window}.{bench.order.limit // each}" for each in (1, 2)}
    result = {f"source/{receivers}": bench.source(queue, receivers)["rate"] for receivers, queue in stock.items()}
    result["spool"] = bench.spool()
    result |= {f"sink/{mode}": bench.sink(mode, "/queue/sink")["rate"] for mode in MODES}
    return result | bench.alerts()


def source(bench: Bench) -> dict[str, float]:
    """From a queue that has been filled."""
    return bench.source(bench.order.destination)


def sinks(bench: Bench, **options: str) -> dict[str, float]:
    """Into a queue, in each mode."""
    result: dict[str, float] = {}
    for mode in (*MODES, "auto"):
        figures = bench.sink(mode, bench.order.destination, **options)
        result |= {f"sink/{mode}": figures["rate"], f"processor/{mode}": figures["processor"]}
    return result


def sinks_without_ids(bench: Bench) -> dict[str, float]:
    """The same, without ids for duplicate detection."""
    return sinks(bench, dedupIds="none")


async def consume(order: Order, folder: str) -> dict[str, float]:
    """Without Spark: rows a second from a queue into a Parquet file, by the client and pyarrow alone.

    The rows are those of the source.
    """
    schema = MessageColumns().arrow_schema()
    rows = before = 0
    begun = used = 0.0
    broker = Processes(order.broker_pid)
    async with (
        connection(order) as client,
        client.subscribe(order.destination, ack="client", prefetch=order.window) as subscription,
    ):
        with parquet.ParquetWriter(f"{folder}/messages.parquet", schema) as file:
            while rows < order.limit:
                messages = await subscription.receive_batch(order.window, linger=_LINGER)
                now = int(time.time() * _MICROSECONDS)
                sent = [each.headers.get("timestamp") for each in messages]
                columns = {
                    "body": [each.body for each in messages],
                    "destination": [each.destination for each in messages],
                    "message_id": [each.id for each in messages],
                    "subscription": [each.headers.get("subscription") for each in messages],
                    "content_type": [each.content_type for each in messages],
                    "redelivered": [each.redelivered for each in messages],
                    "timestamp": [None if each is None else int(each) * _MICROSECONDS // 1000 for each in sent],
                    "received_at": [now] * len(messages),
                    "seq": range(rows, rows + len(messages)),
                    "stable_id": [each.stable_id for each in messages],
                }
                file.write_table(pa.table(columns, schema=schema))
                await subscription.ack_up_to(messages[-1])
                rows += len(messages)
                if not begun:
                    # As for the source, the first ones don't count.
                    begun, before, used = time.perf_counter(), rows, time.process_time()
                    broker.begin(rows)
        took, used = time.perf_counter() - begun, time.process_time() - used
        every = {RECEIVER: used / (rows - before)} | {BROKER: broker.for_each(rows)[BROKER]}
        await client.disconnect()
    return {"rate": (rows - before) / took, **_processor(every)}


SCENARIOS: Final[dict[str, Callable[[Bench], dict[str, float]]]] = {
    "spark": everything,
    "source": source,
    "sinks": sinks,
    "sinks without ids": sinks_without_ids,
}


def main() -> NoReturn:
    """Do what the order says."""
    order = Order.from_argument()
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(Path(temporary).resolve())
        if order.scenario == "consume":
            result = trio.run(consume, order, folder)
        else:
            spark = open_session(folder, MASTER, SETTINGS)
            result = SCENARIOS[order.scenario](Bench(order, spark, folder))
            spark.stop()
    answer(result)


if __name__ == "__main__":
    main()
