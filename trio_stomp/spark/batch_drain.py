"""Draining a destination into a spool, once for each ``load()``.

The spool has a folder for the destination, and in it a folder for each read. A read that died before it was complete
is taken up by the next one, with the rows that it has.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.spark.batch_options import BatchOptions
from trio_stomp.spark.in_doubt import InDoubt, ids_of
from trio_stomp.spark.intake import Intake, was_idle
from trio_stomp.spark.segment_files import SegmentFile, flush_folder, list_segments, lock_folder

__all__ = ["drain"]

logger: Final = logging.getLogger("trio_stomp.spark")

_COMPLETE: Final = "complete"
_READ: Final = re.compile(r"read-(\d{6})")
_IN_DOUBT: Final = "in-doubt.jsonl"


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
    home = options.intake.home
    home.mkdir(parents=True, exist_ok=True)
    with lock_folder(home):
        folder, in_doubt = _open_read(home)
        trio.run(_Drainer(options, Intake(options.intake, folder, in_doubt, now)).run)
        (folder / _COMPLETE).touch(exist_ok=False)
        flush_folder(folder)
        return list_segments(folder)


def _open_read(home: Path) -> tuple[Path, InDoubt]:
    """The folder of this read, and what may come again of earlier ones."""
    reads = sorted(int(name[1]) for path in home.iterdir() if (name := _READ.fullmatch(path.name)))
    in_doubt = InDoubt(home / _IN_DOUBT)
    last = home / f"read-{reads[-1]:06}" if reads else None
    if last is not None:
        for segment in list_segments(last)[-1:]:
            in_doubt.add(ids_of(segment))
            if not (last / _COMPLETE).exists():
                logger.warning("%s: taking up a read that was not completed, with %d rows", last, segment.last)
    if last is None or (last / _COMPLETE).exists():
        last = home / f"read-{(reads[-1] if reads else 0) + 1:06}"
        last.mkdir()
        flush_folder(home)
    return last, in_doubt


class _Drainer:
    """One read on its way."""

    def __init__(self, options: BatchOptions, intake: Intake) -> None:
        self._options = options
        self._intake = intake

    async def run(self) -> None:
        """Receive until it is enough."""
        intake = self._options.intake
        async with intake.connection.dial() as client, intake.subscribe(client) as subscription:
            await self._receive(client, subscription)

    async def _receive(self, client: Client, subscription: Subscription) -> None:
        options = self._options
        while (room := self._room()) > 0:
            batch: list[Message] = []
            with trio.move_on_after(options.idle_timeout):
                batch = await subscription.receive_batch(room, linger=options.intake.linger)
            if batch:
                await self._intake.keep(subscription, batch, options.intake.connection.reconnect_timeout)
            elif was_idle(client, options.idle_timeout):
                return

    def _room(self) -> int:
        """How many messages may be taken now."""
        most, rows = self._options.intake.most, self._options.max_rows
        return most if rows is None else min(most, rows - self._intake.last)
