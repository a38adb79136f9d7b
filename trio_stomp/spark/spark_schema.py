"""The columns of messages as Spark names their types."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trio_stomp.spark.message_columns import MessageColumns

__all__ = ["refuse_other", "spark_schema"]


def spark_schema(columns: MessageColumns) -> StructType:
    """The columns for Spark."""
    return from_arrow_schema(columns.arrow_schema())


def refuse_other(columns: MessageColumns, schema: StructType) -> None:
    """Refuse a schema that is not the one of these columns.

    Raises:
        ValueError: It is another one.
    """
    own = spark_schema(columns)
    if schema != own:
        msg = (
            f"the columns of messages are {own.simpleString()}; leave out .schema(...), and make other columns of "
            "'body' with from_json() or from_csv()"
        )
        raise ValueError(msg)
