"""From a subscription into a shard: a message is acknowledged only after its segment is in the spool.

So no message is lost, whichever process dies. After a crash or a lost connection between writing a segment and the
RECEIPT of its ACK, the broker redelivers those messages, to this receiver or another. The `Planner` recognizes them by
their ids. A write that failed may have succeeded all the same, so it is repeated under the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import pyarrow as pa

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.errors import ConnectionLost, StaleMessage
from trio_stomp.runtime import current_time
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.message_columns import Received
from trio_stomp.spark.segments import Segment, encoded
from trio_stomp.spark.spool_store import SpoolError, SpoolStore

__all__ = ["Intake", "was_idle"]

logger: Final = logging.getLogger("trio_stomp.spark")

# It marks each redelivered message. Other brokers do not after they crashed.
_MARKING: Final = frozenset({"RabbitMQ"})
_FIRST_DELAY: Final = 0.1
_LARGEST_DELAY: Final = 5.0


class Intake:
    """Fills one shard.

    Args:
        options: What to receive, and how to store it.
        store: The spool.
        shard: A new shard.
        now: The time, in seconds since 1970.

    Attributes:
        last: The number of the newest row.
    """

    def __init__(self, options: IntakeOptions, store: SpoolStore, shard: str, now: Callable[[], float]) -> None:
        self._options = options
        self._store = store
        self._shard = shard
        self._now = now
        self.last = 0

    async def keep(
        self,
        client: Client,
        subscription: Subscription,
        messages: Sequence[Message],
        blocked: Callable[[SpoolError], Awaitable[None]],
    ) -> Segment:
        """Write messages into the spool, and acknowledge them.

        Args:
            client: The client that received them.
            subscription: The subscription that delivered them.
            messages: The messages, in order of delivery.
            blocked: Called whenever the spool cannot be written to.

        Returns:
            The segment with the messages.

        Raises:
            OperationTimeout: The broker did not confirm in time. The rows are in the spool, and the messages may be
                redelivered.
            BrokerError: The broker refused the ACK.
            SpoolError: The spool could not be written to for `reconnect_timeout`; nothing was acknowledged.

        Cancellation: they were either written and acknowledged, or not acknowledged.
        """
        patience = self._options.connection.reconnect_timeout
        segment, octets = await anyio.to_thread.run_sync(self._encoded, client.profile.name, messages)
        until, delay = current_time() + patience, _FIRST_DELAY
        while True:
            try:
                # A store may be slow, and heart-beats must not wait for it.
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._store.put, segment.name, octets)
                    self.last = segment.last
                    await self._acknowledge(subscription, messages, patience)
            except SpoolError as error:
                if current_time() >= until:
                    raise
                await blocked(error)
                await anyio.sleep(delay)
                delay = min(2 * delay, _LARGEST_DELAY)
            else:
                return segment

    def _encoded(self, broker: str, messages: Sequence[Message]) -> tuple[Segment, pa.Buffer]:
        seconds = self._now()
        options = self._options
        received = [Received(message=each, seconds=seconds, stable_id=options.dedupe.id_of(each)) for each in messages]
        octets = encoded(options.columns.batch(received, self.last + 1), options.segment_format)
        if options.dedupe.wanted is None:
            suspects = 0
        elif broker in _MARKING:
            suspects = sum(each.redelivered for each in messages)
        else:
            suspects = len(messages)
        segment = Segment(
            shard=self._shard,
            first=self.last + 1,
            rows=len(messages),
            suspects=suspects,
            size=octets.size,
            time=int(seconds * 1000),
            form=options.segment_format,
        )
        return segment, octets

    async def _acknowledge(self, subscription: Subscription, messages: Sequence[Message], patience: float) -> None:
        try:
            if len(messages) > 1:
                await subscription.ack_up_to(messages[-2], timeout=patience)
            # Waits only for the last one: a broker processes them in order.
            await messages[-1].ack(receipt=True, timeout=patience)
        except (StaleMessage, ConnectionLost) as error:
            logger.info("the broker delivers %d messages again: %s", len(messages), error)


def was_idle(client: Client, seconds: float) -> bool:
    """Return whether the client was connected for this time. Without a connection, a destination is not idle."""
    state = client.state
    return state.healthy and current_time() - state.since >= seconds
