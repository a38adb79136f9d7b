"""A program that uses the data source in every way, and looks for words wherever Spark shows something.

It reads a JSON object from its standard input: `folder`, `port`, the `options`, the `wrong_password` and the `words`.
It prints another: for each word, the places where it was found.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from trio_stomp.spark import ReceiversFailed, StompDataSource, receivers

__all__ = ["Hunt", "main"]

_EXPLAINS = ("simple", "extended", "codegen", "cost", "formatted")
_PAGES = ("environment/", "SQL/", "StreamingQuery/", "jobs/", "stages/", "executors/")
_REST = ("environment", "jobs", "stages", "executors", "sql?details=true&planDescription=true&length=100")


class _Plan(Protocol):
    """A plan, in the JVM."""

    def treeString(self) -> str: ...  # noqa: N802  # Spark's name
    def toJSON(self) -> str: ...  # noqa: N802  # Spark's name


class _QueryExecution(Protocol):
    """A query and its plans, in the JVM."""

    def toString(self) -> str: ...  # noqa: N802  # Java's name
    def logical(self) -> _Plan: ...
    def analyzed(self) -> _Plan: ...


class Hunt:
    """What was seen where.

    Args:
        spark: The session.
        folder: Where it may write.
        words: What to look for.
    """

    def __init__(self, spark: SparkSession, folder: Path, words: list[str]) -> None:
        self.spark = spark
        self.found: dict[str, list[str]] = {word: [] for word in words}
        self._folder = folder
        self._checkpoints = 0

    def look(self, place: str, text: str) -> None:
        """Look for the words in a text."""
        for word, places in self.found.items():
            if word in text and place not in places:
                places.append(place)

    def run(self, place: str, action: Callable[[], object]) -> None:
        """Look at what an action prints, returns, or raises."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                printed.write(str(action()))
            except (PySparkException, ReceiversFailed) as error:
                printed.write(str(error))
        self.look(place, printed.getvalue())

    def plans(self, kind: str, rows: DataFrame) -> None:
        """Look at the plan of a DataFrame in every way that there is."""
        for mode in _EXPLAINS:
            self.run(f"{kind}: explain({mode})", partial(rows.explain, mode=mode))
        execution = _execution(rows)
        self.look(f"{kind}: queryExecution", execution.toString())
        for plan in (execution.logical(), execution.analyzed()):
            self.look(f"{kind}: tree", plan.treeString())
            self.look(f"{kind}: JSON", plan.toJSON())

    def stream(self, kind: str, writing: DataStreamWriter) -> None:
        """Run a stream to its end, and look at what it says of itself."""
        self._checkpoints += 1
        checkpoint = str(self._folder / f"checkpoint-{self._checkpoints}")
        query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        self.run(f"{kind}: end", query.awaitTermination)
        self.run(f"{kind}: exception", query.exception)
        self.run(f"{kind}: progress", lambda: [each.json for each in query.recentProgress])
        self.run(f"{kind}: explain", lambda: query.explain(extended=True))

    def ui(self) -> None:
        """Look at the web UI and its REST API."""
        base = self.spark.sparkContext.uiWebUrl
        if base is None:
            raise RuntimeError(self.spark.version)
        rest = f"api/v1/applications/{self.spark.sparkContext.applicationId}"
        executions = {
            f"SQL/execution/?id={number}" for number in re.findall(r"execution/\?id=(\d+)", _get(f"{base}/SQL/"))
        }
        for page in [*_PAGES, *(f"{rest}/{each}" for each in _REST), *executions]:
            self.look(f"UI: {page.partition('?')[0].replace(rest, 'REST')}", _get(f"{base}/{page}"))


def _execution(rows: DataFrame) -> _QueryExecution:
    # py4j's objects have no types, and there is no other way.
    made: object = getattr(rows, "_jdf").queryExecution()  # noqa: B009  # see above
    return made  # type: ignore[return-value]  # see above


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # http:// of this machine
        page: bytes = answer.read()
        return page.decode()


