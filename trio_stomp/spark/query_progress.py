"""The progress of a query: an object in the spool that says with which rows Spark is done.

It is written before anything is deleted. So an offset that is older than it, while rows in between are gone, is
recognized, and a query without a checkpoint can begin where the one before it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["KEPT_SHARDS", "QueryProgress", "read_progress", "write_progress"]

_NAME: Final = "progress.json"
# The last row of this number of finished shards is known, so that the error of an old checkpoint can name its rows.
KEPT_SHARDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The progress of a query.

    Attributes:
        spool: The id of the spool. One that was deleted may leave its progress behind.
        rows: For each shard, the last row that Spark has processed.
        retired: How many shards are finished: their receivers have ended, and all of their rows are processed.
        finished: The last rows of the newest of these shards, the oldest shard first.
        lost: How many rows were found to be missing, and left out with ``failOnDataLoss=false``.
        time: When the progress was written, in seconds since 1970.
    """

    spool: str
    rows: Offsets = field(default_factory=dict[str, int])
    retired: int = 0
    finished: Mapping[str, int] = field(default_factory=dict[str, int])
    lost: int = 0
    time: float = 0.0


def write_progress(store: SpoolStore, progress: QueryProgress) -> None:
    """Write the progress.

    Raises:
        SpoolError: The spool cannot be written to.
    """
    store.put_json(
        _NAME,
        {
            "spool": progress.spool,
            "rows": progress.rows,
            "retired": progress.retired,
            "finished": dict(progress.finished),
            "lost": progress.lost,
            "time": progress.time,
        },
    )


def read_progress(store: SpoolStore, spool: str) -> QueryProgress | None:
    """Return the progress of the query; None if there is none yet.

    Args:
        store: The spool.
        spool: Its id.

    Raises:
        SpoolDamaged: It is not what a query has written.
        SpoolError: The spool cannot be read.
    """
    found = store.get_json(_NAME)
    match found:
        case None:
            return None
        case {
            "spool": str(found_id),
            "rows": dict(rows),
            "retired": int(retired),
            "finished": dict(finished),
            "lost": int(lost),
            "time": float() | int() as time,
        }:
            progress = QueryProgress(
                spool=spool,
                rows={shard: row for shard, row in rows.items() if isinstance(row, int)},
                retired=retired,
                finished={shard: row for shard, row in finished.items() if isinstance(row, int)},
                lost=lost,
                time=time,
            )
            return progress if found_id == spool else None
        case _:
            raise SpoolDamaged(store.path(_NAME), "it does not have the progress of a query")
