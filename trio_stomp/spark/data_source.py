"""The data source ``stomp`` as Spark sees it: it reads options, and hands over to the modules that do the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from trio_stomp.spark.batch_source import BatchOptions, StompBatchReader
from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.option_reader import OptionError, OptionReader, UnknownOptionError
from trio_stomp.spark.pyspark_versions import HAS_ADMISSION_CONTROL, DataSourceStreamArrowWriter
from trio_stomp.spark.sink_writer import SinkOptions
from trio_stomp.spark.sinks import batch_writer, stream_writer
from trio_stomp.spark.spark_schema import refuse_other, spark_schema
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.spark.stream_source import StompStreamReader, WithoutAdmissionControl

__all__ = ["StompDataSource"]


class StompDataSource(DataSource):
    """STOMP destinations as DataFrames: ``spark.dataSource.register(StompDataSource)``, then ``.format("stomp")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "stomp"

    @property
    def _given(self) -> Mapping[str, str]:
        """The options; raises OptionError if Spark passes on none, as for a table."""
        if not self.options:
            msg = (
                "no options have arrived: Spark does not pass the OPTIONS of CREATE TABLE ... USING stomp to a source "
                "in Python. Use CREATE TEMPORARY VIEW ... USING stomp OPTIONS (...) instead, or give a DataFrame a "
                "name: spark.read.format('stomp').options(...).load().createOrReplaceTempView('orders')"
            )
            raise OptionError(msg)
        return self.options

    @ConciseErrors()
    def schema(self) -> StructType:
        """The columns of messages. Spark asks for them in ``load()``, which is when wrong options should fail.

        Raises:
            OptionError: Neither ``spark.read`` nor ``spark.readStream`` could take the options.
        """
        _refuse_unusable(self._given)
        return spark_schema(MessageColumns.read(OptionReader(self._given)))

    @ConciseErrors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """A destination, drained."""
        options = BatchOptions.read(self._given)
        refuse_other(options.intake.columns, schema)
        return StompBatchReader(options)

    @ConciseErrors()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A destination as a stream."""
        options = StreamOptions.read(self._given)
        refuse_other(options.intake.columns, schema)
        reader = StompStreamReader(options)
        return reader if HAS_ADMISSION_CONTROL else WithoutAdmissionControl(reader)

    @ConciseErrors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001  # Spark's signature
        """The sink of a DataFrame."""
        return batch_writer(SinkOptions.read(self._given), schema, overwrite=overwrite)

    @ConciseErrors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802  # Spark's signature
        """The sink of a stream."""
        return stream_writer(SinkOptions.read(self._given), schema, overwrite=overwrite)


def _refuse_unusable(options: Mapping[str, str]) -> None:
    """Refuse options that are wrong for a batch and for a stream: Spark does not say which of them it will be."""
    batch, stream = _failure(BatchOptions.read, options), _failure(StreamOptions.read, options)
    if batch is None or stream is None:
        return
    if isinstance(batch, UnknownOptionError) and isinstance(stream, UnknownOptionError):
        raise UnknownOptionError.to_both(batch, stream, "the STOMP source")
    raise stream if isinstance(batch, UnknownOptionError) else batch


def _failure(read: Callable[[Mapping[str, str]], object], options: Mapping[str, str]) -> OptionError | None:
    try:
        read(options)
    except OptionError as error:
        return error
    return None
