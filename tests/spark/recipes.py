"""What the tests of the recipes share: running the programs of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.spark.waiting import PATIENCE, wait_until
from trio_stomp.testing import Broker, ThreadedBroker

__all__ = ["DOCS", "die_before_recorded", "program", "publish", "running"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECIPES = "spark-recipes.md"


def program(page: str, heading: str = "") -> str:
    """The first program of a page, or below one of its headings."""
    text = (DOCS / page).read_text("utf-8")
    section = text if not heading else re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    found = re.search(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


def publish(broker: ThreadedBroker, queue: str, *bodies: str | bytes) -> None:
    """Put messages into a queue."""

    def put(inner: Broker) -> None:
        for body in bodies:
            inner.publish(queue, body)

    broker.call(put)


@dataclass
class ReadingWith:
    """A session whose streams are read with further options, which the program does not set."""

    session: SparkSession
    options: Mapping[str, str]

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802  # as PySpark calls it
        """As that of the session."""
        return self.session.readStream.options(**self.options)

    def __getattr__(self, name: str) -> object:
        return getattr(self.session, name)


@contextmanager
def running(
    heading: str,
    spark: SparkSession,
    connection: dict[str, str],
    folder: Path,
    reading: Mapping[str, str] | None = None,
) -> Generator[StreamingQuery]:
    """Run the program below a heading, on a broker and in a folder of the test, and stop its query at the end.

    Its streams are read with the further options `reading`.
    """
    names: dict[str, object] = {"spark": ReadingWith(spark, reading or {})}
    exec(program(RECIPES), names)  # noqa: S102  # our own page
    names.update(broker=connection, folder=str(folder))
    exec(program(RECIPES, heading), names)  # noqa: S102  # our own page
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    try:
        yield query
    finally:
        query.stop()


def die_before_recorded(
    heading: str,
    spark: SparkSession,
    connection: dict[str, str],
    folder: Path,
    publish: Callable[[], None],
    *,
    reading: Mapping[str, str] | None = None,
) -> None:
    """Run a program until it has stored a batch, and end it as if the driver had died before that was recorded.

    There is something in the place of the record, so the query fails when it is about to write it. To take the record
    away afterwards would be too late: Spark then asks for the next batch, and the source may delete the rows of this.

    The messages are sent, by `publish`, when nothing can be recorded any more. The rest is as for `running`.
    """
    records = folder / "checkpoint" / "commits"
    with running(heading, spark, connection, folder, reading) as query:
        # At the start, Spark reads the records, and runs a batch without rows.
        wait_until(query, lambda: query.status["message"] == "Waiting for data to arrive")
        record = records / str(1 + max((int(each.name) for each in records.glob("[0-9]*")), default=-1))
        record.touch()
        publish()
        with pytest.raises(StreamingQueryException, match="Concurrent update to the"):
            query.awaitTermination(PATIENCE)
    record.unlink()
