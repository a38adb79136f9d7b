"""What the tests of the streaming source share: a queue of numbers, and looking at what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from trio_stomp.spark.segment_files import SegmentFile, list_segments, read_segment
from trio_stomp.testing import Broker, ThreadedBroker

__all__ = ["QUEUE", "left", "numbers_in", "publish", "wait_until_left"]

QUEUE = "/queue/a"


def publish(broker: ThreadedBroker, numbers: Iterable[int]) -> None:
    """Put messages into the queue, whose bodies are these numbers, with ids."""
    broker.call(partial(_publish, numbers=list(numbers)))


def _publish(broker: Broker, *, numbers: list[int]) -> None:
    for number in numbers:
        broker.publish(QUEUE, str(number), [("dedup-id", f"id-{number}")])


def left(broker: ThreadedBroker) -> int:
    """How many messages the broker has still."""
    return broker.call(_left)


def _left(broker: Broker) -> int:
    return broker.depth(QUEUE) + broker.unacknowledged(QUEUE)


def wait_until_left(broker: ThreadedBroker, count: int) -> None:
    """Wait until the broker has so many messages."""
    broker.call(partial(_wait_until_left, count=count))


async def _wait_until_left(broker: Broker, *, count: int) -> None:
    await broker.wait_until(lambda: _left(broker) == count)


def numbers_in(folder: Path) -> list[int]:
    """The numbers in a spool."""
    segments: list[SegmentFile] = list_segments(folder)
    batches = (batch for segment in segments for batch in read_segment(segment.path))
    return [int(body) for batch in batches for body in batch.to_pydict()["body"]]
