"""The Spark job of the flights pipeline: a STOMP queue to Parquet, and late flights back to STOMP.

`flights_pipeline.py` starts it, with its settings as JSON on the command line. When it is killed and restarted, it
resumes where it was. It reports on its standard output, one JSON object per line.

Three queries, each with one input and one output, so that each is exactly-once by itself:

    STOMP queue -> departures (Parquet)                     parse, drop duplicates of the sender
    departures  -> hours (Parquet)                          watermark, delay by hour, carrier and airport
    departures  -> STOMP queue                              late flights, one transaction per task

A queue sends each message to one consumer, so two queries that read the queue would each see only some of the flights.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pipeline.settings import PASSCODE_VARIABLE, JobSettings
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from trio_stomp.spark import ReceiversFailed, StompDataSource, receivers

FLIGHT = "id INT, carrier STRING, number INT, origin STRING, destination STRING, hour STRING, delay INT"
DEPARTURES = "id INT, carrier STRING, number INT, origin STRING, destination STRING, delay INT, hour TIMESTAMP"
HOURS = "hour TIMESTAMP, carrier STRING, origin STRING, flights LONG, cancelled LONG, delay_minutes LONG, late LONG"
PREFETCH = 2_000
HOUR_FORMAT = "yyyy-MM-dd'T'HH:mm:ssX"
REPORT_SECONDS = 1.0


def report(**values: object) -> None:
    """Report to the parent process."""
    print(json.dumps(values), flush=True)


def open_session(settings: JobSettings) -> SparkSession:
    """The session, small enough for two cores."""
    # Executors of a cluster import what the job's functions refer to.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.Builder().master(settings.master).appName("flights pipeline")
    options = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.warehouse.dir": str(settings.folder / "warehouse"),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(StompDataSource)
    return spark


def stomp(settings: JobSettings) -> dict[str, str]:
    """The connection options of source and sink."""
    given = {"login": settings.login, "password": settings.passcode, "host": settings.vhost}
    return {"brokers": settings.url} | {name: value for name, value in given.items() if value}


def source(settings: JobSettings) -> dict[str, str]:
    """The options of the source."""
    return stomp(settings) | {
        "subscribe": settings.queue,
        "subscribeHeaders": '{"x-expires": "3600000"}',
        "spoolLocation": str(settings.spool),
        "prefetch": str(PREFETCH),
        "maxOffsetsPerTrigger": str(settings.rate),
        "receivers": "0" if settings.receivers else "1",
    }


def receiving(spark: SparkSession, settings: JobSettings) -> AbstractContextManager[None]:
    """Receive on executors for the length of a block, if the settings have receivers."""
    return receivers(spark, source(settings), count=settings.receivers) if settings.receivers else nullcontext()


def read_queue(spark: SparkSession, settings: JobSettings) -> DataFrame:
    """The messages of the queue."""
    return spark.readStream.format("stomp").options(**source(settings)).load()


def flights_of(messages: DataFrame, lateness: str) -> DataFrame:
    """Parse the flights and drop duplicates, because a sender resends unconfirmed messages after a lost connection."""
    flights = messages.select(f.from_json(f.col("body").cast("string"), FLIGHT).alias("flight")).select("flight.*")
    return (
        flights.withColumn("hour", f.to_timestamp("hour"))
        .withWatermark("hour", lateness)
        .dropDuplicatesWithinWatermark(["id"])
        .select("id", "carrier", "number", "origin", "destination", "delay", "hour")
    )


def start_departures(flights: DataFrame, settings: JobSettings) -> StreamingQuery:
    """From the queue to the table of departures."""
    return (
        flights.writeStream.queryName("departures")
        .format("parquet")
        .option("path", str(settings.departures))
        .option("checkpointLocation", str(settings.checkpoint("departures")))
        .trigger(processingTime="1 second")
        .start()
    )


def departures_as_stream(spark: SparkSession, settings: JobSettings) -> DataFrame:
    """The rows of the table of departures, as a stream."""
    return spark.readStream.schema(DEPARTURES).option("maxFilesPerTrigger", 64).parquet(str(settings.departures))


def start_hours(spark: SparkSession, settings: JobSettings) -> StreamingQuery:
    """From the departures to the table of hours."""
    left = f.col("delay").isNotNull()
    hours = (
        departures_as_stream(spark, settings)
        .withWatermark("hour", settings.lateness)
        .groupBy(f.window("hour", "1 hour"), "carrier", "origin")
        .agg(
            f.count("*").alias("flights"),
            f.sum(f.when(left, 0).otherwise(1)).alias("cancelled"),
            f.sum(f.coalesce("delay", f.lit(0))).alias("delay_minutes"),
            f.sum(f.when(left & (f.col("delay") > settings.late_minutes), 1).otherwise(0)).alias("late"),
        )
        .select(
            f.col("window.start").alias("hour"), "carrier", "origin", "flights", "cancelled", "delay_minutes", "late"
        )
    )
    return (
        hours.writeStream.queryName("hours")
        .format("parquet")
        .outputMode("append")
        .option("path", str(settings.hours))
        .option("checkpointLocation", str(settings.checkpoint("hours")))
        .trigger(processingTime="2 seconds")
        .start()
    )


def start_alerts(spark: SparkSession, settings: JobSettings) -> StreamingQuery:
    """Send late departures back to STOMP."""
    late = departures_as_stream(spark, settings).where(f.col("delay") > settings.late_minutes)
    alerts = late.select(
        f.to_json(f.struct("id", "carrier", "number", "origin", "destination", "delay", "hour")).alias("body"),
        f.lit("application/json").alias("content_type"),
        f.create_map(f.lit("carrier"), "carrier", f.lit("origin"), "origin").alias("headers"),
    )
    return (
        alerts.writeStream.queryName("alerts")
        .format("stomp")
        .options(**stomp(settings))
        .option("destination", settings.alerts)
        .option("sendHeaders", '{"x-expires": "3600000"}')
        .option("writeMode", "transaction")
        .option("checkpointLocation", str(settings.checkpoint("alerts")))
        .trigger(processingTime="2 seconds")
        .start()
    )


def rows_of(spark: SparkSession, folder: Path, columns: str) -> int:
    """Count the committed rows of a table. A table without files has no schema yet."""
    return spark.read.schema(columns).parquet(str(folder)).count() if (folder / "_spark_metadata").exists() else 0


def watch(spark: SparkSession, settings: JobSettings, queries: list[StreamingQuery]) -> None:
    """Report until every flight, and the message that closes the windows, is in the table."""
    rows = 0
    while rows <= settings.total:
        for query in queries:
            failure = query.exception()
            if failure is not None:
                raise failure
        rows = rows_of(spark, settings.departures, DEPARTURES)
        report(stage="flowing", departures=rows, hours=rows_of(spark, settings.hours, HOURS))
        time.sleep(REPORT_SECONDS)


def write_summary(spark: SparkSession, settings: JobSettings) -> int:
    """Export the table of hours for readers without Spark; returns the number of rows."""
    hours = spark.read.schema(HOURS).parquet(str(settings.hours)).coalesce(1)
    hours.write.mode("overwrite").option("timestampFormat", HOUR_FORMAT).json(str(settings.summary))
    return hours.count()


def run(settings: JobSettings) -> None:
    """Run the queries to the end, and write the summary."""
    spark = open_session(settings)
    report(stage="started", spark=spark.version, master=settings.master)
    with receiving(spark, settings):
        departures = start_departures(flights_of(read_queue(spark, settings), settings.lateness), settings)
        # The other two queries need the schema of this table, so its first file must exist.
        while not (settings.departures / "_spark_metadata").exists():
            departures.awaitTermination(1)
        later = [start_hours(spark, settings), start_alerts(spark, settings)]
        watch(spark, settings, [departures, *later])
        for query in later:
            query.processAllAvailable()
        hours = write_summary(spark, settings)
        for query in (departures, *later):
            query.stop()
    report(stage="done", departures=settings.total, hours=hours)
    spark.stop()


def main() -> int:
    """Run the job; returns the exit status."""
    settings = JobSettings.of_json(sys.argv[1], os.environ.get(PASSCODE_VARIABLE, ""))
    try:
        run(settings)
    except (PySparkException, ReceiversFailed, TimeoutError, ValueError) as error:
        report(stage="failed", reason=str(error).splitlines()[0] if str(error) else type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
