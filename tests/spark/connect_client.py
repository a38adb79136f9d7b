"""A client of Spark Connect that uses the data source in every way, as a process of its own.

A process has either a session of Spark Connect or a classic one. This program reads a JSON object from its standard
input: the `url` of the server, a `folder`, and the `options` of the source. It prints what it found as another one.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.recipes import program
from tests.spark.secret_hunt import receive
from trio_stomp.spark import ReceiversFailed

__all__ = ["ROWS", "main"]

ROWS = 50


def error_of(action: Callable[[], object]) -> str:
    """The text of the error that an action raises."""
    try:
        action()
    except (PySparkException, ReceiversFailed) as error:
        return str(error)
    return ""


def main(url: str, folder: str, options: dict[str, str]) -> dict[str, object]:
    """Write a queue, run the program of the manual, write its table to another queue, and read that one."""
    spark = SparkSession.Builder().remote(url).getOrCreate()
    broker = {name: options[name] for name in ("brokers", "login", "password")}
    sent = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS body")
    sent.write.format("stomp").mode("append").options(**broker, destination=options["subscribe"]).save()

    text = program("spark.md", "Spark Connect")
    replaced = {
        "sc://spark:15002": url,
        "stomp://broker:61613": options["brokers"],
        '"password": "guest"': f'"password": "{options["password"]}"',
        "s3://bucket": folder,
    }
    for shown, used in replaced.items():
        assert shown in text
        text = text.replace(shown, used)
    exec(text, {})  # noqa: S102  # our own page

    table = f"{folder}/orders"
    rows = sorted(int(row.body) for row in spark.read.parquet(table).collect())
    back = spark.readStream.schema("body STRING").parquet(table).writeStream.format("stomp")
    back = back.options(**broker, destination="/queue/back").option("checkpointLocation", f"{folder}/checkpoints/back")
    back.trigger(availableNow=True).start().awaitTermination()
    source = {**options, "subscribe": "/queue/back"}
    read = spark.read.format("stomp").options(**source, idleTimeoutMs="300").load()

    streamed = spark.readStream.format("stomp").options(**options).load()
    explained = io.StringIO()
    with contextlib.redirect_stdout(explained):
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            read.explain(mode=mode)
            streamed.explain(mode=mode)
    misspelled = spark.read.format("stomp").options(**options, maxRow="1").load()
    refused = {**options, "password": "not-this-one", "reconnectTimeoutMs": "500", "spoolLocation": f"{folder}/refused"}
    return {
        "rows": rows,
        "back": sorted(int(bytes(row.body)) for row in read.collect()),
        "explained": explained.getvalue(),
        "misspelled": error_of(lambda: misspelled.schema),
        "refused": error_of(partial(receive, spark, refused)),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(**json.load(sys.stdin))))
