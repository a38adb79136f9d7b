"""What the sink reads from its options, and the options and columns that it refuses."""

import pickle

import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructField, StructType

from trio_stomp.spark import OptionError, StompDataSource
from trio_stomp.spark.sink_identity import DedupIds
from trio_stomp.spark.sink_writer import SinkOptions, WriteMode

NEEDED = {"brokers": "broker:61613"}


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = SinkOptions.read(NEEDED)

    assert (options.rules.destination, options.mode, options.receipt_window) == (None, WriteMode.AUTO, 1000)
    assert (options.in_flight_bytes, options.transaction_bytes) == (16 * 1024**2, 256 * 1024**2)
    assert (options.dedup_ids, options.dedup_header) == (DedupIds.CONTENT, None)
    assert (options.rules.dedup_id_column, options.rules.headers) == ("dedup_id", {"persistent": "true"})


def test_options_when_all_are_given_then_read() -> None:
    options = SinkOptions.read(
        {
            **NEEDED,
            "destination": "/queue/a",
            "writeMode": "receipt",
            "receiptWindow": "10",
            "maxInFlightBytes": "1m",
            "maxTransactionBytes": "2m",
            "dedupIds": "ordinal",
            "dedupHeader": "x-id",
            "dedupIdColumn": "flight_id",
            "sendHeaders": '{"x-expires": "60000"}',
            "persistent": "false",
        }
    )

    assert (options.mode, options.receipt_window, options.in_flight_bytes) == (WriteMode.RECEIPT, 10, 1024**2)
    assert (options.transaction_bytes, options.dedup_ids) == (2 * 1024**2, DedupIds.ORDINAL)
    assert (options.dedup_header, options.rules.dedup_id_column) == ("x-id", "flight_id")
    assert (options.rules.destination, options.rules.headers) == ("/queue/a", {"x-expires": "60000"})


def test_persistent_header_when_the_user_gives_one_then_it_stays() -> None:
    assert SinkOptions.read({**NEEDED, "sendHeaders": '{"persistent": "no"}'}).rules.headers == {"persistent": "no"}


def test_options_when_sent_to_tasks_then_they_arrive_whole() -> None:
    options = SinkOptions.read({**NEEDED, "password": "hunter2"})

    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before
    assert "hunter2" not in repr(options)


# StructType.fromDDL() would need a session.
TYPES: dict[str, DataType] = {
    "BINARY": BinaryType(),
    "STRING": StringType(),
    "INT": IntegerType(),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    "MAP<STRING,INT>": MapType(StringType(), IntegerType()),
}


def plan_write(ddl: str, **options: str) -> None:
    """Let Spark plan a write of rows with these columns, in order to refuse it before a row is sent."""
    pairs = (column.split() for column in ddl.split(", "))
    columns = StructType([StructField(name, TYPES[kind]) for name, kind in pairs])
    StompDataSource({**NEEDED, **options}).writer(columns, overwrite=False)
    StompDataSource({**NEEDED, **options}).streamWriter(columns, overwrite=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"writeMode": "fast"}, "'writeMode' must be auto or transaction or receipt, got 'fast'"),
        ({"dedupIds": "some"}, "'dedupIds' must be content or ordinal or none"),
        ({"receiptWindow": "0"}, "'receiptWindow' must be a whole number from 1"),
        ({"windows": "1"}, "the STOMP sink has no option 'windows'"),
        (
            {"sendHeaders": '{"destination": "/queue/b"}'},
            "'sendHeaders' has the header 'destination'; use the option or the column 'destination'",
        ),
        *(
            ({"sendHeaders": f'{{"{name}": "1"}}'}, f"'sendHeaders' has the header '{name}'; the sink sets it itself")
            for name in ("content-length", "receipt", "transaction")
        ),
        # With one id for all of them, Artemis would drop every row but the first, and sources take them for copies.
        *(
            (
                {"sendHeaders": f'{{"{name}": "1"}}', "dedupHeader": "x-id", "dedupIds": "none"},
                f"'sendHeaders' has the header '{name}'; each row needs an id of its own",
            )
            for name in ("_AMQ_DUPL_ID", "amqp-message-id", "dedup-id", "x-id")
        ),
        ({"recieptWindow": "1"}, "did you mean 'receiptWindow'"),
        ({"dedupHeader": "receipt"}, "'dedupHeader' cannot be 'receipt': the sink sets it itself"),
        ({"dedupIdColumn": "body"}, "'dedupIdColumn' cannot be 'body', a column with another use"),
    ],
)
def test_write_when_an_option_is_wrong_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        plan_write("body STRING", destination="/queue/a", **given)


@pytest.mark.parametrize(
    "ddl",
    [
        "body BINARY",
        "body STRING, destination STRING, content_type STRING, headers MAP<STRING,STRING>, dedup_id STRING",
        "dedup_id STRING, body STRING",
    ],
)
def test_columns_when_they_are_those_of_the_sink_then_accepted(ddl: str) -> None:
    plan_write(ddl, destination="/queue/a")


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("destination STRING", "needs a column 'body' of BINARY or STRING, got destination"),
        ("body INT", "column 'body' must be BINARY or STRING, got INT"),
        ("body STRING, headers MAP<STRING,INT>", "column 'headers' must be MAP<STRING,STRING>"),
        ("body STRING, headers STRING", "column 'headers' must be MAP<STRING,STRING>, got STRING"),
        ("body STRING, content_type BINARY", "column 'content_type' must be STRING"),
        (
            "body STRING, heders STRING",
            r"unknown column 'heders' \(did you mean 'headers'\?\); the sink accepts body, ",
        ),
        (
            "body STRING, zzz INT",
            "unknown column 'zzz'; the sink accepts body, destination, .*: drop it, or put it into",
        ),
        (
            "zzz INT, body INT, heders STRING",
            r"unknown columns 'zzz', 'heders' \(did you mean 'headers'\?\); .*: drop them, or put them into the body",
        ),
    ],
)
def test_columns_when_they_do_not_fit_then_the_error_names_the_column(ddl: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_write(ddl, destination="/queue/a")


def test_destination_when_neither_option_nor_column_then_refused() -> None:
    plan_write("body STRING, destination STRING")
    with pytest.raises(ValueError, match="no destination: set the option 'destination' or add a STRING column"):
        plan_write("body STRING")


def test_dedup_column_when_it_has_another_name_then_that_one_is_used() -> None:
    options = {"destination": "/queue/a", "dedupIdColumn": "flight_id"}
    plan_write("body STRING, flight_id STRING", **options)
    with pytest.raises(ValueError, match="unknown column 'dedup_id'"):
        plan_write("body STRING, dedup_id STRING", **options)


def test_write_when_asked_to_overwrite_then_refused() -> None:
    source, columns = StompDataSource({**NEEDED, "destination": "/queue/a"}), StructType([])

    for writer in (source.writer, source.streamWriter):
        with pytest.raises(ValueError, match=r"ode\('append'\)"):
            writer(columns, overwrite=True)
