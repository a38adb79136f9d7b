"""The queries of the job on a few days of flights; text files stand for the queue."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import flights_job
import pytest
from flights.records import flights_file
from pipeline.delay_hours import hours_in_file, late_flights_in_file
from pipeline.outcome import read_summary
from pipeline.replay import flights_in_order
from pipeline.settings import SENTINEL_HOUR, JobSettings
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.examples.job_settings import SETTINGS
from tests.spark.conftest import spark, threaded_broker
from trio_stomp.testing import ThreadedBroker

__all__ = ["spark", "threaded_broker"]

ROWS = 3000


def job_settings(broker: ThreadedBroker, folder: Path) -> JobSettings:
    return replace(
        SETTINGS,
        url=f"stomp://127.0.0.1:{urlsplit(broker.url).port}",
        passcode="guest",
        queue="/queue/flights",
        alerts="/queue/late",
        folder=folder,
        total=ROWS,
        rate=1000,
    )


def finish(query: StreamingQuery) -> None:
    query.processAllAvailable()
    query.stop()


@pytest.mark.slow
def test_job_when_flights_come_twice_and_in_batches_then_its_table_is_that_of_the_file(
    spark: SparkSession, threaded_broker: ThreadedBroker, tmp_path: Path
) -> None:
    settings = job_settings(threaded_broker, tmp_path)
    queue = tmp_path / "queue"
    queue.mkdir()
    flights = [flight.to_json().decode() for flight in flights_in_order(flights_file(), ROWS)]
    sentinel = json.dumps({"id": 0, "carrier": "", "origin": "", "hour": SENTINEL_HOUR, "delay": None})
    (queue / "1.txt").write_text("\n".join(flights[:1000]), "utf-8")
    (queue / "2.txt").write_text("\n".join(flights[900:]), "utf-8")
    messages = spark.readStream.schema("body STRING").option("maxFilesPerTrigger", 1).text(str(queue))

    departures = flights_job.start_departures(flights_job.flights_of(messages, settings.lateness), settings)
    departures.processAllAvailable()
    assert flights_job.rows_of(spark, settings.departures, flights_job.DEPARTURES) == ROWS
    (queue / "3.txt").write_text(sentinel, "utf-8")
    finish(departures)
    finish(flights_job.start_hours(spark, settings))
    finish(flights_job.start_alerts(spark, settings))
    flights_job.write_summary(spark, settings)

    assert read_summary(settings.summary) == hours_in_file(flights_file(), ROWS, 60)
    alerts = threaded_broker.call(lambda broker: broker.messages("/queue/late"))
    ids = sorted(int(json.loads(message.body)["id"]) for message in alerts)
    assert ids == sorted(late_flights_in_file(flights_file(), ROWS, 60))
    assert {message.headers["carrier"] for message in alerts} <= {json.loads(text)["carrier"] for text in flights}
