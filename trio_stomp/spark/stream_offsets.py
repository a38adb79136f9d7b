"""Offsets of a stream: for each shard of the spool the number of the last row, as ``{"0": 1200, "1": 1180}``."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Offsets", "limited", "parsed"]

Offsets = dict[str, int]


def parsed(found: Mapping[str, object]) -> Offsets:
    """Offsets as a checkpoint has them.

    Raises:
        ValueError: The checkpoint is that of another source.
    """
    offsets: Offsets = {}
    for shard, number in found.items():
        if not (shard.isascii() and shard.isdigit()) or not isinstance(number, int) or number < 0:
            msg = (
                f'expected offsets such as {{"0": 1200}}, got {dict(found)!r}: the checkpoint is of another source; '
                "give this query a checkpointLocation of its own"
            )
            raise ValueError(msg)
        offsets[shard] = number
    return offsets


def limited(start: Offsets, last: Offsets, most: int | None) -> Offsets:
    """Go from `start` towards `last`, by no more than so many rows; each shard gets a share of them by its rows."""
    ends = {shard: max(start.get(shard, 0), number) for shard, number in (start | last).items()}
    waiting = {shard: number - start.get(shard, 0) for shard, number in ends.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return ends
    room = most
    for shard, rows in waiting.items():
        # Rounded up, so that nothing of the limit is left unused.
        share = min(rows, room, -(-most * rows // total))
        ends[shard] = start.get(shard, 0) + share
        room -= share
    return ends
