"""Offsets of a stream: the spool, the last row of each shard, and how many shards are finished and left out.

In a checkpoint::

    {"destination": "/queue/orders", "retired": 3, "rows": {"20261122-213000-000000-3f2a9c01b7": 1200},
     "spool": "6f1c02aa97d3b184", "version": 2}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Offset", "Offsets", "checked", "offset_of"]

Offsets = dict[str, int]

_VERSION: Final = 2
_FORMER: Final = 1


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
    spool, rows, retired = found.get("spool"), found.get("rows"), found.get("retired")
    is_ours = isinstance(own, str) and found.get("version") == _VERSION
    if not (is_ours and isinstance(spool, str) and isinstance(rows, dict) and isinstance(retired, int)):
        raise ValueError(
            f"expected an offset of this source, got {dict(found)!r}: the checkpoint is of another source, or of a "
            "newer version; give this query a checkpointLocation of its own"
        )
    return Offset(
        spool=spool,
        rows={str(shard): int(row) for shard, row in rows.items()},  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON that we wrote
        retired=retired,
    )
