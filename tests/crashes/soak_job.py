"""The Spark job of a long run: receivers on executors, and a query from the queue into a table.

`tests.crashes.soak` starts it, kills it and starts it again. It tells what it does on standard output, one JSON object
a line, and ends when there is a file ``stop`` in its folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from trio_stomp.spark import receivers

__all__ = ["main"]


def say(**values: object) -> None:
    sys.stdout.write(f"{json.dumps(values)}\n")
    sys.stdout.flush()


def open_session(master: str, folder: Path) -> SparkSession:
    builder = SparkSession.Builder().master(master).appName("long run")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start_query(spark: SparkSession, options: dict[str, str], folder: Path) -> StreamingQuery:
    messages = spark.readStream.format("stomp").options(**options).option("receivers", "0").load()
    return (
        messages.selectExpr("CAST(CAST(body AS STRING) AS INT) AS n")
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )


def main(master: str, folder: Path, count: int, options: dict[str, str]) -> None:
    """Receive and write until there is the file ``stop``."""
    spark = open_session(master, folder)
    stop = folder / "stop"
    with receivers(spark, options, count=count):
        while not stop.exists():
            query = start_query(spark, options, folder)
            say(stage="flowing")
            try:
                while not stop.exists():
                    query.awaitTermination(1)
            except PySparkException as error:
                # Its planner was killed: a user restarts the query.
                say(stage="query failed", reason=str(error)[:300])
            finally:
                query.stop()
    say(stage="done")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
