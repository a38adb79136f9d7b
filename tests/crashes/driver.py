"""A Spark driver in a process of its own that lets its JVM be killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tests.crashes import dying_receivers, dying_sink, dying_source

__all__ = ["run_and_kill", "run_twice"]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 300.0
QUERIES: Mapping[str, tuple[type[DataSource], Callable[[SparkSession, dict[str, str]], None]]] = {
    "receivers": (dying_source.DyingSource, dying_receivers.run_query),
    "sink": (dying_sink.DyingSink, dying_sink.run_query),
    "source": (dying_source.DyingSource, dying_source.run_query),
}


def run_twice(query: str, options: dict[str, str]) -> None:
    """Run a query in a driver that dies, and once more in one that does not."""
    command = [sys.executable, "-m", "tests.crashes.driver", query, json.dumps(options)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}

    first = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)
    again = subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=False)

    assert first.returncode != 0
    assert again.returncode == 0, again.stderr.decode()


def run_and_kill(query: str, options: dict[str, str]) -> None:
    """Run a query, and name the JVM as the process to kill."""
    source, run_query = QUERIES[query]
    slots = 2 + int(options.get("count", "0"))
    builder = SparkSession.Builder().master(f"local[{slots},4]").appName(query)
    for name, value in {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(source)
    # The JVM is the only process that this one has started.
    (options["victim"],) = Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    run_query(spark, options)
    spark.stop()


if __name__ == "__main__":
    run_and_kill(sys.argv[1], json.loads(sys.argv[2]))
