"""The data source as Spark finds it: its columns, and which options it refuses."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tests.spark.receiving import QUEUE, publish
from trio_stomp.spark import OptionError, StompDataSource
from trio_stomp.testing import ThreadedBroker

NEEDED = {"brokers": "stomp://localhost:61613", "subscribe": "/queue/a", "spoolLocation": "/spool"}
COLUMNS = (
    "struct<body:binary,destination:string,message_id:string,subscription:string,content_type:string,"
    "redelivered:boolean,timestamp:timestamp,received_at:timestamp,seq:bigint,stable_id:string>"
)
# What Spark passes on for a table: its properties, with the options among them.
OF_TABLE = {f"option.{name}": value for name, value in NEEDED.items()} | {"owner": "root", "provider": "stomp"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxRows": "5"},
        {"maxOffsetsPerTrigger": "5"},
        {"checkpointLocation": "/c", "queryName": "q"},
        OF_TABLE,
    ],
    ids=["needed", "of a batch", "of a stream", "Spark's own", "of a table"],
)
def test_schema_when_options_are_valid_then_the_columns_of_messages(options: dict[str, str]) -> None:
    assert StompDataSource({**NEEDED, **options}).schema().simpleString() == COLUMNS


def test_schema_when_options_choose_columns_then_they_are_there_too() -> None:
    names = StompDataSource({**NEEDED, "includeHeaders": "true", "INCLUDETEXT": "True"}).schema().fieldNames()

    assert (names[1], names[-1], len(names)) == ("text", "headers", 12)


WRONG_OFFSET = '{"destination": "/queue/a", "retired": 0, "rows": {"a": ROW}, "spool": "b", "version": 2}'
# All of what an error says about a value: the name of the option, what is expected, and the value.
WRONG_VALUES = [
    ({"selector": ""}, "'selector' must be some text, got ''"),
    ({"includeHeaders": "yes"}, "'includeHeaders' must be true or false, got 'yes'"),
    ({"prefetch": "0"}, "'prefetch' must be a whole number from 1, got '0'"),
    ({"prefetch": "x"}, "'prefetch' must be a whole number from 1, got 'x'"),
    ({"maxRows": "0"}, "'maxRows' must be a whole number from 1, got '0'"),
    ({"receivers": "-1"}, "'receivers' must be a whole number from 0, got '-1'"),
    ({"lingerMs": "1.5"}, "'lingerMs' must be a whole number of milliseconds from 1, got '1.5'"),
    ({"lingerMs": "0"}, "'lingerMs' must be a whole number of milliseconds from 1, got '0'"),
    ({"maxSpoolBytes": "lots"}, "'maxSpoolBytes' must be a number of bytes such as 1048576, 64m or 1g, got 'lots'"),
    ({"maxSpoolBytes": "m"}, "'maxSpoolBytes' must be a number of bytes such as 1048576, 64m or 1g, got 'm'"),
    ({"segmentFormat": "csv"}, "'segmentFormat' must be arrow or parquet, got 'csv'"),
    ({"spoolTransport": "smoke"}, "'spoolTransport' must be file or inline, got 'smoke'"),
    ({"dedupe": "yes"}, "'dedupe' must be auto, none or header:<name>, got 'yes'"),
    ({"dedupe": "header:"}, "'dedupe' must be auto, none or header:<name>, got 'header:'"),
    ({"spoolLocation": "spool"}, "must be an absolute path"),
    (
        {"startingOffsets": "newest"},
        "must be unread, earliest, latest, or an offset as Spark's progress reports print it, got 'newest'",
    ),
    ({"startingOffsets": '{"rows": }'}, "got '{\"rows\": }': Expecting value: line 1 column 10"),
    ({"startingOffsets": '{"destination": "/queue/b"}'}, "the checkpoint is of '/queue/b'"),
    *(
        ({"startingOffsets": WRONG_OFFSET.replace("ROW", row)}, "expected an offset of this source, got {'destination'")
        for row in ("null", '"x"', "[1]")
    ),
    *(
        ({"subscribeHeaders": each}, f'a JSON object of text, such as {{"x-expires": "60000"}}, got {each!r}')
        for each in ("{", "[1]", '{"a": "1", "a": "2"}', '{"a": 1}')
    ),
    (
        {"subscribeHeaders": '{"destination": "/queue/b"}'},
        "'subscribeHeaders' has the header 'destination'; use the option 'subscribe'",
    ),
    *(
        (
            {"subscribeHeaders": f'{{"x-priority": "5", "{name}": "1"}}'},
            f"'subscribeHeaders' has the header '{name}'; the source sets it itself",
        )
        for name in ("ack", "content-length", "id", "receipt", "transaction")
    ),
    *(
        ({"subscribe": each}, "'subscribe' must be a destination, or a JSON array of different ones such as")
        for each in ("[", "[]", '["/queue/a", 1]', '["/queue/a", "/queue/a"]', '[""]', "[[]]")
    ),
]
# Options that contradict each other, and names that are none.
WRONG_OPTIONS = [
    ({"minPartitions": "9"}, "'minPartitions' is 9 and 'maxPartitions' is 8"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is 9, and a batch has at most 8 rows"),
    ({"receivers": "2", "subscribe": "/topic/a"}, "gives each of them every message"),
    (
        {"maxRows": "5", "maxOffsetsPerTrigger": "5"},
        "the options 'maxRows' (batch reads only) and 'maxOffsetsPerTrigger' (streams only) cannot be used together",
    ),
    (
        {"IDLETIMEOUTMS": "5", "maxrows": "5", "receivers": "2", "startingOffsets": "latest"},
        "the options 'idleTimeoutMs', 'maxRows' (batch reads only) and 'receivers', 'startingOffsets' (streams only)",
    ),
    ({"maxRows": "5", "maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be a whole number from 1, got '0'"),
    ({"maxOffsetPerTrigger": "5"}, "source has no option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'"),
    ({"maxRow": "5"}, "the STOMP source has no option 'maxrow'; did you mean 'maxRows'"),
    ({"kafka.bootstrap.servers": "x"}, "no option 'kafka.bootstrap.servers'; name the brokers with 'brokers'"),
    ({"maxRowsPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
    ({"url": "stomp://a:1"}, "no option 'url'; name the brokers with 'brokers'"),
    ({"user": "a"}, "no option 'user'; did you mean 'login'"),
    ({"subscribePattern": "/queue/.*"}, "STOMP cannot list destinations"),
    ({"endingOffsets": "latest"}, "ends when nothing has come for 'idleTimeoutMs'"),
    ({"passcode": "x"}, "use .option('password', ...)"),
    ({"path": "/queue/a"}, "a destination is no path"),
]


@pytest.mark.parametrize(("options", "said"), [*WRONG_VALUES, *WRONG_OPTIONS])
def test_schema_when_options_are_wrong_for_batch_and_stream_then_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        StompDataSource({**NEEDED, **options}).schema()

    assert said in str(caught.value)


@pytest.mark.parametrize("given", ['{"secret_key": "hunter2", "anonymous": true}', '["hunter2"]', "secret_key=hunter2"])
def test_schema_when_arguments_of_a_file_system_are_wrong_then_refused_without_showing_a_key(given: str) -> None:
    with pytest.raises(OptionError, match="'spoolOptions' must be a JSON object of text, such as") as caught:
        StompDataSource({**NEEDED, "spoolLocation": "s3://bucket/spool", "spoolOptions": given}).schema()

    assert "hunter2" not in str(caught.value)


def test_schema_when_an_option_is_like_none_then_those_of_batch_and_stream_are_named() -> None:
    with pytest.raises(OptionError, match=r"'somethingelse'; there are .*maxOffsetsPerTrigger.*maxRows"):
        StompDataSource({**NEEDED, "somethingElse": "x"}).schema()


@pytest.mark.parametrize("option", list(NEEDED))
def test_schema_when_a_needed_option_is_missing_then_the_error_has_an_example_and_suggests_no_valid_one(
    option: str,
) -> None:
    others = {"subscribeHeaders": "{}", "spoolOptions": "{}"}
    source = StompDataSource({name: value for name, value in {**NEEDED, **others}.items() if name != option})
    with pytest.raises(OptionError, match=rf"'{option}' is missing; for example \.option\('{option}', "):
        source.schema()


@pytest.mark.parametrize(
    ("missing", "given"),
    [
        ("subscribe", "subscrib"),
        ("subscribe", "topic"),
        ("brokers", "broker"),
        ("brokers", "kafka.bootstrap.servers"),
        ("spoolLocation", "spoollocaton"),
    ],
)
def test_schema_when_a_needed_option_is_misspelled_then_the_error_names_what_was_given(
    missing: str, given: str
) -> None:
    options = {given if name == missing else name: value for name, value in NEEDED.items()}
    others = {"subscribeHeaders": "{}", "spoolOptions": "{}", "receivers": "1"}

    with pytest.raises(OptionError) as caught:
        StompDataSource({**options, **others}).schema()

    assert str(caught.value) == f"the option {missing!r} is missing; did you mean it by {given!r}?"


def test_reader_when_an_option_is_of_the_other_use_then_refused() -> None:
    batch = StompDataSource({**NEEDED, "startingOffsets": "latest"})
    with pytest.raises(OptionError, match="the STOMP batch source has no option 'startingoffsets'; a batch has no"):
        batch.reader(batch.schema())
    stream = StompDataSource({**NEEDED, "maxRows": "5"})
    with pytest.raises(OptionError, match="the STOMP streaming source has no option 'maxrows'"):
        stream.streamReader(stream.schema())


def test_reader_when_the_user_gives_another_schema_then_refused() -> None:
    source = StompDataSource(NEEDED)
    for reader in (source.reader, source.streamReader):
        reader(source.schema())
        with pytest.raises(ValueError, match=r"leave out \.schema"):
            reader(StructType([]))


def test_error_when_an_option_is_wrong_then_its_traceback_has_nothing_of_the_inside() -> None:
    for options, text in (({"maxRow": "5"}, "no option 'maxrow'"), ({"prefetch": "x"}, "'prefetch' must be")):
        source = StompDataSource({**NEEDED, **options})
        for call in (source.schema, partial(source.streamReader, StructType([]))):
            with pytest.raises(OptionError, match=text) as caught:
                call()
            # Of this package, only the frame in which it is raised again.
            files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert [Path(file).name for file in files if "trio_stomp" in file] == ["concise_errors.py"]


def test_source_when_spark_passes_no_options_then_it_says_what_to_use_in_place_of_a_table() -> None:
    source, columns = StompDataSource({}), StructType([])

    for ask in (
        source.schema,
        lambda: source.reader(columns),
        lambda: source.streamReader(columns),
        lambda: source.writer(columns, overwrite=False),
    ):
        with pytest.raises(OptionError, match=r"CREATE TEMPORARY VIEW .* USING stomp OPTIONS"):
            ask()


def test_view_when_made_with_sql_then_its_rows_are_the_messages_each_time(
    spark: SparkSession, connection: dict[str, str], threaded_broker: ThreadedBroker, tmp_path: Path
) -> None:
    publish(threaded_broker, range(5))
    given = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path / "spool"), "idleTimeoutMs": "300"}
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING stomp OPTIONS ({options})")

    for _ in range(2):
        found = spark.sql("SELECT CAST(CAST(body AS STRING) AS INT) AS n FROM orders WHERE NOT redelivered").collect()
        assert sorted(row.n for row in found) == list(range(5))
