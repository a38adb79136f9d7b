"""A pool of workers on one subscription: order for each key, retries, dead letters, draining.

Theory of operation. The intake takes messages from the subscription and puts each into the queue of its key; without a
key each message is a key of its own. A key that has something to do, and that no worker is busy with, stands in the
list of ready keys. A worker takes a ready key, handles the head of its queue and, when that is done with, puts the key
back if more waits. A failed head goes back after its delay, and its key is not ready before: so what belongs together
stays in order, and one bad message delays nobody else.

Workers run in a shielded scope: when `work` is cancelled, the intake ends at once, no new message is begun, and what
runs may finish within `drain_timeout`. What was taken and not begun is given back when the subscription is left.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Generic

import trio
from typing_extensions import TypeVar

from trio_stomp.brokers import NackMeaning
from trio_stomp.client.dead_letters import dead_letter_headers
from trio_stomp.client.retrying import FailureCounts, Retry
from trio_stomp.client.starvation import BlockingReport
from trio_stomp.client.transaction import Transaction
from trio_stomp.errors import LocalProtocolError, OutcomeUnknown, StaleMessage, StompError, TransactionLost
from trio_stomp.nurseries import leaving
from trio_stomp.session import Message, Settlement, resent_body

__all__ = ["DeadLetter", "Handler", "Key", "OpenTransaction", "WorkOptions", "work"]

logger: Final = logging.getLogger("trio_stomp")

T = TypeVar("T")

Handler = Callable[[Message[T]], Awaitable[object]]
Key = str | Callable[[Message[T]], Hashable]
DeadLetter = str | Callable[[Message[T]], str]
OpenTransaction = Callable[[], AbstractAsyncContextManager[Transaction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions(Generic[T]):
    """What `Subscription.work` was asked for.

    Attributes:
        workers: How many messages are handled at once.
        key: Messages of the same key are handled in order, one at a time: a header's name, or a function.
        retry: How often a failed message is tried again.
        dead_letter: Where messages go that failed for good.
        drain_timeout: Seconds for what runs when the pool is cancelled.
        report_blocking_after: Seconds from which on a handler that blocks the event loop is reported.
        capacity: How many messages the pool holds.
    """

    workers: int
    key: Key[T] | None
    retry: Retry
    dead_letter: DeadLetter[T] | None
    drain_timeout: float
    report_blocking_after: float
    capacity: int

    def __post_init__(self) -> None:
        if self.workers < 1:
            msg = f"workers must be at least 1, got {self.workers!r}"
            raise LocalProtocolError(msg)
        if not self.drain_timeout >= 0:
            msg = f"drain_timeout must be 0 seconds or more, got {self.drain_timeout!r}"
            raise LocalProtocolError(msg)


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """One message in the pool.

    Attributes:
        message: The message.
        earlier: Attempts before this delivery.
        failures: Attempts of this delivery that failed.
        key_error: What its key function raised.
    """

    message: Message[T]
    earlier: int
    failures: int = 0
    key_error: Exception | None = None

    @property
    def identity(self) -> str:
        """What names the message through all its deliveries, as well as can be."""
        return self.message.stable_id or self.message.id


async def work(
    messages: AsyncIterator[Message[T]], transaction: OpenTransaction, handler: Handler[T], options: WorkOptions[T]
) -> None:
    """Handle messages until cancelled, or until the subscription ends; see `Subscription.work`."""
    pool = _Pool(transaction, handler, options)
    group: BaseExceptionGroup[BaseException] | None = None
    try:
        async with trio.open_nursery() as nursery:
            pool.intake = nursery.cancel_scope
            nursery.start_soon(pool.serve)
            await pool.take_in(messages)
    except BaseExceptionGroup as caught:
        group = caught
    # A pool may fail while it is cancelled: what its user's code raised is not lost for that.
    left = leaving(pool.failure, group)
    if left is not None:
        raise left


class _Pool(Generic[T]):
    def __init__(self, transaction: OpenTransaction, handler: Handler[T], options: WorkOptions[T]) -> None:
        self._transaction = transaction
        self._handler = handler
        self._options = options
        self._queues: dict[Hashable, deque[_Job[T]]] = {}
        self._ready: deque[Hashable] = deque()
        self._held = 0
        self._idle = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._draining = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        self._failures = FailureCounts()
        self._running = 0
        self._name: str = getattr(handler, "__qualname__", repr(handler))
        after = options.report_blocking_after
        self._report = BlockingReport(self._name, after) if after < math.inf else None
        self.intake = trio.CancelScope()
        self.failure: Exception | None = None

    # --- intake -----------------------------------------------------------------------------------------------------

    async def take_in(self, messages: AsyncIterator[Message[T]]) -> None:
        """Take messages as long as there is room for them.

        Cancellation: begins to drain.
        """
        try:
            async for message in messages:
                self._add(message)
                while self._held >= self._options.capacity:
                    await self._room.park()
        except StompError as error:
            self._fail(error)
        finally:
            self._drain()

    def _add(self, message: Message[T]) -> None:
        job = _Job(message, earlier=(message.delivery_count or 1) - 1)
        job.earlier = max(job.earlier, self._failures.of(job.identity))
        key = self._key_of(job)
        self._held += 1
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(job)
            return
        self._queues[key] = deque([job])
        self._is_ready(key)

    def _key_of(self, job: _Job[T]) -> Hashable:
        key = self._options.key
        if key is None:
            return job
        if isinstance(key, str):
            # Messages without the header belong to nobody: each by itself.
            value = job.message.headers.get(key)
            return job if value is None else value
        try:
            found = key(job.message)
            hash(found)
        except Exception as error:  # noqa: BLE001  # the user's function: its error is the message's failure
            job.key_error = error
            return job
        return found

    def _is_ready(self, key: Hashable) -> None:
        self._ready.append(key)
        self._idle.unpark()

    def _drain(self) -> None:
        """Begin nothing more; what runs may finish in time."""
        if not self._draining.is_set():
            self._draining.set()
            self._scope.deadline = trio.current_time() + self._options.drain_timeout
            self._idle.unpark_all()

    def _fail(self, error: Exception) -> None:
        """End the pool with an error."""
        if self.failure is None:
            self.failure = error
        self._drain()
        self.intake.cancel()

    # --- workers ----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run the workers until the pool is drained."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                for _ in range(self._options.workers):
                    nursery.start_soon(self._work, nursery)
        if self._running:
            logger.warning(
                "%d handlers %s did not end within %g s (drain_timeout) and were cancelled; their messages come again",
                self._running,
                self._name,
                self._options.drain_timeout,
            )

    async def _work(self, nursery: trio.Nursery) -> None:
        while True:  # noqa: ASYNC913  # each round awaits a key, and then its handler
            while not self._ready and not self._draining.is_set():
                await self._idle.park()
            if self._draining.is_set():
                return
            key = self._ready.popleft()
            queue = self._queues[key]
            self._running += 1
            try:
                delay = await self._attempt(queue[0])
            except Exception as error:  # noqa: BLE001  # what a policy of the user's raised ends the pool, not a task
                self._fail(error)
                delay = None
            self._running -= 1
            if delay is not None:
                nursery.start_soon(self._ready_again, key, delay)
                continue
            queue.popleft()
            self._held -= 1
            self._room.unpark()
            if queue:
                self._is_ready(key)
            else:
                del self._queues[key]

    async def _ready_again(self, key: Hashable, delay: float) -> None:
        with trio.move_on_after(delay):
            await self._draining.wait()
        if not self._draining.is_set():
            self._is_ready(key)

    async def _attempt(self, job: _Job[T]) -> float | None:
        """Handle a message; returns the delay before it is tried again, or None when it is done with."""
        message = job.message
        if message.is_stale:
            # It waited here while its connection was lost: the broker delivers it again.
            return None
        try:
            await self._handle(job)
        except Exception as error:  # noqa: BLE001  # the user's handler: its errors go by the retry policy
            return await self._failed(job, error)
        self._failures.forget(job.identity)
        if message.settlement is Settlement.OPEN:
            try:
                await message.ack()
            except StaleMessage:
                logger.warning("message %r was handled but is stale: the broker delivers it again", message.id)
            except StompError as error:
                self._fail(error)
        return None

    async def _handle(self, job: _Job[T]) -> None:
        if job.key_error is not None:
            raise job.key_error
        observer, report = job.message.settler.observer, self._report
        with nullcontext() if observer is None else observer.handling(job.message):
            handling = self._handle_message(job.message)
            await (handling if report is None else report.watch(handling))

    async def _handle_message(self, message: Message[T]) -> None:
        if message.subscription.codec.chosen:
            # A body that cannot be decoded is a failure of its message even where the handler would not look at it.
            _ = message.value
        await self._handler(message)

    async def _failed(self, job: _Job[T], error: Exception) -> float | None:
        job.failures += 1
        attempts = job.earlier + job.failures
        self._failures.note(job.identity, attempts)
        if job.message.settlement is not Settlement.OPEN:
            logger.warning("handler %s failed after it had settled message %r: %r", self._name, job.message.id, error)
            return None
        retry = self._options.retry
        if attempts < retry.attempts and retry.retry_on(error):
            logger.info("handler %s failed, attempt %d of message %r: %r", self._name, attempts, job.message.id, error)
            return retry.delay(attempts)
        await self._bury(job, error, attempts)
        return None

    async def _bury(self, job: _Job[T], error: Exception, attempts: int) -> None:
        """Put a message aside that failed for good; never tried again, never dropped in silence."""
        message, chosen = job.message, self._options.dead_letter
        if message.is_stale:
            return
        tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        logger.warning("handler %s gave up message %r after %s: %r", self._name, message.id, tried, error)
        if chosen is not None:
            await self._to_dead_letters(
                message, chosen if isinstance(chosen, str) else chosen(message), error, attempts
            )
        elif message.settler.profile.nack(message.headers, False) is NackMeaning.DEAD_LETTER:  # noqa: FBT003  # its second argument is whether to requeue
            try:
                await message.nack(requeue=False)
            except StaleMessage as lost:
                logger.warning("message %s was not put aside and comes again: %s", message.id, lost)
        else:
            error.add_note(
                f"message {message.id} failed in {tried} and stays unsettled: this broker has no certain dead "
                "letters; pass dead_letter= to work()"
            )
            self._fail(error)
            return
        self._failures.forget(job.identity)

    async def _to_dead_letters(self, message: Message[T], destination: str, error: Exception, attempts: int) -> None:
        headers = dead_letter_headers(message, error, attempts, time.time())
        # A JMS text message stays one.
        is_jms = message.settler.profile.text_without_content_length
        body = resent_body(message.body, message.headers) if is_jms else message.body
        try:
            async with self._transaction() as transaction:
                await transaction.send(destination, body, headers=headers, content_type=message.content_type)
                await transaction.ack(message)
        except (TransactionLost, StaleMessage) as lost:
            logger.warning("message %r was not put aside and comes again: %s", message.id, lost)
        except OutcomeUnknown as unknown:
            logger.warning("message %r may come again although it was put aside: %s", message.id, unknown)
