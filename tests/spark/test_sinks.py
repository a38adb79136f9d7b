"""The sinks in Spark: the shared session, an embedded broker at the other end."""

import logging
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from trio_stomp.spark import StompDataSource
from trio_stomp.spark.sink_writer import Written
from trio_stomp.spark.sinks import TaskCommitted
from trio_stomp.testing import Broker, QueuedMessage, ThreadedBroker

QUEUE = "/queue/a"
ROWS = 200


def arrived(broker: ThreadedBroker, queue: str = QUEUE) -> tuple[QueuedMessage, ...]:
    return broker.call(lambda inner: inner.messages(queue))


def bodies(broker: ThreadedBroker) -> list[int]:
    return sorted(int(message.body) for message in arrived(broker))


def numbers(spark: SparkSession, count: int = ROWS) -> DataFrame:
    return spark.range(count).select(f.col("id").cast("string").alias("body"))


def save(rows: DataFrame, connection: dict[str, str], **options: str) -> None:
    rows.write.format("stomp").mode("append").options(**connection, **options).save()


@pytest.mark.parametrize("mode", ["transaction", "receipt"])
def test_dataframe_when_saved_then_each_row_is_there_once(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], mode: str
) -> None:
    save(numbers(spark), connection, destination=QUEUE, writeMode=mode)

    assert bodies(threaded_broker) == list(range(ROWS))
    assert len({message.headers["dedup-id"] for message in arrived(threaded_broker)}) == ROWS


def test_dataframe_when_rows_say_everything_then_messages_do(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str]
) -> None:
    rows = spark.range(4).select(
        f.encode(f.col("id").cast("string"), "utf-8").alias("body"),
        f.concat(f.lit("/queue/"), f.when(f.col("id") % 2 == 0, "even").otherwise("odd")).alias("destination"),
        f.lit("application/json").alias("content_type"),
        f.create_map(f.lit("number"), f.col("id").cast("string")).alias("headers"),
        f.concat(f.lit("own-"), f.col("id").cast("string")).alias("dedup_id"),
    )

    save(rows, connection, sendHeaders='{"source": "test"}')

    even = {message.body: dict(message.headers) for message in arrived(threaded_broker, "/queue/even")}
    assert sorted(even) == [b"0", b"2"]
    expected = {"content-type": "application/json", "number": "2", "source": "test", "dedup-id": "own-2"}
    assert even[b"2"].items() >= expected.items()
    assert even[b"2"]["persistent"] == "true"
    assert len(arrived(threaded_broker, "/queue/odd")) == 2


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("overwrite", {"destination": QUEUE}, r"expected mode\('append'\), got 'overwrite'"),
        ("append", {"destinatoin": QUEUE}, "did you mean 'destination'"),
    ],
)
def test_write_when_it_cannot_be_meant_then_refused_before_a_row_is_sent(
    spark: SparkSession,
    threaded_broker: ThreadedBroker,
    connection: dict[str, str],
    mode: str,
    options: dict[str, str],
    said: str,
) -> None:
    writer = numbers(spark).write.format("stomp").mode(mode).options(**connection, **options)

    with pytest.raises(AnalysisException, match=said):
        writer.save()

    assert threaded_broker.call(Broker.statistics).connections == 0


def test_write_when_credentials_are_wrong_then_the_error_says_so_and_shows_none(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str]
) -> None:
    wrong = {**connection, "password": "hunter2"}

    with pytest.raises(PySparkException) as caught:
        save(numbers(spark, 1), wrong, destination=QUEUE)

    assert "hunter2" not in str(caught.value)
    assert "AuthenticationError" in str(caught.value)
    assert "are the options 'login' and 'password' right?" in str(caught.value)
    # Nothing of the inside of this package.
    assert "sink_writer.py" not in str(caught.value)


def run_stream(spark: SparkSession, folder: Path, connection: dict[str, str], **options: str) -> None:
    """Send what is new in the folder's text files, in one batch, and end."""
    rows = spark.readStream.schema("body STRING").text(str(folder / "in"))
    query = (
        rows.writeStream.format("stomp")
        .options(**connection, destination=QUEUE, **options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .queryName("numbers")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_stream_when_run_twice_then_each_batch_is_sent_once_with_ids_of_query_and_batch(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("1\n2\n2\n", "utf-8")
    run_stream(spark, tmp_path, connection)
    (tmp_path / "in" / "2.txt").write_text("3\n", "utf-8")
    run_stream(spark, tmp_path, connection, writeMode="receipt")

    assert bodies(threaded_broker) == [1, 2, 2, 3]
    ids = [message.headers["dedup-id"].split(".") for message in arrived(threaded_broker)]
    assert len({parts[0] for parts in ids}) == 1
    assert sorted(parts[1] for parts in ids) == ["0", "0", "0", "1"]
    assert len({tuple(parts) for parts in ids}) == 4


def test_stream_when_its_batch_is_run_again_then_the_ids_are_the_same(
    spark: SparkSession, threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("1\n2\n", "utf-8")
    run_stream(spark, tmp_path, connection)
    # As if the driver had died between the sink and the note that the batch is done.
    for note in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        note.unlink()
    run_stream(spark, tmp_path, connection)

    assert bodies(threaded_broker) == [1, 1, 2, 2]
    assert len({message.headers["dedup-id"] for message in arrived(threaded_broker)}) == 2


SCHEMA = StructType([StructField("body", StringType())])
MESSAGES: list[WriterCommitMessage | None] = [
    TaskCommitted(written=Written(rows=5)),
    None,
    TaskCommitted(written=Written(rows=6, repeated=True)),
]


def source_with(**options: str) -> StompDataSource:
    return StompDataSource({"brokers": "b", "destination": QUEUE, **options})


def test_commit_when_called_then_the_rows_of_all_tasks_are_noted_and_which_write_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp.spark")

    source_with().streamWriter(SCHEMA, overwrite=False).commit(MESSAGES, 7)
    for _ in range(2):
        source_with().writer(SCHEMA, overwrite=False).commit(MESSAGES[:1])

    stream, *writes = (record.getMessage() for record in caplog.records)
    assert stream.startswith("batch 7: 11 rows confirmed in 2 of 3 tasks, 1 of which an earlier attempt had sent")
    assert {text.partition(": ")[2] for text in writes} == {"5 rows confirmed in 1 of 1 tasks"}
    # The ids of their rows begin with that of the write.
    assert len(set(writes)) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "stay where they were sent, STOMP takes nothing back; of tasks that failed, some rows may be there"),
        ({"writeMode": "transaction"}, "tasks that failed before COMMIT have left nothing"),
        ({"dedupIds": "none"}, "running it again sends them a second time"),
        ({"dedupIds": "content"}, "sends them with the same ids"),
    ],
)
def test_abort_when_called_then_what_stays_at_the_broker_is_said(
    caplog: pytest.LogCaptureFixture, options: dict[str, str], said: str
) -> None:
    source_with(**options).streamWriter(SCHEMA, overwrite=False).abort(MESSAGES, 7)
    source_with(**options).writer(SCHEMA, overwrite=False).abort(MESSAGES)

    stream, batch = (record.getMessage() for record in caplog.records)
    assert stream.startswith("batch 7 failed: 11 rows confirmed in 2 of 3 tasks")
    assert re.match(r"write \w+ failed: 11 rows confirmed in 2 of 3 tasks", batch)
    assert said in stream
    assert said in batch


def test_write_when_there_is_no_task_then_it_says_who_must_call_it() -> None:
    with pytest.raises(RuntimeError, match="expected to run in a task of Spark"):
        source_with().streamWriter(SCHEMA, overwrite=False).write(iter([]))
