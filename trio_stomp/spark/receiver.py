"""A receiver: writes what arrives on one connection to one shard of the spool, until it is stopped."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.errors import ConnectionLost, StompError
from trio_stomp.runtime import current_time
from trio_stomp.spark.connection_options import Connection
from trio_stomp.spark.intake import Intake, was_idle
from trio_stomp.spark.intake_options import STREAM, IntakeOptions
from trio_stomp.spark.option_reader import OptionReader
from trio_stomp.spark.process_identity import process_identity
from trio_stomp.spark.receiver_status import SILENT_SECONDS, ReceiverState, ReceiverStatus, read_status, write_status
from trio_stomp.spark.segments import Listing, find_spool, list_spool, mark_spool, new_shard
from trio_stomp.spark.spool_store import SpoolError, SpoolSilent, SpoolStore

__all__ = [
    "IDLE_SECONDS",
    "GracefulStop",
    "NoReport",
    "ReceiverOptions",
    "ReceiverThread",
    "Report",
    "receive",
    "run_receiver",
]

T = TypeVar("T")

# How often a full spool is listed, on a disk and elsewhere.
_FULL_SECONDS: Final = 0.05
_FULL_SECONDS_REMOTE: Final = 1.0
_BEAT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 1.0
# The planner forgets a receiver after an hour without a status. A receiver that could not write its status for this
# time, because it was suspended or the spool was unreachable, must not write to its shard again.
_SUSPENDED_SECONDS: Final = 900.0
_SHARE: Final = 8
# Bodies in one segment; one alone may be larger. Encoding takes twice that in memory, and so does a task that reads it.
_SEGMENT_BYTES: Final = 16 * 1024**2
# Longer than a segment and its ACK take, unless the spool or the broker hangs.
_STOP_SECONDS: Final = 20.0


class Report(Protocol):
    """Receives the progress of a receiver."""

    def wrote(self, shard: str, last: int, /) -> None:
        """All rows of the shard up to `last` are in the spool and acknowledged."""

    def idle(self) -> None:
        """The receiver was connected, and no message has arrived for `ReceiverOptions.idle` seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """The options of a receiver. They can be pickled, because it may run in another process.

    Attributes:
        intake: What to receive, and how to store it.
        use: The part of the spool: ``stream`` or ``reads``.
        idle: After how many seconds without a message to report that the destination is idle.
        max_rows: The receiver ends after this number of rows; None: no limit.
    """

    intake: IntakeOptions
    use: str
    idle: float = IDLE_SECONDS
    max_rows: int | None = None


