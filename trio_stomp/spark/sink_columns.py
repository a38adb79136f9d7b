"""The columns that a sink accepts. They are checked when the write is planned, before any row is sent."""

from __future__ import annotations

import difflib
from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

__all__ = ["BODY", "CONTENT_TYPE", "DEDUP_ID", "DESTINATION", "HEADERS", "check_columns"]

BODY: Final = "body"
DESTINATION: Final = "destination"
CONTENT_TYPE: Final = "content_type"
HEADERS: Final = "headers"
DEDUP_ID: Final = "dedup_id"

# As users write them in SQL, so that they can copy them from the error.
_TYPES: Final = {
    BODY: "BINARY or STRING",
    DESTINATION: "STRING",
    CONTENT_TYPE: "STRING",
    HEADERS: "MAP<STRING,STRING>",
    DEDUP_ID: "STRING",
}


def check_columns(schema: StructType, *, destination: str | None, dedup_id_column: str) -> None:
    """Check the columns of a DataFrame for the sink.

    Args:
        schema: The columns of the DataFrame.
        destination: The option ``destination``, which replaces the column.
        dedup_id_column: The name of the column with the ids for duplicate detection.

    Raises:
        ValueError: A column is missing, unknown or of another type; the message names it.
    """
    names = {BODY: BODY, DESTINATION: DESTINATION, CONTENT_TYPE: CONTENT_TYPE, HEADERS: HEADERS}
    names[dedup_id_column] = DEDUP_ID
    for field in schema.fields:
        role = names.get(field.name)
        if role is None:
            raise ValueError(_unknown(field.name, list(names)))
        if not _fits(role, field.dataType):
            msg = f"column {field.name!r} must be {_TYPES[role]}, got {field.dataType.simpleString().upper()}; cast it"
            raise ValueError(msg)
    present = set(schema.fieldNames())
    if BODY not in present:
        msg = f"the sink needs a column 'body' of {_TYPES[BODY]}, got {_listed(schema)}; to_json(struct(...)) makes one"
        raise ValueError(msg)
    if destination is None and DESTINATION not in present:
        msg = "where to send is not said: give the option 'destination' or a column 'destination' of STRING"
        raise ValueError(msg)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"the sink has no use for column {name!r}: {hint}it takes {', '.join(known)}; "
        "drop the column, or put it into the body or the headers"
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
