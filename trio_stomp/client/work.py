"""A pool of workers on one subscription: order per key, retries, dead letters, graceful shutdown.

Theory of operation. The intake takes messages from the subscription and appends each to the queue of its key; without a
key, each message is a key of its own. A key that has messages and no worker is in the list of ready keys. A worker
takes a ready key, handles the head of its queue and, when that message is finished, puts the key back if more wait. A
message that failed stays at the head, and its key becomes ready again after the retry delay: messages of one key stay
in order, and a bad message delays only its own key.

The workers run in a shielded scope: when `work` is canceled, the intake stops at once, no further message is started,
and running handlers have `drain_timeout` seconds to finish. Messages that were taken but not started go back to the
broker when the subscription is left.

The file reads from the policies to the pool: `Retry`, the report of handlers that block the event loop, and the pool
that applies both.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, NamedTuple, cast

import anyio
import anyio.abc
from typing_extensions import TypeVar

from trio_stomp.brokers import require, require_destination, require_seconds, require_whole
from trio_stomp.client.dead_letters import DeadLetters, FailureCounts, OpenTransaction
from trio_stomp.client.handlers import HOW_TO_MAKE_IT_ASYNC, is_plain
from trio_stomp.errors import DecodeError, LocalProtocolError, StaleMessage, StompError
from trio_stomp.printable import name_of, one_line, safe_repr
from trio_stomp.protocol import Command
from trio_stomp.runtime import called, completed, current_time, leaving, new_wait_queue, surrounded
from trio_stomp.session import Message, Settlement, add_note, check_delays, full_jitter, tracker_of, uniform

__all__ = [
    "Around",
    "DeadLetter",
    "Handler",
    "Key",
    "OpenTransaction",
    "Retry",
    "UnusableError",
    "WorkOptions",
    "check_work",
    "work",
]

logger: Final = logging.getLogger("trio_stomp")

# What calls a handler, in this task or in another thread.
_AROUND_HANDLERS: Final = frozenset({"trio_stomp", "trio", "anyio", "outcome", "contextlib"})

T = TypeVar("T")

Handler = Callable[[Message[T]], Coroutine[object, object, object]]
Key = str | Callable[[Message[T]], Hashable]
DeadLetter = str | Callable[[Message[T]], str]
Around = Callable[[Message[T]], AbstractAsyncContextManager[object]]

# --- retries ----------------------------------------------------------------------------------------------------------


def _worth_another_try(error: Exception) -> bool:
    # The same bytes will not decode better the next time.
    return not isinstance(error, DecodeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When and how often to retry a message whose handler failed.

    Attributes:
        attempts: Attempts in total. Deliveries to other consumers and before a reconnection count too, where the
            broker reports them. 1 means no retry.
        first_delay: Upper bound of the delay before the second attempt, in seconds. The bound doubles with each
            attempt, and the delay is drawn uniformly below it.
        max_delay: Largest value of that bound, in seconds.
        retry_on: The errors that are worth another attempt: an exception class, a tuple of them, or a function of the
            error that returns True or False. Default: every error but DecodeError.
        random: Source of the jitter: returns a uniformly distributed number from 0 to 1.
    """

    attempts: int = 3
    first_delay: float = 0.1
    max_delay: float = 30.0
    retry_on: Callable[[Exception], bool] | type[BaseException] | tuple[type[BaseException], ...] = _worth_another_try
    random: Callable[[], float] = field(default=uniform, repr=False)

    def __post_init__(self) -> None:
        require_whole("Retry: attempts", self.attempts)
        check_delays("Retry", self.first_delay, self.max_delay)
        expected = "an exception class, a tuple of them, or a plain (not async) function of the error"
        require(_is_choice(self.retry_on), "Retry: retry_on", expected, self.retry_on)

    def delay(self, attempts: int) -> float:
        """Return the seconds to wait after this many attempts."""
        return full_jitter(self.random, self.first_delay, self.max_delay, attempts - 1)

    def takes(self, error: Exception) -> bool:
        """Return whether an error is one of `retry_on`."""
        chosen = self.retry_on
        return isinstance(error, chosen) if isinstance(chosen, type | tuple) else called(chosen, error)


def _is_choice(value: object) -> bool:
    """Whether a value can be `Retry.retry_on`."""
    if not isinstance(value, type | tuple):
        return is_plain(value)
    kinds = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return all(isinstance(each, type) and issubclass(each, BaseException) for each in kinds)


