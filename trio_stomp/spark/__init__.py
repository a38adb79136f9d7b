"""STOMP as a source and a sink of Spark's DataFrames and streams. Needs the extra ``spark``.

::

    from trio_stomp.spark import StompDataSource

    spark.dataSource.register(StompDataSource)
    spark.readStream.format("stomp").option("brokers", "stomp://broker:61613").option("subscribe", "/queue/flights")
"""

try:
    from trio_stomp.spark.data_source import StompDataSource
except ModuleNotFoundError as error:
    lacking = (error.name or "").partition(".")[0]
    if lacking == "fcntl":
        msg = "trio_stomp.spark does not run on Windows: it flushes its files with fcntl. Use Linux or macOS"
        raise ImportError(msg, name="fcntl") from error
    if lacking not in ("pyspark", "pyarrow"):
        raise
    msg = f"trio_stomp.spark requires {lacking}. Run: pip install 'trio-stomp[spark]'"
    raise ModuleNotFoundError(msg, name=error.name) from error

__all__ = ["StompDataSource"]
