"""Offsets of a stream: the spool, the last row of each shard, and how many shards are finished and left out.

In a checkpoint::

    {"destination": "/queue/orders", "retired": 3, "rows": {"20261122-213000-000000-3f2a9c01b7": 1200},
     "spool": "6f1c02aa97d3b184", "version": 2}

The progress of a query is an object in the spool that says with which rows Spark is done. It is written before anything
is deleted. So an offset that is older than it, while rows in between are gone, is recognized, and a query without a
checkpoint can begin where the one before it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, cast

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore

__all__ = [
    "KEPT_SHARDS",
    "Offset",
    "Offsets",
    "QueryProgress",
    "checked",
    "offset_of",
    "read_progress",
    "write_progress",
]

Offsets = dict[str, int]

_VERSION: Final = 2
_FORMER: Final = 1
_NAME: Final = "progress.json"
# The last row of this number of finished shards is known, so that the error of an old checkpoint can name its rows.
KEPT_SHARDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A place in a stream.

    Attributes:
        spool: The id of the spool.
        rows: The last row of each shard.
        retired: How many shards are finished, and therefore not among these.
    """

    spool: str
    rows: Offsets
    retired: int = 0


def offset_of(destination: str, offset: Offset) -> dict[str, object]:
    """Return an offset as Spark stores it; equal ones have the same JSON."""
    return {
        "destination": destination,
        "retired": offset.retired,
        "rows": dict(sorted(offset.rows.items())),
        "spool": offset.spool,
        "version": _VERSION,
    }


def checked(found: Mapping[str, object], destination: str) -> Offset:
    """Return an offset of a checkpoint.

    Raises:
        ValueError: The checkpoint belongs to another source or destination, or another version wrote it.
    """
    own = found.get("destination")
    if isinstance(own, str) and own != destination:
        raise ValueError(
            f"the checkpoint is of {own!r}, and the query reads {destination!r}; give each query a checkpointLocation "
            "of its own"
        )
    is_former = bool(found) and (all(name.isdigit() for name in found) or found.get("version") == _FORMER)
    if is_former:
        raise ValueError(
            f"the checkpoint was written by an earlier version of trio_stomp, with offsets such as {dict(found)!r}; "
            "let that version finish reading its spool, and start this query with a new checkpointLocation and a new "
            "spoolLocation"
        )
    rows = found.get("rows")
    given = cast("dict[str, object]", rows) if isinstance(rows, dict) else None
    match found:
        case {"destination": str(), "version": int(version), "spool": str(spool), "retired": int(retired)} if (
            version == _VERSION and given is not None
        ):
            numbers = {shard: row for shard, row in given.items() if isinstance(row, int)}
            if len(numbers) == len(given):
                return Offset(spool=spool, rows=numbers, retired=retired)
        case _:
            pass
    raise ValueError(
        f"expected an offset of this source, got {dict(found)!r}: the checkpoint is of another source, or of a "
        "newer version; give this query a checkpointLocation of its own"
    )


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
    """Write the progress."""
    store.put_json(_NAME, asdict(progress))


def read_progress(store: SpoolStore, spool: str) -> QueryProgress | None:
    """Return the progress of the query that reads the spool with this id; None if there is none yet.

    Raises:
        SpoolDamaged: It is not what a query has written.
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