# --- handlers that block ----------------------------------------------------------------------------------------------


class BlockingReport:
    """Log handlers that block the event loop, and with it every heart-beat.

    Between two checkpoints a coroutine runs alone, so a long step means a handler that computes, or that waits without
    ``await``. The handler is driven step by step here, and each step is timed. A Trio instrument could do the same from
    outside, but Trio would call it for each step of every task in the program, idle pools included.

    Args:
        name: Name of the handler, for the log.
        after: Length of a step, in seconds, from which it is reported.
        clock: Real time in seconds, even where Trio's clock is virtual.
    """

    def __init__(self, name: str, after: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._name = name
        self._after = after
        self._clock = clock

    @types.coroutine
    def watch(self, handling: Coroutine[object, object, None]) -> Generator[object, object, None]:
        """Await a handler and time its steps.

        Cancellation: up to the handler.
        """
        value: object = None
        error: BaseException | None = None
        while True:
            began = self._clock()
            try:
                trap = handling.send(value) if error is None else handling.throw(error)
            except StopIteration:
                return
            finally:
                # A frame that refers to the exception leaving it would be a reference cycle.
                error = None
                self._stepped(self._clock() - began)
            try:
                value = yield trap
            except BaseException as thrown:  # noqa: ASYNC103, BLE001  # raised in the handler, at its await
                error = thrown

    def _stepped(self, seconds: float) -> None:
        if seconds >= self._after:
            logger.warning(
                "handler %s has blocked the event loop for %.2f s, and with it heart-beats and all other tasks: run "
                "slow code with anyio.to_thread.run_sync()",
                self._name,
                seconds,
            )


# --- the pool ---------------------------------------------------------------------------------------------------------


class WorkOptions(NamedTuple, Generic[T]):
    """The arguments of `Subscription.work`, which documents them.

    Attributes:
        capacity: How many messages the pool holds at most.
    """

    workers: int
    key: Key[T] | None
    retry: Retry
    dead_letter: DeadLetter[T] | None
    around: Sequence[Around[T]]
    drain_timeout: float
    report_blocking_after: float
    capacity: int


def check_work(
    destination: str,
    *,
    workers: object,
    key: object,
    retry: object,
    dead_letter: object,
    around: object,
    drain_timeout: object,
) -> None:
    """Check arguments of `Subscription.work` before any message is taken from the destination.

    Raises:
        LocalProtocolError: One is invalid.
    """
    require_whole("workers", workers)
    function = "a plain (not async) function of the message"
    require(key is None or isinstance(key, str) or is_plain(key), "key", f"the name of a header, or {function}", key)
    require(retry is None or isinstance(retry, Retry), "retry", "a Retry, such as Retry(attempts=3)", retry)
    is_valid = dead_letter is None or (dead_letter != "" if isinstance(dead_letter, str) else is_plain(dead_letter))
    require(is_valid, "dead_letter", f"a destination, or {function}", dead_letter)
    _require_elsewhere("dead_letter", dead_letter, destination)
    expected = "a list of functions of the message that return context managers"
    require(_are_functions(around), "around", expected, around)
    require_seconds("drain_timeout", drain_timeout)


def _require_elsewhere(name: str, dead_letter: object, *read: str) -> None:
    """Refuse a dead-letter destination whose messages the pool itself would get."""
    if dead_letter in read:
        raise LocalProtocolError(
            f"{name} must not be what the subscription reads, got {dead_letter!r}: a message that fails would come "
            "back without end"
        )


def _are_functions(value: object) -> bool:
    return isinstance(value, Sequence) and all(map(callable, cast("Sequence[object]", value)))


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """One message in the pool.

    Attributes:
        message: The message.
        earlier: Attempts before this delivery.
        failures: Failed attempts of this delivery.
        key_error: The exception of the key function, if it raised one.
    """

    message: Message[T]
    earlier: int
    failures: int = 0
    key_error: Exception | None = None

    @property
    def identity(self) -> str:
        """The id that is most likely to stay the same across deliveries."""
        return self.message.stable_id or self.message.id


async def work(
    messages: AsyncIterator[Message[T]], transaction: OpenTransaction, handler: Handler[T], options: WorkOptions[T]
) -> None:
    """Handle messages until canceled or until the subscription ends; see `Subscription.work`."""
    pool = _Pool(transaction, handler, options)
    group: BaseExceptionGroup[BaseException] | None = None
    try:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(pool.serve)
            await pool.take_in(messages)
    except BaseExceptionGroup as caught:
        group = caught
    except anyio.get_cancelled_exc_class():  # noqa: ASYNC103  # what the user's code raised is raised instead
        if pool.failure is None:
            raise
    # A pool may fail while it is being canceled; the error of the user's code must not get lost then.
    left = leaving(pool.failure, group)
    if left is not None:
        raise left


class UnusableError(Exception):
    """A function of the program returned something that a pool cannot use; no message is to blame."""


class _Pool(Generic[T]):
    def __init__(self, transaction: OpenTransaction, handler: Handler[T], options: WorkOptions[T]) -> None:
        self._letters = DeadLetters(transaction)
        self._handler = handler
        self._options = options
        self._queues: dict[Hashable, deque[_Job[T]]] = {}
        self._ready: deque[Hashable] = deque()
        self._held = 0
        self._idle = new_wait_queue()
        self._room = new_wait_queue()
        self._draining = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._failures = FailureCounts()
        self._running = 0
        self._newest: Message[T] | None = None
        self._name = name_of(handler)
        after = options.report_blocking_after
        self._report = BlockingReport(self._name, after) if after < math.inf else None
        self._intake = anyio.CancelScope()
        self.failure: Exception | None = None

    # --- intake -----------------------------------------------------------------------------------------------------

    async def take_in(self, messages: AsyncIterator[Message[T]]) -> None:
        """Take messages while there is room for them.

        Cancellation: starts the graceful shutdown.
        """
        try:
            with self._intake:
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
        self._newest = message
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
            # A message without the header has no order to keep.
            value = job.message.headers.get(key)
            return job if value is None else value
        try:
            found = called(key, job.message)
            hash(found)
        except Exception as error:  # noqa: BLE001  # user code: its error fails the message
            job.key_error = error
            return job
        return found

    def _is_ready(self, key: Hashable) -> None:
        self._ready.append(key)
        self._idle.unpark()

    def _drain(self) -> None:
        """Start nothing more; running handlers may finish until the deadline."""
        if not self._draining.is_set():
            self._draining.set()
            self._scope.deadline = current_time() + self._options.drain_timeout
            self._idle.unpark_all()

    def _fail(self, error: Exception) -> None:
        """End the pool with this error, unless it has one already."""
        if self.failure is None:
            self.failure = error
        self._drain()
        self._intake.cancel()

    # --- workers ----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run the workers until the pool is drained."""
        with self._scope:
            async with anyio.create_task_group() as nursery:
                for _ in range(self._options.workers):
                    nursery.start_soon(self._work, nursery)
            if self._newest is not None:
                # Where the same cancellation ends the client, it closes at once, and drops what is not written yet.
                await tracker_of(self._newest).connection.outbox.wait_empty()
        if self._running:
            logger.warning(
                "%d handlers %s did not end within %g s (drain_timeout) and were canceled; the broker redelivers their "
                "messages",
                self._running,
                self._name,
                self._options.drain_timeout,
            )

    async def _work(self, nursery: anyio.abc.TaskGroup) -> None:
        while True:  # noqa: ASYNC913  # each round awaits a key, then its handler
            while not self._ready and not self._draining.is_set():
                await self._idle.park()
            if self._draining.is_set():
                return
            key = self._ready.popleft()
            queue = self._queues[key]
            self._running += 1
            try:
                delay = await self._attempt(queue[0])
            except Exception as error:  # noqa: BLE001  # user code (a policy): its error ends the pool, not one task
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
        with anyio.move_on_after(delay):
            await self._draining.wait()
        if not self._draining.is_set():
            self._is_ready(key)

    async def _attempt(self, job: _Job[T]) -> float | None:
        """Handle a message; return the delay before its next attempt, or None when it is finished."""
        message = job.message
        if message.is_stale:
            # Its connection was lost while it waited here, and the broker redelivers it.
            return None
        try:
            await self._handle(job)
        except UnusableError as error:
            # A retry would not help: the message stays unsettled.
            self._fail(TypeError(str(error)))
            return None
        except Exception as error:  # noqa: BLE001  # user code: the retry policy decides about its error
            return await self._failed(job, error)
        self._failures.forget(job.identity)
        if message.settlement is Settlement.UNSETTLED:
            acks = tracker_of(message)
            try:
                # The time limit of the client is not for a pool, which goes on until it is canceled.
                if not acks.ack_at_once(message):
                    await acks.settle(message, Command.ACK, timeout=math.inf)
            except StaleMessage:
                logger.warning("message %r was handled but is stale: the broker redelivers it", message.id)
        return None

    async def _handle(self, job: _Job[T]) -> None:
        if job.key_error is not None:
            raise job.key_error
        observer, report = tracker_of(job.message).observer, self._report
        with nullcontext() if observer is None else observer.handling(job.message):
            handling = self._handle_message(job.message)
            await (handling if report is None else report.watch(handling))

    async def _handle_message(self, message: Message[T]) -> None:
        if message.subscription.codec.chosen and not message.is_spooled:
            # With an explicit decode=, an undecodable body is a failure even if the handler would not look at it.
            _ = message.value
        if not self._options.around:
            await completed(self._called(message))
            return
        managers = [self._manager_of(each, message) for each in self._options.around]
        await completed(surrounded(managers, partial(self._called, message)))

    def _called(self, message: Message[T]) -> Awaitable[object]:
        handling: object = called(self._handler, message)
        if not inspect.isawaitable(handling):
            raise UnusableError(
                f"handler {self._name} is not async: work() awaits what it returns, and it returned "
                f"{type(handling).__name__}: {HOW_TO_MAKE_IT_ASYNC}"
            )
        return handling

    @staticmethod
    def _manager_of(around: Around[T], message: Message[T]) -> AbstractAsyncContextManager[object]:
        manager = called(around, message)
        if not isinstance(manager, AbstractAsyncContextManager):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise UnusableError(
                f"around= must hold functions that return async context managers, and {name_of(around)} returned "
                f"{type(manager).__name__}: decorate it with @contextlib.asynccontextmanager"
            )
        return manager

    async def _failed(self, job: _Job[T], error: Exception) -> float | None:
        job.failures += 1
        attempts = job.earlier + job.failures
        self._failures.note(job.identity, attempts)
        if job.message.settlement is not Settlement.UNSETTLED:
            self._log(logging.WARNING, "handler %s failed after it had settled message %r: %s", job, error)
            return None
        retry = self._options.retry
        if attempts < retry.attempts and retry.takes(error):
            self._log(logging.INFO, f"handler %s failed, attempt {attempts} of message %r: %s", job, error)
            return retry.delay(attempts)
        await self._bury(job, error, attempts)
        return None

    def _log(self, level: int, text: str, job: _Job[T], error: Exception) -> None:
        """Log a failed handler, with its traceback: nothing else keeps that."""
        shown = type(error), error, _from_the_program(error.__traceback__)
        logger.log(level, text, self._name, job.message.id, one_line(safe_repr(error)), exc_info=shown)

    async def _bury(self, job: _Job[T], error: Exception, attempts: int) -> None:
        """Dead-letter a message that failed for good; it is never dropped silently."""
        message, chosen = job.message, self._options.dead_letter
        if message.is_stale:
            return
        tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        self._log(logging.WARNING, f"handler %s failed for good on message %r after {tried}: %s", job, error)
        if chosen is not None:
            name = "dead_letter" if isinstance(chosen, str) else "what the function of dead_letter= returns"
            destination = chosen if isinstance(chosen, str) else called(chosen, message)
            require_destination(destination, name)
            # A pattern reads destinations that do not equal it.
            _require_elsewhere(name, destination, message.destination, message.subscription.destination)
            await self._letters.send(message, destination, error, attempts)
        elif tracker_of(message).dead_letters(message):
            try:
                await message.nack(requeue=False, timeout=math.inf)
            except StaleMessage as lost:
                logger.warning("message %r was not dead-lettered; the broker redelivers it: %s", message.id, lost)
        else:
            add_note(
                error,
                f"message {message.id} failed in {tried} and stays unsettled, because this broker might drop it when "
                "it is refused; pass dead_letter= to work()",
            )
            self._fail(error)
            return
        self._failures.forget(job.identity)


def _from_the_program(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames before the program's own; all of it if it has none of those."""
    first = trace
    while first is not None and _is_around_handlers(first.tb_frame.f_globals.get("__name__")):
        first = first.tb_next
    return first or trace


def _is_around_handlers(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _AROUND_HANDLERS
