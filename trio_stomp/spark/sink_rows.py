"""The rows of a task as messages to send. Their columns are checked when the write is planned, before any is sent."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyarrow import RecordBatch
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from trio_stomp.client import OutgoingMessage
from trio_stomp.spark.sink_identity import IdMaker

__all__ = ["COLUMNS", "DEDUP_ID", "RESERVED", "Messages", "RowRules", "check_columns"]

BODY: Final = "body"
DESTINATION: Final = "destination"
CONTENT_TYPE: Final = "content_type"
HEADERS: Final = "headers"
DEDUP_ID: Final = "dedup_id"
# Those with a fixed name.
COLUMNS: Final = (BODY, DESTINATION, CONTENT_TYPE, HEADERS)

# As users write them in SQL, so that they can copy them from the error.
_TYPES: Final = {
    BODY: "BINARY or STRING",
    DESTINATION: "STRING",
    CONTENT_TYPE: "STRING",
    HEADERS: "MAP<STRING,STRING>",
    DEDUP_ID: "STRING",
}
# Maximum rows, and bytes of Python objects, for one crossing into the thread of the connection: a crossing costs
# 0.4 ms, and rows of 1 MB must not become 10 GB because Arrow brings 10 000 of them at once.
_CHUNK_ROWS: Final = 2_000
_CHUNK_BYTES: Final = 1024 * 1024
_CONTENT_TYPE_HEADER: Final = "content-type"
# Headers of SEND that the sink sets, or that belong to receipts and transactions.
RESERVED: Final = {
    "destination": "use the option or the column 'destination'",
    **dict.fromkeys(("content-length", "receipt", "transaction"), "the sink sets it itself"),
}
# The content-length of a received message may stay, because it is that of its body.
_REFUSED_OF_ROWS: Final = RESERVED.keys() - {"content-length"}
_OWN_HEADERS: Final = (
    "map_filter(headers, (k, v) -> k NOT IN ('ack', 'content-length', 'destination', 'message-id', 'receipt', "
    "'redelivered', 'subscription', 'transaction'))"
)
Pairs = Sequence[tuple[str, str]]


def check_columns(schema: StructType, rules: RowRules) -> None:
    """Check the columns of a DataFrame for the sink.

    Raises:
        ValueError: A column is missing, unknown or of another type; the message names it.
    """
    names = {**{each: each for each in COLUMNS}, rules.dedup_id_column: DEDUP_ID}
    unknown = [name for name in schema.fieldNames() if name not in names]
    if unknown:
        raise ValueError(_refused(unknown, list(names)))
    for each in schema.fields:
        role = names[each.name]
        if not _fits(role, each.dataType):
            msg = f"column {each.name!r} must be {_TYPES[role]}, got {each.dataType.simpleString().upper()}; cast it"
            raise ValueError(msg)
    present = set(schema.fieldNames())
    if BODY not in present:
        msg = f"the sink needs a column 'body' of {_TYPES[BODY]}, got {_listed(schema)}; to_json(struct(...)) makes one"
        raise ValueError(msg)
    if rules.destination is None and DESTINATION not in present:
        msg = "no destination: set the option 'destination' or add a STRING column 'destination'"
        raise ValueError(msg)


def _refused(unknown: list[str], known: list[str]) -> str:
    near = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
    named = [f"{name!r} (did you mean {near[name][0]!r}?)" if near[name] else repr(name) for name in unknown]
    columns, them = ("columns", "them") if len(unknown) > 1 else ("column", "it")
    return (
        f"unknown {columns} {', '.join(named)}; the sink accepts {', '.join(known)}: drop {them}, or put {them} into "
        "the body or the headers"
    )


def _listed(schema: StructType) -> str:
    return ", ".join(schema.fieldNames()) or "no columns"


def _fits(role: str, kind: DataType) -> bool:
    if role == BODY:
        return isinstance(kind, BinaryType | StringType)
    if role == HEADERS:
        return isinstance(kind, MapType) and all(
            isinstance(each, StringType) for each in (kind.keyType, kind.valueType)
        )
    return isinstance(kind, StringType)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """How rows become messages.

    Attributes:
        destination: Where to send rows without a destination of their own.
        headers: Headers of every message; a header of the row with the same name replaces them.
        dedup_id_column: The column with ids for duplicate detection.
    """

    destination: str | None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    dedup_id_column: str = DEDUP_ID


class Messages:
    """Turns the batches of one attempt of one task into messages; `id_header` is the header for their ids.

    Attributes:
        rows: How many rows were converted.
    """

    def __init__(self, rules: RowRules, id_header: str, ids: IdMaker | None) -> None:
        self._rules = rules
        self._id_header = id_header
        self._ids = ids
        self.rows = 0

    def chunks(self, batch: RecordBatch) -> Iterator[list[OutgoingMessage]]:
        """Yield the messages of a batch, in chunks that are worth a crossing between threads.

        Raises:
            ValueError: A row cannot be sent; the message names the row and the reason.
        """
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        length = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // row_bytes))
        for offset in range(0, batch.num_rows, length):
            yield self._messages(batch.slice(offset, length))

    def _messages(self, batch: RecordBatch) -> list[OutgoingMessage]:
        # The types were checked when the write was planned.
        columns = batch.to_pydict()
        nothing: Sequence[None] = [None] * batch.num_rows
        bodies: list[bytes | str | None] = columns[BODY]
        destinations: Sequence[str | None] = columns.get(DESTINATION, nothing)
        content_types: Sequence[str | None] = columns.get(CONTENT_TYPE, nothing)
        maps: Sequence[list[tuple[str, str | None]] | None] = columns.get(HEADERS, nothing)
        own_ids: Sequence[str | None] = columns.get(self._rules.dedup_id_column, nothing)
        rows = zip(bodies, destinations, content_types, maps, own_ids, strict=True)
        return [self._message(*row) for row in rows]

    def _message(
        self,
        body: bytes | str | None,
        destination: str | None,
        content_type: str | None,
        headers: list[tuple[str, str | None]] | None,
        own_id: str | None,
    ) -> OutgoingMessage:
        if body is None:
            raise self._fault("its body is null; fill it, or filter the row out")
        to = self._rules.destination if destination is None else destination
        if to is None:
            raise self._fault("its destination is null, and the option 'destination' is not given")
        if not to:
            raise self._fault("its destination is empty")
        pairs = self._pairs(headers) if headers else ()
        merged = dict(self._rules.headers)
        merged.update(pairs)
        if content_type is not None:
            merged.pop(_CONTENT_TYPE_HEADER, None)
        if own_id == "":
            raise self._fault("its id is empty, so Artemis would drop the next such row; leave it null to generate one")
        if own_id is not None:
            merged[self._id_header] = own_id
        elif self._ids is not None:
            # Text and bytes that are equal still differ in their content-type.
            octets = body.encode() if isinstance(body, str) else body
            merged[self._id_header] = self._ids.next_id(to, octets, content_type, pairs)
        self.rows += 1
        return OutgoingMessage(to, body, headers=merged, content_type=content_type)

    def _pairs(self, headers: list[tuple[str, str | None]]) -> Pairs:
        pairs = [(name, value) for name, value in headers if value is not None]
        if len(pairs) < len(headers):
            raise self._fault("its headers hold a null; filter it out: map_filter(headers, (k, v) -> v is not null)")
        for name, _ in pairs:
            if name in _REFUSED_OF_ROWS:
                what = f"its headers hold {name!r}; {RESERVED[name]}"
                raise self._fault(f"{what}. Of the headers of received messages, take {_OWN_HEADERS}")
        return pairs

    def _fault(self, what: str) -> ValueError:
        return ValueError(f"row {self.rows + 1} of this task cannot be sent: {what}")
