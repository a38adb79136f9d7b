"""Offsets of a stream: the destination, and the last row of each shard.

In a checkpoint: ``{"destination": "/queue/orders", "rows": {"20261122-213000-3f2a9c01b7": 1200}, "version": 1}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["Offsets", "checked", "offset_of"]

Offsets = dict[str, int]

_VERSION: Final = 1


def offset_of(destination: str, rows: Offsets) -> dict[str, object]:
    """Return an offset as Spark stores it; equal ones have the same JSON."""
    return {"destination": destination, "rows": dict(sorted(rows.items())), "version": _VERSION}


def checked(found: Mapping[str, object], destination: str) -> Offsets:
    """Return the last row of each shard, from an offset of a checkpoint.

    Raises:
        ValueError: The checkpoint belongs to another source or destination.
    """
    own = found.get("destination")
    rows = found.get("rows")
    if isinstance(own, str) and own != destination:
        raise ValueError(
            f"the checkpoint is of {own!r}, and the query reads {destination!r}; give each query a checkpointLocation "
            "of its own"
        )
    if all(name.isdigit() for name in found) and found:
        raise ValueError(
            f"the checkpoint was written by an earlier version of trio_stomp, with offsets such as {dict(found)!r}; "
            "let that version finish reading its spool, and start this query with a new checkpointLocation"
        )
    if found.get("version") != _VERSION or not isinstance(own, str) or not isinstance(rows, dict):
        raise ValueError(
            f"expected an offset of this source, got {dict(found)!r}: the checkpoint is of another source, or of a "
            "newer version; give this query a checkpointLocation of its own"
        )
    return {str(shard): int(row) for shard, row in rows.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON that we wrote
