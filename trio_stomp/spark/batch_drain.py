"""Draining a destination into a spool, once for each ``load()``.

The spool has a folder for the destination, and in it a folder for each read. A message is acknowledged when its
segment is on the disk; so what a read has taken is never lost, whatever dies. A read that died before it was complete
is taken up by the next one, with the rows that it has.

A crash, or a lost link, between a segment and the RECEIPT of its ACK leaves the broker in doubt: it may deliver those
messages again. Their ids are known from the segment, and the copies are acknowledged and dropped.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.errors import ConnectionLost, StaleMessage
from trio_stomp.spark.batch_options import BatchOptions
from trio_stomp.spark.message_columns import STABLE_ID, Received
from trio_stomp.spark.segment_files import (
    SegmentFile,
    flush_folder,
    list_segments,
    lock_folder,
    read_segment,
    write_segment,
)

__all__ = ["destination_folder", "drain"]

logger: Final = logging.getLogger("trio_stomp.spark")

_COMPLETE: Final = "complete"
_READ: Final = re.compile(r"read-(\d{6})")
_PLAIN: Final = re.compile(r"[^A-Za-z0-9.-]+")
_DIGEST_OCTETS: Final = 4


def destination_folder(spool: Path, destination: str) -> Path:
    """Where the reads of a destination are kept: two of them never share a folder."""
    digest = hashlib.blake2b(destination.encode(), digest_size=_DIGEST_OCTETS).hexdigest()
    return spool / f"{_PLAIN.sub('-', destination).strip('-')}-{digest}"


def drain(options: BatchOptions, now: Callable[[], float] = time.time) -> list[SegmentFile]:
    """Take messages from the destination until it is idle, or until there are enough.

    Args:
        options: What to drain, and into which spool.
        now: The time, in seconds since 1970.

    Returns:
        The segments of this read, which are there for good.

    Raises:
        SpoolLocked: Another read of this destination is at work.
        ConnectError: The broker cannot be reached. What was taken is kept, for the next read.
        ConnectionLost: It was gone for too long; the same.
        BrokerError: It refused; the same.
    """
    home = destination_folder(options.spool, options.destination)
    home.mkdir(parents=True, exist_ok=True)
    with lock_folder(home):
        drainer = _Drainer(options, home, now)
        trio.run(drainer.run)
        (drainer.folder / _COMPLETE).touch(exist_ok=False)
        flush_folder(drainer.folder)
        return list_segments(drainer.folder)


class _Drainer:
    """One read on its way."""

    def __init__(self, options: BatchOptions, home: Path, now: Callable[[], float]) -> None:
        self._options = options
        self._now = now
        reads = sorted(int(name[1]) for path in home.iterdir() if (name := _READ.fullmatch(path.name)))
        self._in_doubt: set[str] = set()
        last = home / f"read-{reads[-1]:06}" if reads else None
        if last is not None:
            self._in_doubt.update(_ids(list_segments(last)[-1:]))
        if last is None or (last / _COMPLETE).exists():
            last = home / f"read-{(reads[-1] if reads else 0) + 1:06}"
            last.mkdir()
            flush_folder(home)
        self.folder = last
        segments = list_segments(last)
        self._next = segments[-1].last + 1 if segments else 1
        if segments:
            logger.warning("%s: taking up a read that was not completed, with %d rows", last, self._next - 1)

    async def run(self) -> None:
        """Receive until it is enough."""
        options = self._options
        async with (
            options.connection.dial() as client,
            client.subscribe(
                options.destination,
                ack="client",
                prefetch=options.prefetch,
                headers=options.subscribe_headers,
                selector=options.selector,
            ) as subscription,
        ):
            await self._receive(client, subscription)

    async def _receive(self, client: Client, subscription: Subscription) -> None:
        options = self._options
        while (room := self._room()) > 0:
            batch: list[Message] = []
            with trio.move_on_after(options.idle_timeout):
                batch = await subscription.receive_batch(room, linger=options.linger)
            if batch:
                self._keep(batch)
                await self._acknowledge(subscription, batch)
            elif self._was_idle(client):
                return

    def _was_idle(self, client: Client) -> bool:
        """Whether there was a connection for all that time: without one a destination is not idle, but out of sight."""
        state = client.state
        return state.healthy and trio.current_time() - state.since >= self._options.idle_timeout

    def _room(self) -> int:
        """How many messages may be taken now."""
        options = self._options
        most = min(options.segment_rows, options.prefetch)
        return most if options.max_rows is None else min(most, options.max_rows - self._next + 1)

    def _keep(self, batch: Sequence[Message]) -> None:
        """Put messages on the disk, but for the copies of those that are there already."""
        seconds = self._now()
        received = [Received(message=each, seconds=seconds, stable_id=self._id_of(each)) for each in batch]
        fresh = [each for each in received if each.stable_id is None or each.stable_id not in self._in_doubt]
        if fresh:
            segment = write_segment(self.folder, self._options.columns.batch(fresh, self._next), self._next)
            self._next = segment.last + 1
        # Should the ACK not arrive, these come again. When it has arrived, they are forgotten.
        self._in_doubt.update(each.stable_id for each in fresh if each.stable_id is not None)

    async def _acknowledge(self, subscription: Subscription, batch: Sequence[Message]) -> None:
        try:
            if len(batch) > 1:
                await subscription.ack_up_to(batch[-2])
            # Only the last one is waited for: a broker takes them in order.
            await batch[-1].ack(receipt=True)
        except (StaleMessage, ConnectionLost) as error:
            logger.info("the broker delivers %d messages again: %s", len(batch), error)
        else:
            self._in_doubt.difference_update(filter(None, map(self._id_of, batch)))

    def _id_of(self, message: Message) -> str | None:
        dedupe = self._options.dedupe
        if dedupe.header is not None:
            return message.headers.get(dedupe.header)
        return message.stable_id if dedupe.by_broker else None


def _ids(segments: Sequence[SegmentFile]) -> list[str]:
    batches = (batch for segment in segments for batch in read_segment(segment.path))
    ids: list[str | None] = [each for batch in batches for each in batch.to_pydict()[STABLE_ID]]
    return [each for each in ids if each is not None]
