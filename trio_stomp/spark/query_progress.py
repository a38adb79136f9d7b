"""The progress of a query: an object in the spool for people. No decision depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["QueryProgress", "read_progress", "write_progress"]

_NAME: Final = "progress.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The progress of a query.

    Attributes:
        rows: For each shard, the last row that Spark has processed.
        time: When the progress was written, in seconds since 1970.
    """

    rows: Offsets
    time: float


def write_progress(store: SpoolStore, progress: QueryProgress) -> None:
    """Write the progress.

    Raises:
        SpoolError: The spool cannot be written to.
    """
    store.put_json(_NAME, {"rows": progress.rows, "time": progress.time}, durable=False)


def read_progress(store: SpoolStore) -> QueryProgress | None:
    """Return the progress of the query; None if it has not been written, or is damaged.

    Raises:
        SpoolError: The spool cannot be read.
    """
    try:
        found = store.get_json(_NAME)
    except SpoolDamaged:
        return None
    match found:
        case {"rows": dict(rows), "time": float(time)}:
            done = {shard: row for shard, row in rows.items() if isinstance(row, int)}
            return QueryProgress(rows=done, time=time)
        case _:
            return None
