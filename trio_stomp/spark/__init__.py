"""STOMP as a source and a sink of Spark's DataFrames and streams. Needs the extra ``spark``.

::

    from trio_stomp.spark import StompDataSource

    spark.dataSource.register(StompDataSource)
    spark.readStream.format("stomp").option("brokers", "stomp://broker:61613").option("subscribe", "/queue/flights")

What fills and watches a spool without Spark needs only the extra ``spool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trio_stomp.spark.data_source import StompDataSource

__all__ = [
    "CareReport",
    "DestinationStatus",
    "OptionError",
    "ReceiverState",
    "ReceiverStatus",
    "ReceiversFailed",
    "SpoolError",
    "SpoolStatus",
    "SpoolTaken",
    "StompDataSource",
    "care",
    "receivers",
    "run_receiver",
    "status",
]


def _explained(error: ModuleNotFoundError) -> ImportError:
    """The error of an import, with the extra that is missing."""
    lacking = (error.name or "").partition(".")[0]
    if lacking == "fcntl":
        msg = "trio_stomp.spark does not run on Windows: it flushes its files with fcntl. Use Linux or macOS"
        return ImportError(msg, name="fcntl")
    if lacking not in ("pyspark", "pyarrow"):
        return error
    msg = f"trio_stomp.spark requires {lacking}. Run: pip install 'trio-stomp[spark]'"
    return ModuleNotFoundError(msg, name=error.name)


try:
    from trio_stomp.spark.executor_receivers import ReceiversFailed, receivers
    from trio_stomp.spark.lease import SpoolTaken
    from trio_stomp.spark.option_reader import OptionError
    from trio_stomp.spark.receiver import run_receiver
    from trio_stomp.spark.receiver_status import ReceiverState, ReceiverStatus
    from trio_stomp.spark.spool_care import CareReport, DestinationStatus, SpoolStatus, care, status
    from trio_stomp.spark.spool_store import SpoolError
except ModuleNotFoundError as error:
    raise _explained(error) from error

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import what needs PySpark when it is asked for."""
        if name != "StompDataSource":
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        try:
            from trio_stomp.spark.data_source import StompDataSource  # noqa: PLC0415  # see above
        except ModuleNotFoundError as error:
            raise _explained(error) from error
        return StompDataSource
