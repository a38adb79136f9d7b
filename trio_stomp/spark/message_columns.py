"""Messages as rows: the columns of the sources, and how they are filled.

Receivers run without PySpark too, so the columns are defined for Arrow; `spark_schema` makes Spark's of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import (
    Array,
    DataType,
    MapArray,
    RecordBatch,
    Scalar,
    Schema,
    array,
    binary,
    bool_,
    field,
    int32,
    int64,
    map_,
    record_batch,
    schema,
    string,
    timestamp,
)

from trio_stomp.client import Message
from trio_stomp.errors import DecodeError
from trio_stomp.protocol import Headers
from trio_stomp.spark.option_reader import OptionReader

__all__ = ["STABLE_ID", "MessageColumns", "Received"]

STABLE_ID: Final = "stable_id"
_MICROSECONDS: Final = 1_000_000
# Until the year 5138; Spark's own times end in 9999.
_LONGEST_TIMESTAMP_DIGITS: Final = 14
# AMQP counts seconds, and so does the header on RabbitMQ; JMS counts milliseconds. What is below this is in seconds,
# until the year 5138: as milliseconds it would be before March of 1973.
_LEAST_MILLISECONDS: Final = 100_000_000_000
_TIMES: Final = timestamp("us", "UTC")
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message that has come, and when.

    Attributes:
        message: The message.
        seconds: When, in seconds since 1970.
        stable_id: What names it through all its deliveries, where something does.
    """

    message: Message
    seconds: float
    stable_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """Which columns there are.

    Attributes:
        include_headers: Whether there is a column with all headers.
        include_text: Whether there is a column with the body as text.
    """

    include_headers: bool = False
    include_text: bool = False

    @classmethod
    def read(cls, reader: OptionReader) -> MessageColumns:
        """Read the options that choose them.

        Raises:
            OptionError: An option is invalid.
        """
        return cls(
            include_headers=reader.flag("includeHeaders", default=False),
            include_text=reader.flag("includeText", default=False),
        )

    def arrow_schema(self) -> Schema:
        """The columns, exactly as Spark expects them: each may be null, because it does not trust a source for more."""
        columns: list[tuple[str, DataType]] = [
            ("body", binary()),
            ("destination", string()),
            ("message_id", string()),
            ("subscription", string()),
            ("content_type", string()),
            ("redelivered", bool_()),
            ("timestamp", _TIMES),
            ("received_at", _TIMES),
            ("seq", int64()),
            (STABLE_ID, string()),
        ]
        if self.include_text:
            columns.insert(1, ("text", string()))
        if self.include_headers:
            columns.append(("headers", map_(string(), string())))
        return schema([field(name, kind) for name, kind in columns])

    def batch(self, received: Sequence[Received], first: int) -> RecordBatch:
        """Rows of messages.

        Args:
            received: The messages.
            first: The sequence number of the first of them.
        """
        messages = [each.message for each in received]
        headers = [message.headers for message in messages]
        columns: dict[str, Sequence[object] | Array[Scalar[DataType]]] = {
            "body": [message.body for message in messages],
            "destination": [each.get("destination") for each in headers],
            "message_id": [each.get("message-id") for each in headers],
            "subscription": [each.get("subscription") for each in headers],
            "content_type": [each.get("content-type") for each in headers],
            "redelivered": [each.get("redelivered") == "true" for each in headers],
            "timestamp": _times([_sent_at(each.get("timestamp")) for each in headers]),
            "received_at": _times([int(each.seconds * _MICROSECONDS) for each in received]),
            "seq": range(first, first + len(messages)),
            STABLE_ID: [each.stable_id for each in received],
        }
        if self.include_text:
            columns["text"] = [_text(message) for message in messages]
        if self.include_headers:
            columns["headers"] = _maps(headers)
        return record_batch(columns, schema=self.arrow_schema())


def _times(microseconds: Sequence[int | None]) -> Array[Scalar[DataType]]:
    """Times since 1970 as Arrow has them; through `datetime` it would take three times as long."""
    return array(microseconds, int64()).cast(_TIMES)


def _sent_at(value: str | None) -> int | None:
    """When its sender says it was sent, in microseconds. None where it does not."""
    if value is None or len(value) > _LONGEST_TIMESTAMP_DIGITS or not value.isascii() or not value.isdigit():
        return None
    number = int(value)
    return number * (_MICROSECONDS if number < _LEAST_MILLISECONDS else 1000)


def _maps(headers: Sequence[Headers]) -> Array[Scalar[DataType]]:
    """Headers as maps. The first of repeated ones counts: a map takes a name once."""
    offsets, names, values = [0], list[str](), list[str]()
    for each in headers:
        names += each
        values += each.values()
        offsets.append(len(names))
    offset = array(offsets, int32())
    # pyarrow-stubs only has offsets of 64 bits; Arrow itself only accepts 32.
    return MapArray.from_arrays(offset, array(names, string()), array(values, string()))  # type: ignore[call-overload, no-any-return]  # see above


def _text(message: Message) -> str | None:
    if message.content_type is None or not message.content_type.lower().startswith(_TEXT_TYPES):
        return None
    try:
        return message.text
    except DecodeError:
        return None
