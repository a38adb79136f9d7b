"""What a query has read of a spool: an object in it that informs people, and decides nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from trio_stomp.spark.spool_store import SpoolStore
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
    content = {"rows": progress.rows, "time": progress.time}
    store.put(_NAME, json.dumps(content).encode(), durable=False)


def read_progress(store: SpoolStore) -> QueryProgress | None:
    """How far the query is; None if there is none, or it has not said so.

    Raises:
        SpoolError: It cannot be read.
    """
    try:
        found: object = json.loads(store.get(_NAME) or b"null")
    except ValueError:
        return None
    match found:
        case {"rows": dict(rows), "time": float(time)}:  # pyright: ignore[reportUnknownVariableType]  # JSON that we wrote
            return QueryProgress(rows={str(shard): int(row) for shard, row in rows.items()}, time=time)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # see above
        case _:
            return None
