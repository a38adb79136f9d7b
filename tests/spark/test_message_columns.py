import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from trio_stomp import Message, connect
from trio_stomp.spark.message_columns import STABLE_ID, MessageColumns, SchemaDiffers, completed
from trio_stomp.spark.segment_slices import SegmentGroup, SegmentSlice, rows_of
from trio_stomp.spark.segments import SegmentFormat, encoded
from trio_stomp.spark.spark_schema import spark_schema
from trio_stomp.spark.spool_store import SpoolLocation
from trio_stomp.testing import open_broker

ALL = MessageColumns(include_headers=True, include_text=True)


async def delivered(*sent: tuple[bytes, list[tuple[str, str]]]) -> list[Message]:
    async with open_broker() as broker:
        for body, headers in sent:
            broker.publish("/queue/a", body, headers)
        async with connect(broker.url) as client, client.subscribe("/queue/a", ack="auto") as subscription:
            messages: list[Message] = []
            while len(messages) < len(sent):
                messages += await subscription.receive_batch(len(sent) - len(messages))
            return messages


def rows(columns: MessageColumns, messages: list[Message]) -> list[dict[str, object]]:
    return columns.batch(messages, [f"id-{each.text}" for each in messages], 1.5, 7).to_pylist()


async def test_message_when_made_a_row_then_each_column_has_its_part() -> None:
    headers = [("content-type", "text/plain"), ("timestamp", "1700000000123"), ("a", "1"), ("a", "2")]
    (message,) = await delivered((b"x", headers))

    (row,) = rows(ALL, [message])

    assert row["body"] == b"x"
    assert row["text"] == "x"
    assert row["destination"] == "/queue/a"
    assert row["message_id"] == message.id
    assert row["subscription"] == message.headers["subscription"]
    assert row["content_type"] == "text/plain"
    assert row["redelivered"] is False
    assert row["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert row["received_at"] == datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)
    assert row["seq"] == 7
    assert row[STABLE_ID] == "id-x"
    pairs = row["headers"]
    assert isinstance(pairs, list)
    assert ("a", "1") in pairs
    assert ("a", "2") not in pairs


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("1700000000", datetime(2023, 11, 14, 22, 13, 20, 0, UTC)),
        ("1700000000123", datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)),
        ("99999999999", datetime(5138, 11, 16, 9, 46, 39, 0, UTC)),
        ("100000000000", datetime(1973, 3, 3, 9, 46, 40, 0, UTC)),
    ],
)
async def test_timestamp_when_it_is_in_seconds_as_on_rabbitmq_or_in_milliseconds_as_in_jms_then_the_same(
    timestamp: str, expected: datetime
) -> None:
    (message,) = await delivered((b"x", [("timestamp", timestamp)]))

    (row,) = rows(MessageColumns(), [message])

    assert row["timestamp"] == expected


@pytest.mark.parametrize("timestamp", ["", "soon", "-1", "9" * 30, "٣"])
async def test_timestamp_when_it_is_none_then_null(timestamp: str) -> None:
    (message,) = await delivered((b"x", [("timestamp", timestamp)]))

    (row,) = rows(MessageColumns(), [message])

    assert row["timestamp"] is None


async def test_text_when_the_body_is_none_then_null() -> None:
    messages = await delivered(
        (b"1", [("content-type", "application/json; charset=utf-8")]),
        (b"2", [("content-type", "application/octet-stream")]),
        (b"\xff", [("content-type", "text/plain")]),
    )

    assert ALL.batch(messages, [None] * 3, 0, 1).to_pydict()["text"] == ["1", None, None]


@pytest.mark.parametrize("columns", [MessageColumns(), ALL])
def test_schema_when_compared_with_what_spark_expects_then_equal(columns: MessageColumns) -> None:
    assert columns.arrow_schema().equals(to_arrow_schema(spark_schema(columns), timezone="UTC"))


async def test_messages_when_some_have_no_such_header_then_null_for_these() -> None:
    sent = [(b"%d" % number, [("content-type", "text/plain")] if number % 3 else []) for number in range(20)]
    messages = await delivered(*sent)
    stable_ids = [None if number % 5 else "\u00e9" * number for number in range(20)]

    batch = ALL.batch(messages, stable_ids, 1.5, 1)

    batch.validate(full=True)
    found = batch.to_pydict()
    assert found["body"] == [body for body, _ in sent]
    assert found["content_type"] == ["text/plain" if headers else None for _, headers in sent]
    assert found["timestamp"] == [None] * 20
    assert found["seq"] == list(range(1, 21))
    assert found[STABLE_ID] == stable_ids
    assert [dict(each)["message-id"] for each in found["headers"]] == found["message_id"]


def test_batch_when_there_is_no_message_then_empty() -> None:
    batch = ALL.batch([], [], 1.5, 1)

    batch.validate(full=True)
    assert batch.num_rows == 0


RECEIVER = """
import sys
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.segments import SegmentFormat, encoded
batch = MessageColumns(include_headers=True, include_text=True).batch([], [], 1.5, 1)
encoded(batch, SegmentFormat.ARROW)
sys.exit("pandas" in sys.modules)
"""


def test_batch_when_made_then_pandas_is_not_imported() -> None:
    """It takes 55 MiB, in each process that receives."""
    assert subprocess.run([sys.executable, "-c", RECEIVER], check=False).returncode == 0


# --- rows that were written before an option was changed --------------------------------------------------------------


@pytest.mark.parametrize("form", SegmentFormat)
@pytest.mark.parametrize("had", [MessageColumns(), MessageColumns(include_headers=True), ALL])
@pytest.mark.parametrize("wanted", [MessageColumns(), MessageColumns(include_text=True), ALL])
async def test_columns_when_chosen_otherwise_than_when_the_rows_were_written_then_made_or_null(
    tmp_path: Path, form: SegmentFormat, had: MessageColumns, wanted: MessageColumns
) -> None:
    messages = await delivered(
        (b"caf\xc3\xa9", [("content-type", "text/plain"), ("a", "1")]),
        (b"caf\xe9", [("content-type", "text/plain;charset=latin-1")]),
        (b"\xff", [("content-type", "text/plain")]),
        (b"x", []),
    )
    store = SpoolLocation.of(str(tmp_path)).open()
    store.put(f"a.{form.value}", encoded(had.batch(messages, [None] * 4, 1.5, 1), form))
    expected = wanted.batch(messages, [None] * 4, 1.5, 1)

    names = wanted.arrow_schema().names
    slices = [SegmentSlice(path=store.path(f"a.{form.value}"), skip=0, rows=4)]
    (batch,) = rows_of(SpoolLocation.of(str(tmp_path)), SegmentGroup(slices), names)

    assert batch.schema.equals(wanted.arrow_schema())
    found, whole = batch.to_pydict(), expected.to_pydict()
    if wanted.include_headers and not had.include_headers:
        assert found.pop("headers") == [None] * 4
        whole.pop("headers")
    assert found == whole


def test_columns_when_one_is_missing_that_rows_always_had_then_said_that_the_schema_has_changed() -> None:
    with pytest.raises(SchemaDiffers, match=r"lack 'body', which this version .*: the schema has changed"):
        completed(pa.record_batch({"seq": [1, 2]}), ["body", "seq"])
