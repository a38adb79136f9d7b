"""One receiver: a connection that fills one shard of the spool, for as long as it is let."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import trio

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.spark.in_doubt import InDoubt
from trio_stomp.spark.intake import Intake, was_idle
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.segment_files import lock_folder, spool_bytes

__all__ = ["ReceiverOptions", "ReceiverThread", "Report", "receive"]

_IN_DOUBT: Final = "in-doubt.jsonl"
# While the spool is full.
_FULL_SECONDS: Final = 0.05
# A query that is started again at once overlaps with the one that is still leaving.
_LOCK_SECONDS: Final = 30.0


class Report(Protocol):
    """Who is told how far a receiver is."""

    def reached(self, last: int, /) -> None:
        """Rows up to this one are on the disk, and acknowledged."""

    def idle(self) -> None:
        """Nothing has come for `idle` seconds, though there was a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """What a receiver is told; nothing but data, as it may run in a process of its own.

    Attributes:
        intake: What to take, and how it is kept.
        folder: Its shard of the spool.
        after: The number of the first row is larger than this.
        max_bytes: Nothing is received while the shard is larger than this.
        idle: Seconds without a message that are worth a report.
    """

    intake: IntakeOptions
    folder: Path
    after: int
    max_bytes: int
    idle: float


async def receive(options: ReceiverOptions, report: Report, now: Callable[[], float] = time.time) -> None:
    """Receive until cancelled.

    Args:
        options: What, and where to.
        report: Who is told.
        now: The time, in seconds since 1970.

    Raises:
        SpoolLocked: Another process fills this shard, and goes on.
        ConnectionLost: The broker cannot be reached, or was gone for too long.
        BrokerError: It refused.
        TooSlowError: It did not confirm an ACK for as long as an outage may take.
        OSError: The disk is full, or the folder is gone.

    Cancellation: what was taken is put on the disk and acknowledged first, the rest is given back.
    """
    intake_options = options.intake
    options.folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(options.folder, _LOCK_SECONDS):
        intake = Intake(intake_options, options.folder, InDoubt(options.folder / _IN_DOUBT), now, after=options.after)
        report.reached(intake.last)
        async with intake_options.connection.dial() as client, intake_options.subscribe(client) as subscription:
            receiver = _Receiver(options, intake, report)
            while True:
                await receiver.wait_for_room()
                await receiver.receive(client, subscription)


class _Receiver:
    """A receiver at work."""

    def __init__(self, options: ReceiverOptions, intake: Intake, report: Report) -> None:
        self._options = options
        self._intake = intake
        self._report = report
        # What was there before, and what has been written since: never less than there is.
        self._bytes = spool_bytes(options.folder)

    async def wait_for_room(self) -> None:
        """Wait until the shard is small enough. The broker keeps what does not fit the prefetch."""
        while self._bytes + self._intake.written_bytes >= self._options.max_bytes:
            self._bytes = spool_bytes(self._options.folder)
            self._intake.written_bytes = 0
            if self._bytes >= self._options.max_bytes:
                await trio.sleep(_FULL_SECONDS)

    async def receive(self, client: Client, subscription: Subscription) -> None:
        """Take what there is."""
        options = self._options.intake
        batch: list[Message] = []
        with trio.move_on_after(self._options.idle):
            batch = await subscription.receive_batch(options.most, linger=options.linger)
        if batch:
            await self._intake.keep(subscription, batch, options.connection.reconnect_timeout)
            self._report.reached(self._intake.last)
        elif was_idle(client, self._options.idle):
            self._report.idle()


class ReceiverThread:
    """A receiver in a thread of this process.

    Args:
        options: What it is told.
        report: Who is told how far it is; called in the thread.
        failed: Called in the thread with what it failed by.
    """

    def __init__(self, options: ReceiverOptions, report: Report, failed: Callable[[Exception], None]) -> None:
        self._options = options
        self._report = report
        self._failed = failed
        self._lock = threading.Lock()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        # Should it not end in time, the process must end all the same.
        self._thread = threading.Thread(target=self._main, name="trio_stomp receiver", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        try:
            trio.run(self._run)
        except Exception as failure:  # noqa: BLE001  # nobody else would hear of it; the thread that waits raises it
            self._failed(failure)

    async def _run(self) -> None:
        with self._lock:
            self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            await receive(self._options, self._report)

    def stop(self) -> None:
        """Have it end; returns at once."""
        with self._lock:
            if self._token is None:
                # It has not begun yet; then it ends as it begins.
                self._scope.cancel()
                return
        try:
            self._token.run_sync_soon(self._scope.cancel)
        except trio.RunFinishedError:
            return

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()
