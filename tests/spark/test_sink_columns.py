import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructField, StructType

from trio_stomp.spark.sink_rows import check_columns

# StructType.fromDDL() would need a session.
TYPES: dict[str, DataType] = {
    "BINARY": BinaryType(),
    "STRING": StringType(),
    "INT": IntegerType(),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    "MAP<STRING,INT>": MapType(StringType(), IntegerType()),
}


def columns(ddl: str) -> StructType:
    pairs = (column.split() for column in ddl.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


@pytest.mark.parametrize(
    "ddl",
    [
        "body BINARY",
        "body STRING, destination STRING, content_type STRING, headers MAP<STRING,STRING>, dedup_id STRING",
        "dedup_id STRING, body STRING",
    ],
)
def test_columns_when_they_are_those_of_the_sink_then_taken(ddl: str) -> None:
    check_columns(columns(ddl), destination="/queue/a", dedup_id_column="dedup_id")


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("destination STRING", "needs a column 'body' of BINARY or STRING, got destination"),
        ("body INT", "column 'body' must be BINARY or STRING, got INT"),
        ("body STRING, headers MAP<STRING,INT>", "column 'headers' must be MAP<STRING,STRING>"),
        ("body STRING, headers STRING", "column 'headers' must be MAP<STRING,STRING>, got STRING"),
        ("body STRING, content_type BINARY", "column 'content_type' must be STRING"),
        ("body STRING, heders STRING", "no use for column 'heders': did you mean 'headers'"),
        ("body STRING, zzz INT", "no use for column 'zzz': it takes body, destination"),
    ],
)
def test_columns_when_they_do_not_fit_then_the_error_names_the_column(ddl: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        check_columns(columns(ddl), destination="/queue/a", dedup_id_column="dedup_id")


def test_destination_when_neither_option_nor_column_then_refused() -> None:
    check_columns(columns("body STRING, destination STRING"), destination=None, dedup_id_column="dedup_id")
    with pytest.raises(ValueError, match="where to send is not said"):
        check_columns(columns("body STRING"), destination=None, dedup_id_column="dedup_id")


def test_dedup_column_when_it_has_another_name_then_that_one_is_taken() -> None:
    check_columns(columns("body STRING, flight_id STRING"), destination="/queue/a", dedup_id_column="flight_id")
    with pytest.raises(ValueError, match="no use for column 'dedup_id'"):
        check_columns(columns("body STRING, dedup_id STRING"), destination="/queue/a", dedup_id_column="flight_id")
