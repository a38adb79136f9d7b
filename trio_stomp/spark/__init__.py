"""STOMP as a source and a sink of Spark's DataFrames and streams. Needs the extra ``spark``.

::

    from trio_stomp.spark import StompDataSource

    spark.dataSource.register(StompDataSource)
    spark.readStream.format("stomp").option("brokers", "stomp://broker:61613").option("subscribe", "/queue/flights")
"""

from trio_stomp.spark.data_source import StompDataSource

__all__ = ["StompDataSource"]
