"""The steps of a streaming source, at each of which a test lets the process die."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from tests.crashes.sink_steps import replace
from trio_stomp import Message, Subscription
from trio_stomp.spark import intake
from trio_stomp.spark.planner import Planner
from trio_stomp.spark.recent_ids import RecentIds
from trio_stomp.spark.segments import Listing, Segment
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["SourceStep", "watch_intake", "watch_planner"]


class SourceStep(enum.Enum):
    """What has just been done."""

    RECEIVED = "messages were taken from the subscription"
    WRITTEN = "their segment is on the disk, under another name"
    STORED = "it has its name"
    ACKNOWLEDGED = "the broker has confirmed the ACK"
    OFFSET = "the offset is about to be given to Spark"
    PARTITIONS = "the partitions are about to be given to Spark"
    READ = "a task has read all its rows"
    DELETING = "the ids of segments are saved, and they are about to be deleted"
    DELETED = "segments were deleted"


def watch_intake(passed: Callable[[SourceStep], None]) -> None:
    """Have every receiver of this process tell its steps."""
    rename = os.replace
    encode, acknowledge = intake.Intake._encoded, intake.Intake._acknowledge

    def watched_rename(half: str, whole: str) -> None:
        if "/segments/" in whole:
            passed(SourceStep.WRITTEN)
        rename(half, whole)

    def watched_encode(self: intake.Intake, broker: str, messages: Sequence[Message]) -> tuple[Segment, pa.Buffer]:
        passed(SourceStep.RECEIVED)
        return encode(self, broker, messages)

    async def watched_acknowledge(
        self: intake.Intake, subscription: Subscription, messages: Sequence[Message], patience: float
    ) -> bool:
        passed(SourceStep.STORED)
        is_confirmed = await acknowledge(self, subscription, messages, patience)
        passed(SourceStep.ACKNOWLEDGED)
        return is_confirmed

    replace(os, "replace", watched_rename)
    replace(intake.Intake, "_encoded", watched_encode)
    replace(intake.Intake, "_acknowledge", watched_acknowledge)


def watch_planner(passed: Callable[[SourceStep], None]) -> None:
    """Have the planner of this process tell when it deletes."""
    save, release = RecentIds.save, Planner._release

    def watched_save(self: RecentIds, segments: Sequence[Segment], in_doubt: Collection[str]) -> None:
        save(self, segments, in_doubt)
        passed(SourceStep.DELETING)

    def watched_release(self: Planner, end: Offsets, listing: Listing) -> None:
        before = sum(map(len, listing.segments.values()))
        release(self, end, listing)
        if sum(map(len, listing.segments.values())) < before:
            passed(SourceStep.DELETED)

    replace(RecentIds, "save", watched_save)
    replace(Planner, "_release", watched_release)