def use(hunt: Hunt, folder: Path, options: dict[str, str]) -> None:
    """Read and write, as DataFrames, streams and a table."""
    spark = hunt.spark
    source = {**options, "subscribe": "/queue/hunt", "spoolLocation": str(folder / "spool")}
    batch = spark.read.format("stomp").options(**source, idleTimeoutMs="300").load()
    streamed = spark.readStream.format("stomp").options(**source, availableNowIdleMs="300").load()
    rows = spark.range(5).select(f.col("id").cast("string").alias("body"))
    lines = spark.readStream.schema("body STRING").text(str(folder / "in"))
    hunt.run("write", rows.write.format("stomp").mode("append").options(**options, destination="/queue/hunt").save)
    hunt.stream("stream sink", lines.writeStream.format("stomp").options(**options, destination="/queue/hunt"))
    hunt.plans("batch", batch)
    hunt.plans("stream", streamed)
    hunt.run("batch: rows", batch.count)
    hunt.run("stream: collect", streamed.collect)
    hunt.run("stream: write", lambda: streamed.write.format("noop").mode("append").save())
    hunt.stream("stream source", streamed.writeStream.format("noop"))
    with receivers(spark, source, count=1):
        spooled = spark.readStream.format("stomp").options(**source, receivers="0", availableNowTimeoutMs="1000").load()
        hunt.stream("stream source, receivers on executors", spooled.writeStream.format("noop"))
    # Spark's own logger of changed plans, which is off by default, prints all options of a table that is made.
    spark.conf.set("spark.sql.planChangeLog.level", "TRACE")
    spark.catalog.createTable("hunted", source="stomp", schema=None, **source)
    for statement in ("DESCRIBE EXTENDED hunted", "SHOW CREATE TABLE hunted", "EXPLAIN EXTENDED SELECT * FROM hunted"):
        hunt.run(statement, spark.sql(statement).collect)
    spark.sql("DROP TABLE hunted")
    spark.conf.unset("spark.sql.planChangeLog.level")
    given = ", ".join(f"{name} '{value}'" for name, value in source.items())
    hunt.run("view", lambda: spark.sql(f"CREATE TEMPORARY VIEW hunted_view USING stomp OPTIONS ({given})"))
    for statement in ("EXPLAIN EXTENDED SELECT * FROM hunted_view", "DESCRIBE EXTENDED hunted_view"):
        hunt.run(statement, spark.sql(statement).collect)


def fail(hunt: Hunt, folder: Path, options: dict[str, str]) -> None:
    """Read and write with a wrong password."""
    source = {**options, "subscribe": "/queue/hunt", "spoolLocation": str(folder / "spool")}
    rows = hunt.spark.range(1).select(f.col("id").cast("string").alias("body"))
    hunt.run("write: error", rows.write.format("stomp").mode("append").options(**options, destination="/queue/a").save)
    hunt.run("batch: error", hunt.spark.read.format("stomp").options(**source).load().count)
    hunt.run("receivers: error", partial(receive, hunt.spark, source))
    hunt.stream(
        "stream: error", hunt.spark.readStream.format("stomp").options(**source).load().writeStream.format("noop")
    )


def receive(spark: SparkSession, options: dict[str, str]) -> None:
    """Receive on executors, for a moment."""
    with receivers(spark, options, count=1):
        pass


def main(
    folder: Path, port: int, options: dict[str, str], wrong_password: str, words: list[str]
) -> dict[str, list[str]]:
    """Use everything, and look everywhere; the places of each word."""
    for name in ("events", "in"):
        (folder / name).mkdir()
    (folder / "in" / "lines.txt").write_text("1\n", "utf-8")
    settings = {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "700m",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.planChangeLog.level": "WARN",
    }
    builder = SparkSession.Builder().master("local[2,4]").appName("hunt")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("INFO")
    spark.dataSource.register(StompDataSource)
    hunt = Hunt(spark, folder, words)
    connection = {"brokers": f"127.0.0.1:{port}", "reconnectTimeoutMs": "500", **options}
    use(hunt, folder, connection)
    fail(hunt, folder, {**connection, "password": wrong_password})
    hunt.ui()
    spark.stop()
    for path in folder.rglob("*"):
        if path.is_file():
            hunt.look(f"file: {path.relative_to(folder).parts[0]}", path.read_bytes().decode("latin-1"))
    return hunt.found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    sys.stdout.write(json.dumps(main(Path(asked.pop("folder")), **asked)))