async def receive(
    options: ReceiverOptions,
    report: Report | None = None,
    now: Callable[[], float] = time.time,
    working: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Receive as `run_receiver` does, with the same errors and the same cancellation.

    Args:
        options: What to receive, and where to store it.
        report: As for `run_receiver`.
        now: The time, in seconds since 1970.
        working: As for `run_receiver`.
    """
    store = await _ask(partial(options.intake.open_spool, options.use), options.intake)
    spool = await _ask(partial(mark_spool, store, options.intake.destination), options.intake)
    await _ask(store.remove_halves, options.intake)
    report = report or NoReport()
    receiver = _Receiver(options, store, spool, report, now, working)
    await receiver.say(ReceiverState.CONNECTING)
    report.wrote(receiver.shard, 0)
    try:
        await receiver.run()
    except (StompError, SpoolError, OSError) as failure:
        await receiver.leave(ReceiverState.FAILED, f"{type(failure).__name__}: {failure}")  # noqa: ASYNC120  # say() inside it is shielded
        raise
    finally:
        await receiver.leave(ReceiverState.ENDED)  # noqa: ASYNC102  # say() inside it is shielded


async def run_receiver(
    options: Mapping[str, str],
    *,
    connection: Connection | None = None,
    report: Report | None = None,
    working: Callable[[], AbstractContextManager[object]] = nullcontext,
    idle: float = IDLE_SECONDS,
    max_rows: int | None = None,
) -> None:
    """Receive into a spool until canceled, or until `max_rows` is reached.

    A query reads the rows if it has the same ``subscribe`` and ``spoolLocation``, and ``receivers`` is 0.

    Args:
        options: The options of the streaming source that concern receiving.
        connection: How to connect to the broker; None: as the options say.
        report: Receives the progress. The status in the spool contains it too.
        working: Entered around the work on a connection. If it cancels its block, the receiver ends gracefully: it
            unsubscribes and disconnects.
        idle: After how many seconds without a message to report that the destination is idle.
        max_rows: The receiver ends after this number of rows; None: no limit.

    Raises:
        OptionError: An option is missing, unknown, or wrong.
        ConnectError: The broker cannot be reached.
        ConnectionLost: The broker was unreachable for longer than ``reconnectTimeoutMs``.
        BrokerError: The broker refused the connection or the subscription.
        OperationTimeout: The broker did not confirm an ACK within ``reconnectTimeoutMs``.
        OSError: A TLS file cannot be loaded.
        SpoolError: The spool cannot be used.

    Cancellation: a segment that is being written is finished and acknowledged; the broker redelivers the rest.
    """
    reader = OptionReader(options)
    intake = IntakeOptions.read(reader, connection)
    reader.refuse_unknown("a receiver")
    told = ReceiverOptions(intake=intake, use=STREAM, idle=idle, max_rows=max_rows)
    await receive(told, report, working=working)


async def _ask(call: Callable[[], T], options: IntakeOptions) -> T:
    """Use the spool in a thread, for a limited time: a store may never answer.

    Raises:
        SpoolError: It cannot be used, or has not answered.
    """
    with anyio.move_on_after(options.spool_timeout):
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    raise SpoolSilent(
        f"cannot use the spool {options.spool.shown}: the store has not answered for {options.spool_timeout:g} s; "
        "check that it is there and can be reached from this machine. If it only needs longer, raise spoolTimeoutMs"
    )


class NoReport:
    """Ignores the progress. The status in the spool contains it."""

    def wrote(self, shard: str, last: int, /) -> None:
        """Do nothing."""

    def idle(self) -> None:
        """Do nothing."""


class _Receiver:
    """The state of a receiver, and its shard."""

    def __init__(
        self,
        options: ReceiverOptions,
        store: SpoolStore,
        spool: str,
        report: Report,
        now: Callable[[], float],
        working: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._options = options
        self._intake_options = options.intake
        self._store = store
        self._report = report
        self._now = now
        self._working = working
        self.shard = new_shard(now())
        self._intake = Intake(options.intake, store, self.shard, now)
        self._status = ReceiverStatus(
            shard=self.shard,
            host=socket.gethostname(),
            pid=os.getpid(),
            process=process_identity(),
            spool=spool,
            started=now(),
        )
        # How much may be written before the spool is listed again.
        self._room = 0
        self._beaten = now()
        self._is_new = True
        self._rows_then = 0
        self._last_rows = current_time()
        self._is_over = False
        # One subscription at a time writes; and those from which nothing has come for a while.
        self._turn = anyio.Lock()
        self._idle: set[str] = set()

    # --- status -------------------------------------------------------------------------------------------------------

    async def say(self, state: ReceiverState, text: str | None = None) -> None:
        """Write the status.

        Raises:
            SpoolError: It cannot be written.
        """
        now = self._now()
        rows = self._intake.last
        rate = (rows - self._rows_then) / max(0.1, now - self._beaten)
        self._status = replace(
            self._status,
            state=state,
            rows=rows,
            confirmed=self._intake.confirmed,
            text=self._status.text if text is None else text,
            rate=rate,
        )
        # The first one must be there before any segment, also after a power cut.
        await self._ask(partial(write_status, self._store, self._status, durable=self._is_new))
        self._is_new = False
        self._beaten, self._rows_then = now, rows

    async def _ask(self, call: Callable[[], T]) -> T:
        """Use the spool in a thread, for a limited time."""
        return await _ask(call, self._intake_options)

    async def _beat(self, state: ReceiverState, text: str | None = None) -> None:
        """Write the status if it has changed, or is some seconds old. A failure is ignored, because it only informs.

        Raises:
            SpoolError: The spool was replaced, the status could not be written for `_SUSPENDED_SECONDS`, or this
                process was suspended.
        """
        self._check_silence()
        if state is self._status.state and self._now() - self._beaten < _BEAT_SECONDS:
            return
        try:
            found = await self._ask(partial(find_spool, self._store))
            if found is not None and found.id == self._status.spool:
                await self.say(state, text)
                return
        except SpoolError as error:
            self._status = replace(self._status, text=str(error))
            return
        raise SpoolError(
            f"the spool {self._status.spool} in {self._store.folder} was deleted or replaced while this receiver wrote "
            "to it; put it back, or start the receiver again to write to the one that is there. The broker delivers "
            "again what was not acknowledged"
        )

    def _check_silence(self) -> None:
        silent = self._now() - self._beaten
        if silent > _SUSPENDED_SECONDS:
            raise SpoolError(
                f"this receiver could not write its status for {silent:.0f} s, so its shard may have been given up; "
                "start it again. The broker delivers again what was not acknowledged"
            )

    async def _check_shard(self) -> None:
        """Raise SpoolError if the shard was, or may have been, given up during a write that took long."""
        self._check_silence()
        if await self._ask(partial(read_status, self._store, self.shard)) is None:
            raise SpoolError(
                f"the shard {self.shard} was given up while a write to it took long; start the receiver again. The "
                "broker delivers again what was not acknowledged"
            )

    async def leave(self, state: ReceiverState, text: str | None = None) -> None:
        """Write the last status, once."""
        if not self._is_over:
            self._is_over = True
            with anyio.CancelScope(shield=True), contextlib.suppress(SpoolError):
                await self.say(state, text)

    # --- receiving ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Receive, on one connection after another."""
        options = self._intake_options
        while True:  # noqa: ASYNC913  # each round connects
            try:
                async with options.connection.dial() as client, options.subscribe(client) as subscriptions:
                    self._status = replace(self._status, broker=client.server or client.profile.name)
                    with self._working():
                        await self._receive(client, subscriptions)
                    return
            except ConnectionLost:
                # A link that flaps must not end the receiver while rows arrive.
                if current_time() - self._last_rows >= options.connection.reconnect_timeout:
                    raise

    async def _receive(self, client: Client, subscriptions: Sequence[Subscription]) -> None:
        """Receive until `max_rows` is reached: a task for each subscription, which write one after the other."""
        failures: list[Exception] = []

        async def receive_from(subscription: Subscription, others: anyio.CancelScope) -> None:
            try:
                await self._receive_from(client, subscription)
            except Exception as failure:  # noqa: BLE001  # raised below, outside of the group
                failures.append(failure)
            others.cancel()

        self._idle.clear()
        async with anyio.create_task_group() as receiving:
            for subscription in subscriptions:
                receiving.start_soon(receive_from, subscription, receiving.cancel_scope)
        for failure in failures:
            raise failure

    async def _receive_from(self, client: Client, subscription: Subscription) -> None:
        options = self._options
        while (most := self._most()) > 0:
            async with self._turn:
                await self._wait_for_room()
            batch: list[Message] = []
            linger = self._intake_options.linger
            # It lingers from the first message on, which may come at the end of the time in which one has to come.
            with anyio.move_on_after(options.idle + linger):
                batch = await subscription.receive_batch(most, linger=linger)
            async with self._turn:
                if batch:
                    self._idle.clear()
                    # Another subscription may have delivered meanwhile; the broker keeps what is too much.
                    for part in in_parts(batch[: self._most()], _SEGMENT_BYTES):
                        # There was room when they were asked for; large bodies may fill it before the last of them.
                        await self._wait_for_room()
                        await self._keep(client, subscription, part)
                elif was_idle(client, options.idle):
                    await self._note_idle(subscription)
                else:
                    self._idle.clear()
                    self._status = replace(self._status, idle=0.0)
                    await self._beat(ReceiverState.CONNECTING, str(client.state.cause or ""))

    async def _note_idle(self, subscription: Subscription) -> None:
        """Nothing came from a destination for a while; the receiver is idle when that is so of each."""
        self._idle.add(subscription.destination)
        if len(self._idle) == len(self._intake_options.destinations):
            self._idle.clear()
            self._status = replace(self._status, idle=self._status.idle + self._options.idle)
            self._report.idle()
        await self._beat(ReceiverState.IDLE if self._status.idle else ReceiverState.RECEIVING)

    def _most(self) -> int:
        """Return the maximum number of messages for the next segment."""
        rows = self._options.max_rows
        return self._intake_options.most if rows is None else min(self._intake_options.most, rows - self._intake.last)

    async def _keep(self, client: Client, subscription: Subscription, batch: list[Message]) -> None:
        self._status = replace(self._status, idle=0.0)
        await self._beat(ReceiverState.RECEIVING, "")
        segment = await self._intake.keep(client, subscription, batch, self._blocked, self._check_shard)
        self._room -= segment.size
        self._last_rows = current_time()
        redelivered = self._status.redelivered + sum(each.redelivered for each in batch)
        self._status = replace(self._status, redelivered=redelivered, last_message=self._now())
        self._report.wrote(self.shard, segment.last)

    async def _blocked(self, error: SpoolError) -> None:
        await self._beat(ReceiverState.BLOCKED, str(error))

    async def _wait_for_room(self) -> None:
        """Wait until the spool is smaller than `max_spool_bytes`. Meanwhile, messages stay at the broker."""
        while self._room <= 0:
            listing = await self._listing()
            # By the clock of the store, in which the status of this receiver is never much older than its beat.
            oldest = listing.statuses.get(self.shard, 0.0) - SILENT_SECONDS
            # All receivers that are alive share the room that is left.
            alive = sum(changed > oldest for changed in listing.statuses.values())
            most = self._intake_options.max_spool_bytes
            # More receivers may start after this listing.
            self._room = min((most - listing.size) // max(1, alive), max(1, most // _SHARE))
            if self._room <= 0:
                await self._beat(ReceiverState.FULL)
                await anyio.sleep(_FULL_SECONDS if self._store.is_local else _FULL_SECONDS_REMOTE)

    async def _listing(self) -> Listing:
        """List the spool, again and again for `reconnect_timeout` if it does not answer."""
        until = current_time() + self._intake_options.connection.reconnect_timeout
        while True:
            try:
                return await self._ask(partial(list_spool, self._store))
            except SpoolError as error:
                if not error.may_pass or current_time() >= until:
                    raise
                failure = error
            await self._blocked(failure)
            await anyio.sleep(_FULL_SECONDS_REMOTE)


def in_parts(messages: Sequence[Message], most_bytes: int) -> Iterator[list[Message]]:
    """Split messages so that the bodies of a part have no more bytes than this; one alone may have more."""
    part: list[Message] = []
    size = 0
    for message in messages:
        body_bytes = message.body_size
        if part and size + body_bytes > most_bytes:
            yield part
            part, size = [], 0
        part.append(message)
        size += body_bytes
    if part:
        yield part


class GracefulStop:
    """Stops a receiver: its work if it is connected, otherwise all of it.

    The connection outlives the work, because the RECEIPT of the last ACK arrives over it. If it is lost meanwhile, no
    work begins on the next one. After 20 seconds, everything ends in any case.
    """

    def __init__(self) -> None:
        self._everything: anyio.CancelScope | None = None
        self._work: anyio.CancelScope | None = None
        self._has_begun = False

    @contextlib.contextmanager
    def everything(self) -> Generator[None]:
        """The receiver, with all its connections."""
        with anyio.CancelScope() as self._everything:
            if self._has_begun:
                self._everything.cancel()
            yield

    @contextlib.contextmanager
    def working(self) -> Generator[None]:
        """The work on one connection."""
        try:
            with anyio.CancelScope() as self._work:
                if self._has_begun:
                    self._work.cancel()
                yield
        finally:
            self._work = None

    def begin(self) -> None:
        """Stop the receiver; does not wait."""
        self._has_begun = True
        if self._everything is None:
            # It has not started yet, and will end when it starts.
            return
        if self._work is None:
            self._everything.cancel()
        else:
            self._work.cancel()
            self._everything.deadline = current_time() + _STOP_SECONDS


class ReceiverThread:
    """A receiver in a thread of this process, which is there for it and its query alone.

    Args:
        options: Its options.
        report: Called with its progress, in the thread.
        failed: Called with its failure, in the thread.
    """

    def __init__(self, options: ReceiverOptions, report: Report, failed: Callable[[Exception], None]) -> None:
        self._options = options
        self._report = report
        self._failed = failed
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._stop = GracefulStop()
        # A daemon: if the receiver does not end in time, the process can end nevertheless.
        self._thread = threading.Thread(target=self._main, name="trio_stomp receiver", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        # A full collection would look at all that was imported, again and again, because messages come by the thousand.
        gc.freeze()
        anyio.run(self._run, backend="trio")

    async def _run(self) -> None:
        async with BlockingPortal() as portal:
            with self._lock:
                self._portal = portal
            try:
                with self._stop.everything():
                    await receive(self._options, self._report, working=self._stop.working)
            except Exception as failure:  # noqa: BLE001  # reported to the thread that waits, which raises it
                self._failed(failure)

    def stop(self) -> None:
        """Begin to stop it."""
        with self._lock:
            if self._portal is None:
                self._stop.begin()
                return
        # It may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            self._portal.start_task_soon(self._stop.begin)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()
