"""From a subscription into a folder: a message is acknowledged when its segment is on the disk, and not before.

So what was taken is never lost, whatever dies. A crash, or a lost link, between a segment and the RECEIPT of its ACK
leaves the broker in doubt: it delivers those messages again. They are known by their ids, acknowledged and dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.errors import ConnectionLost, StaleMessage
from trio_stomp.spark.in_doubt import InDoubt, ids_of
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.message_columns import Received
from trio_stomp.spark.segment_files import list_segments, write_segment

__all__ = ["Intake", "was_idle"]

logger: Final = logging.getLogger("trio_stomp.spark")


class Intake:
    """Fills one folder. Nobody else may write to it meanwhile: see `lock_folder`.

    Args:
        options: What is taken, and how it is kept.
        folder: The folder, which exists.
        in_doubt: Which messages may come again.
        now: The time, in seconds since 1970.
        after: The number of the first row is larger than this.

    Attributes:
        last: The number of the newest row on the disk.
        written_bytes: How large the segments are that were written.
    """

    def __init__(
        self,
        options: IntakeOptions,
        folder: Path,
        in_doubt: InDoubt,
        now: Callable[[], float],
        *,
        after: int = 0,
    ) -> None:
        self._options = options
        self._folder = folder
        self._in_doubt = in_doubt
        self._now = now
        segments = list_segments(folder)
        if segments:
            in_doubt.add(ids_of(segments[-1]))
        # Else they would be forgotten with the next segment, should that be the one that a crash leaves as the newest.
        in_doubt.save()
        self.last = max(segments[-1].last if segments else 0, after)
        self.written_bytes = 0

    async def keep(self, subscription: Subscription, messages: Sequence[Message], patience: float) -> None:
        """Put messages on the disk, but for copies of those that are there already, and acknowledge them.

        Args:
            subscription: Where they came from.
            messages: The messages, in the order in which they came.
            patience: Seconds to wait for the broker to confirm.

        Raises:
            TooSlowError: It did not. The rows are there, and may come again.
            BrokerError: It refused the ACK.
            OSError: The disk is full, or the folder is gone; nothing was acknowledged.

        Cancellation: not until it is done; what is half done would be in doubt.
        """
        with trio.CancelScope(shield=True):
            # A disk may take its time, and heart-beats must not wait for it.
            kept = await trio.to_thread.run_sync(self._write, messages)
            with trio.fail_after(patience):
                await self._acknowledge(subscription, messages, kept)

    def _write(self, messages: Sequence[Message]) -> list[str]:
        seconds = self._now()
        options = self._options
        received = [Received(message=each, seconds=seconds, stable_id=options.dedupe.id_of(each)) for each in messages]
        fresh = [each for each in received if each.stable_id is None or each.stable_id not in self._in_doubt]
        if fresh:
            batch = options.columns.batch(fresh, self.last + 1)
            segment = write_segment(self._folder, batch, self.last + 1)
            self.last = segment.last
            self.written_bytes += Path(segment.path).stat().st_size
        return [each.stable_id for each in fresh if each.stable_id is not None]

    async def _acknowledge(self, subscription: Subscription, messages: Sequence[Message], kept: list[str]) -> None:
        try:
            if len(messages) > 1:
                await subscription.ack_up_to(messages[-2])
            # Only the last one is waited for: a broker takes them in order.
            await messages[-1].ack(receipt=True)
        except (StaleMessage, ConnectionLost) as error:
            logger.info("the broker delivers %d messages again: %s", len(messages), error)
            # Before anything else is written, and they are not those of the newest segment any more.
            self._in_doubt.add(kept)
            await trio.to_thread.run_sync(self._in_doubt.save)
        else:
            self._in_doubt.discard(filter(None, map(self._options.dedupe.id_of, messages)))


def was_idle(client: Client, seconds: float) -> bool:
    """Whether there was a connection for so long: without one a destination is not idle, but out of sight."""
    state = client.state
    return state.healthy and trio.current_time() - state.since >= seconds
