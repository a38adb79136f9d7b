"""A driver in a process of its own: reads a queue into a table, and lets its JVM be killed on the way."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.crashes.dying_source import DyingSource
from tests.crashes.test_source_crashes import run_query


def main() -> None:
    builder = SparkSession.Builder().master("local[2]").appName("source job")
    for name, value in {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(DyingSource)
    options: dict[str, str] = json.loads(sys.argv[1])
    # The JVM is the only process that this one has started.
    (options["victim"],) = Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    run_query(spark, options)
    spark.stop()


if __name__ == "__main__":
    main()
