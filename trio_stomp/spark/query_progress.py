"""What a query has read of a spool: an object in it that informs people, and decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["QueryProgress", "read_progress", "write_progress"]

_NAME: Final = "progress.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """How far a query is.

    Attributes:
        rows: The last row of each shard that Spark is done with.
        time: When that was written, in seconds since 1970.
    """

    rows: Offsets
    time: float


def write_progress(store: SpoolStore, progress: QueryProgress) -> None:
    """Write how far a query is.

    Raises:
        SpoolError: It cannot be written.
    """
    store.put_json(_NAME, {"rows": progress.rows, "time": progress.time}, durable=False)


def read_progress(store: SpoolStore) -> QueryProgress | None:
    """How far the query is; None if there is none, or it has not said so.

    Raises:
        SpoolError: It cannot be read.
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
