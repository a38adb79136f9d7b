"""Messages as rows: the columns of the sources, and how they are filled.

Receivers run without PySpark too, so the columns are defined for Arrow; `spark_schema` makes Spark's of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from pyarrow import (
    Array,
    Buffer,
    DataType,
    MapArray,
    RecordBatch,
    Scalar,
    Schema,
    binary,
    bool_,
    field,
    int32,
    int64,
    map_,
    nulls,
    py_buffer,
    record_batch,
    schema,
    string,
    timestamp,
)

from trio_stomp.client import Message
from trio_stomp.protocol import Headers, text_encoding
from trio_stomp.spark.option_reader import OptionReader

__all__ = ["STABLE_ID", "MessageColumns", "SchemaDiffers", "completed", "needed_for"]

STABLE_ID: Final = "stable_id"
_MICROSECONDS: Final = 1_000_000
# Until the year 5138; Spark's own times end in 9999.
_LONGEST_TIMESTAMP_DIGITS: Final = 14
# AMQP counts seconds, and so does the header on RabbitMQ; JMS counts milliseconds. What is below this is in seconds,
# until the year 5138: as milliseconds it would be before March of 1973.
_LEAST_MILLISECONDS: Final = 100_000_000_000
_TIMES: Final = timestamp("us", "UTC")
_TEXT: Final = "text"
_TEXT_FROM: Final = ("body", "content_type")
_HEADERS: Final = "headers"
_HEADERS_TYPE: Final = map_(string(), string())
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """The columns: those that are always there, and the two that options add."""

    include_headers: bool = False
    include_text: bool = False

    @classmethod
    def read(cls, reader: OptionReader) -> MessageColumns:
        """Read the options that choose them."""
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
            columns.insert(1, (_TEXT, string()))
        if self.include_headers:
            columns.append((_HEADERS, _HEADERS_TYPE))
        return schema([field(name, kind) for name, kind in columns])

    def batch(
        self, messages: Sequence[Message], stable_ids: Sequence[str | None], seconds: float, first: int
    ) -> RecordBatch:
        """Make rows of messages. Large bodies are read from their files, so call it in a thread.

        Args:
            messages: The messages.
            stable_ids: What names each through all its deliveries, where something does.
            seconds: When they came, in seconds since 1970.
            first: The number of the first row.
        """
        headers = [message.headers for message in messages]
        bodies = [_read(message) if message.is_spooled else message.body for message in messages]
        columns: dict[str, Array[Scalar[DataType]]] = {
            "body": _packed(binary(), bodies),
            "destination": _texts([each.get("destination") for each in headers]),
            "message_id": _texts([each.get("message-id") for each in headers]),
            "subscription": _texts([each.get("subscription") for each in headers]),
            "content_type": _texts([each.get("content-type") for each in headers]),
            "redelivered": _flags([each.get("redelivered") == "true" for each in headers]),
            "timestamp": _numbers(_TIMES, [_sent_at(each.get("timestamp")) for each in headers]),
            "received_at": _numbers(_TIMES, [int(seconds * _MICROSECONDS)] * len(messages)),
            "seq": _numbers(int64(), range(first, first + len(messages))),
            STABLE_ID: _texts(stable_ids),
        }
        if self.include_text:
            columns[_TEXT] = _texts(
                [_text_of(body, message.content_type) for body, message in zip(bodies, messages, strict=True)]
            )
        if self.include_headers:
            columns[_HEADERS] = _maps(headers)
        return record_batch(columns, schema=self.arrow_schema())


def _read(message: Message) -> bytes:
    with message.open_body() as file:
        return file.read()


class SchemaDiffers(RuntimeError):
    """Rows in the spool have columns that these options cannot be served from."""


def needed_for(names: Sequence[str]) -> list[str]:
    """Return the columns to read from a segment, so that `completed` can make those with these names."""
    return list(dict.fromkeys([*names, *(_TEXT_FROM if _TEXT in names else ())]))


def completed(batch: RecordBatch, names: Sequence[str]) -> RecordBatch:
    """Make the columns that a query wants of those that a segment has.

    Segments that were written before an option was changed lack a column. ``text`` is made of the body. ``headers``
    were not kept, so they are null.

    Args:
        batch: Rows with the columns of the segment that are among `needed_for`.
        names: The columns that the query wants.

    Raises:
        SchemaDiffers: A column is missing that rows always had.
    """
    present = batch.schema.names
    if present == list(names):
        return batch
    columns: dict[str, Array[Scalar[DataType]]] = {}
    for name in names:
        if name in present:
            columns[name] = batch.column(name)
        elif name == _TEXT and all(each in present for each in _TEXT_FROM):
            found = batch.select(list(_TEXT_FROM)).to_pydict()
            rows = zip(found["body"], found["content_type"], strict=True)
            columns[name] = _texts([None if body is None else _text_of(body, kind) for body, kind in rows])
        elif name == _HEADERS:
            columns[name] = nulls(batch.num_rows, _HEADERS_TYPE)
        else:
            raise SchemaDiffers(
                f"rows in the spool have the columns {', '.join(present)}, and lack {name!r}, which this version of "
                "trio_stomp reads: the schema has changed. Let the version that wrote them finish reading them"
            )
    return record_batch(columns)


# --- columns ----------------------------------------------------------------------------------------------------------
#
# Built from buffers, as the Arrow format describes them. pyarrow.array() would do it too, but imports pandas, which
# takes 55 MiB in each process that receives.


def _packed(kind: DataType, values: Sequence[bytes], present: Sequence[bool] = ()) -> Array[Scalar[DataType]]:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return Array.from_buffers(
        kind, len(values), [_bits_or_none(present), py_buffer(offsets), py_buffer(b"".join(values))]
    )


def _texts(values: Sequence[str | None]) -> Array[Scalar[DataType]]:
    encoded = [b"" if each is None else each.encode() for each in values]
    return _packed(string(), encoded, [each is not None for each in values])


def _numbers(kind: DataType, values: Sequence[int | None]) -> Array[Scalar[DataType]]:
    """Numbers of 64 bits; times are such numbers, of microseconds since 1970."""
    present = [each is not None for each in values]
    return Array.from_buffers(
        kind, len(values), [_bits_or_none(present), py_buffer(array("q", [each or 0 for each in values]))]
    )


def _flags(values: Sequence[bool]) -> Array[Scalar[DataType]]:
    return Array.from_buffers(bool_(), len(values), [None, _bits(values)])


def _bits_or_none(present: Sequence[bool]) -> Buffer | None:
    """Which values are not null; None if that is all of them."""
    return None if all(present) else _bits(present)


def _bits(values: Sequence[bool]) -> Buffer:
    digits = "".join("1" if each else "0" for each in reversed(values))
    return py_buffer(int(digits or "0", 2).to_bytes(len(values) // 8 + 1, "little"))


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
    starts = Array.from_buffers(int32(), len(offsets), [None, py_buffer(array("i", offsets))])
    # pyarrow-stubs only has offsets of 64 bits; Arrow itself only accepts 32.
    return MapArray.from_arrays(starts, _texts(names), _texts(values))  # type: ignore[call-overload, no-any-return]  # see above


def _text_of(body: bytes, content_type: str | None) -> str | None:
    if content_type is None or not content_type.lower().startswith(_TEXT_TYPES):
        return None
    try:
        return body.decode(text_encoding(content_type))
    except (LookupError, UnicodeError):
        return None
