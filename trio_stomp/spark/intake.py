"""From a subscription into a shard: a message is acknowledged only after its segment is in the spool.

So no message is lost, whichever process dies. After a crash or a lost connection between writing a segment and the
RECEIPT of its ACK, the broker redelivers those messages, to this receiver or another. The `Planner` recognizes them by
their ids. A write that failed may have succeeded all the same, so it is repeated under the same name.

A store may also not answer at all, such as NFS without its server. So each write is waited for only for a while, and is
then tried again beside the one that hangs: both write the same content under the same name, so it does not matter which
one comes to its end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import anyio
import anyio.abc
import pyarrow as pa

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.errors import ConnectionLost, StaleMessage
from trio_stomp.runtime import current_time
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.segments import Segment, encoded
from trio_stomp.spark.spool_store import SpoolError, SpoolFull, SpoolSilent, SpoolStore

__all__ = ["Intake", "was_idle"]

logger: Final = logging.getLogger("trio_stomp.spark")

# It marks each redelivered message. Other brokers do not after they crashed.
_MARKING: Final = frozenset({"RabbitMQ"})
_FIRST_DELAY: Final = 0.1
_LARGEST_DELAY: Final = 5.0
# A write that hangs occupies a thread, so there are not more of them.
_ATTEMPTS: Final = 3
# A write that took this long may have been suspended with the whole process.
_LONG_SECONDS: Final = 5.0


class Intake:
    """Fills one shard.

    Attributes:
        last: The number of the newest row.
        confirmed: The number of the last row whose ACK the broker has confirmed.
    """

    def __init__(self, options: IntakeOptions, store: SpoolStore, shard: str, now: Callable[[], float]) -> None:
        self._options = options
        self._store = store
        self._shard = shard
        self._now = now
        self.last = 0
        self.confirmed = 0
        # How many rows, directly before the next one, the broker may deliver again.
        self._in_doubt = 0

    async def keep(
        self,
        client: Client,
        subscription: Subscription,
        messages: Sequence[Message],
        blocked: Callable[[SpoolError], Awaitable[None]],
        check: Callable[[], Awaitable[None]],
    ) -> Segment:
        """Write messages into the spool, and acknowledge them.

        Args:
            client: The client that received them.
            subscription: The subscription that delivered them.
            messages: The messages, in order of delivery.
            blocked: Called whenever the spool cannot be written to, or does not answer.
            check: Called after a write that took long; raises SpoolError if the messages must not be acknowledged.

        Returns:
            The segment with the messages.

        Raises:
            OperationTimeout: The broker did not confirm in time. The rows are in the spool, and the messages may be
                redelivered.
            BrokerError: The broker refused the ACK.
            SpoolError: The spool could not be written to for `reconnect_timeout`; nothing was acknowledged. A disk that
                is full is waited for without an end.

        Cancellation: they were either written and acknowledged, or not acknowledged.
        """
        patience = self._options.connection.reconnect_timeout
        segment, octets = await anyio.to_thread.run_sync(self._encoded, client.profile.name, messages)
        begun = self._now()
        # A store may be slow, and heart-beats must not wait for it. What is being written is finished and acknowledged.
        with anyio.CancelScope(shield=True) as shield:
            await self._write(segment, octets, patience, blocked, shield)
            if self._now() - begun >= _LONG_SECONDS:
                await check()
            self.last = segment.last
            self._in_doubt = segment.rows
            if await self._acknowledge(subscription, messages, patience):
                self._in_doubt = 0
                self.confirmed = segment.last
        return segment

    async def _write(
        self,
        segment: Segment,
        octets: pa.Buffer,
        patience: float,
        blocked: Callable[[SpoolError], Awaitable[None]],
        shield: anyio.CancelScope,
    ) -> None:
        """Write a segment, in several attempts; raises SpoolError if none has succeeded in time."""
        attempts = _Attempts(self._store, segment, octets)
        failure: SpoolError | None = None
        async with attempts.outcomes, attempts.results, anyio.create_task_group() as running:
            try:
                failure = await self._try_to_write(attempts, running, patience, blocked, shield)
            except SpoolError as error:
                failure = error
            if failure is not None:
                attempts.is_given_up.set()
            running.cancel_scope.cancel()
        shield.shield = True
        if failure is None:
            return
        # If the store answers now. Otherwise the write that hangs says so itself.
        with anyio.move_on_after(self._options.spool_timeout):
            await anyio.to_thread.run_sync(attempts.declare_void, abandon_on_cancel=True)
        raise failure

    async def _try_to_write(
        self,
        attempts: _Attempts,
        running: anyio.abc.TaskGroup,
        patience: float,
        blocked: Callable[[SpoolError], Awaitable[None]],
        shield: anyio.CancelScope,
    ) -> SpoolError | None:
        """Return why the segment was not written in time; None: it was written."""
        until, delay = current_time() + patience, _FIRST_DELAY
        failure: SpoolError | None = None
        while True:
            attempts.start(running)
            seconds = self._options.spool_timeout
            # A disk that is full is waited for without an end.
            if not isinstance(failure, SpoolFull):
                seconds = min(seconds, max(_FIRST_DELAY, until - current_time()))
            is_hanging = True
            with anyio.move_on_after(seconds):
                failure = await attempts.outcome()
                is_hanging = False
            if is_hanging:
                failure = self._unanswered(attempts.segment.name, seconds)
            if failure is None or (current_time() >= until and not isinstance(failure, SpoolFull)):
                return failure
            # From now on, a receiver that is stopped does not wait. Nothing was acknowledged.
            shield.shield = False
            await blocked(failure)
            if not is_hanging:
                await anyio.sleep(delay)
                delay = min(2 * delay, _LARGEST_DELAY)

    def _unanswered(self, name: str, seconds: float) -> SpoolError:
        return SpoolSilent(
            f"cannot write {self._store.path(name)} of the spool: the store has not answered for {seconds:g} s; check "
            "that it is there and can be reached from this machine. If it only needs longer, raise spoolTimeoutMs"
        )

    def _encoded(self, broker: str, messages: Sequence[Message]) -> tuple[Segment, pa.Buffer]:
        seconds = self._now()
        options = self._options
        stable_ids = [options.id_of(each) for each in messages]
        rows = options.columns.batch(messages, stable_ids, seconds, self.last + 1)
        octets = encoded(rows, options.segment_format)
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
            in_doubt=self._in_doubt,
            size=octets.size,
            time=int(seconds * 1000),
            form=options.segment_format,
        )
        return segment, octets

    async def _acknowledge(self, subscription: Subscription, messages: Sequence[Message], patience: float) -> bool:
        """Acknowledge messages; return whether the broker has confirmed that."""
        try:
            if len(messages) > 1:
                await subscription.ack_up_to(messages[-2], timeout=patience)
            # Waits only for the last one: a broker processes them in order.
            await messages[-1].ack(receipt=True, timeout=patience)
        except (StaleMessage, ConnectionLost) as error:
            logger.info("the broker delivers %d messages again: %s", len(messages), error)
            return False
        return True


class _Attempts:
    """Attempts to write one segment, each in a thread.

    Attributes:
        is_given_up: Set when the receiver no longer waits for any of them.
    """

    def __init__(self, store: SpoolStore, segment: Segment, octets: pa.Buffer) -> None:
        self._store = store
        self._octets = octets
        self._running = 0
        self.segment = segment
        self.is_given_up = threading.Event()
        self.outcomes, self.results = anyio.create_memory_object_stream[SpoolError | None](_ATTEMPTS)

    def start(self, running: anyio.abc.TaskGroup) -> None:
        """Start another attempt, unless too many hang."""
        if self._running < _ATTEMPTS:
            self._running += 1
            running.start_soon(self._attempt)

    async def outcome(self) -> SpoolError | None:
        """Wait until one has come to its end; return why it has failed."""
        found = await self.results.receive()
        self._running -= 1
        return found

    async def _attempt(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._put, abandon_on_cancel=True)
        except SpoolError as error:
            self.outcomes.send_nowait(error)
        else:
            self.outcomes.send_nowait(None)

    def _put(self) -> None:
        self._store.put(self.segment.name, self._octets)
        if self.is_given_up.is_set():
            # Much too late: its messages were not acknowledged, and were delivered again.
            self.declare_void()

    def declare_void(self) -> None:
        """Say that the segment is not to be read, should it appear."""
        with suppress(SpoolError):
            self._store.put_json(self.segment.void_name, {"rows": self.segment.rows})


def was_idle(client: Client, seconds: float) -> bool:
    """Return whether the client was connected for this time. Without a connection, a destination is not idle."""
    state = client.state
    return state.healthy and current_time() - state.since >= seconds
