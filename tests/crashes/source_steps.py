"""The steps of a streaming source, at each of which a test lets the process die."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from pathlib import Path

from pyarrow import RecordBatch

from tests.crashes.sink_steps import replace
from trio_stomp.client import Message, Subscription
from trio_stomp.spark import intake, segment_files

__all__ = ["SourceStep", "watch_intake"]


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


def watch_intake(passed: Callable[[SourceStep], None]) -> None:
    """Have every receiver of this process tell its steps."""
    write_whole, write_segment = segment_files._write_whole, segment_files.write_segment
    write, acknowledge = intake.Intake._write, intake.Intake._acknowledge

    def watched_write_whole(path: Path, batch: RecordBatch) -> None:
        write_whole(path, batch)
        passed(SourceStep.WRITTEN)

    def watched_write_segment(folder: Path, batch: RecordBatch, first: int) -> segment_files.SegmentFile:
        segment = write_segment(folder, batch, first)
        passed(SourceStep.RENAMED)
        return segment

    def watched_write(self: intake.Intake, messages: Sequence[Message]) -> list[str]:
        passed(SourceStep.RECEIVED)
        return write(self, messages)

    async def watched_acknowledge(
        self: intake.Intake, subscription: Subscription, messages: Sequence[Message], kept: list[str]
    ) -> None:
        await acknowledge(self, subscription, messages, kept)
        passed(SourceStep.ACKNOWLEDGED)

    replace(segment_files, "_write_whole", watched_write_whole)
    replace(intake, "write_segment", watched_write_segment)
    replace(intake.Intake, "_write", watched_write)
    replace(intake.Intake, "_acknowledge", watched_acknowledge)
