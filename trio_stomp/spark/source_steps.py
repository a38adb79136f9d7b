"""The steps of a streaming source, in their order: where a process may die, and where a test lets it."""

from __future__ import annotations

import enum

__all__ = ["SourceStep", "not_watched"]


class SourceStep(enum.Enum):
    """What has just been done."""

    RECEIVED = "messages were taken from the subscription"
    WRITTEN = "their segment is on the disk, under another name"
    RENAMED = "it has its name"
    ACKNOWLEDGED = "the broker has confirmed the ACK"
    OFFSET = "the offset is about to be given to Spark"
    PARTITIONS = "the partitions are about to be given to Spark"
    READ = "a task has read all its rows"
    COMMITTING = "segments are about to be deleted"
    COMMITTED = "segments were deleted"


def not_watched(_step: SourceStep) -> None:
    """Nobody wants to know."""
