"""The receivers of a query: in its own process, in processes beside it, or elsewhere."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Final, Protocol

from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.planner import Planner
from trio_stomp.spark.receiver import IDLE_SECONDS, ReceiverOptions, ReceiverThread
from trio_stomp.spark.receiver_process import ReceiverProcess
from trio_stomp.spark.stream_options import StreamOptions

__all__ = ["Progress", "QueryReceivers"]

logger: Final = logging.getLogger("trio_stomp.spark")
_STOP_SECONDS: Final = 5.0
# Receivers elsewhere tell nothing: the spool is listed this often, on a disk and elsewhere.
_LIST_SECONDS: Final = 0.05
_LIST_SECONDS_REMOTE: Final = 0.5


class Progress:
    """The progress of receivers. One thread waits for it, any number of others report."""

    def __init__(self) -> None:
        self._news = 0
        self._idle: set[int] = set()
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    # --- told by the receivers ----------------------------------------------------------------------------------------

    def wrote(self, receiver: int) -> None:
        """A receiver has written rows."""
        with self._changed:
            self._news += 1
            self._idle.discard(receiver)
            self._changed.notify_all()

    def idle(self, receiver: int) -> None:
        """A receiver has received nothing for a while."""
        with self._changed:
            self._idle.add(receiver)
            self._changed.notify_all()

    def failed(self, failure: Exception) -> None:
        """A receiver has ended for good; the first failure is kept."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    # --- asked by Spark's thread --------------------------------------------------------------------------------------

    @property
    def news(self) -> int:
        """How often rows were written."""
        with self._changed:
            return self._news

    @property
    def failure(self) -> Exception | None:
        """Why a receiver has ended."""
        with self._changed:
            return self._failure

    def is_idle(self, receivers: int) -> bool:
        """Return whether at least this number of receivers is idle."""
        with self._changed:
            return len(self._idle) >= receivers

    def wait(self, known: int, timeout: float, idle_receivers: int | None = None) -> None:
        """Wait until `news` is no longer `known`, a receiver fails, or this number of receivers is idle.

        It waits for no more than `timeout` seconds.
        """

        def over() -> bool:
            is_idle = idle_receivers is not None and len(self._idle) >= idle_receivers
            return self._failure is not None or self._news != known or is_idle

        with self._changed:
            self._changed.wait_for(over, timeout)


class _Receiver(Protocol):
    def stop(self) -> None: ...

    def join(self, timeout: float) -> bool: ...


class _Report:
    """Tells the progress of one receiver."""

    def __init__(self, progress: Progress, number: int) -> None:
        self._progress = progress
        self._number = number
        self.idle = partial(progress.idle, number)

    def wrote(self, _shard: str, _last: int, /) -> None:
        self._progress.wrote(self._number)


class QueryReceivers:
    """The receivers of a query, and their `progress`."""

    def __init__(self, options: StreamOptions, planner: Planner) -> None:
        self._options = options
        self._planner = planner
        self.progress = Progress()
        self._receivers: list[_Receiver] = []
        self._are_stopped = False

    def start(self) -> None:
        """Start those that belong to the query, the first time this is called."""
        if self._receivers:
            return
        options = self._options
        kind = ReceiverThread if options.receivers == 1 else ReceiverProcess
        told = ReceiverOptions(intake=options.intake, use=STREAM, idle=options.available_idle or IDLE_SECONDS)
        for number in range(options.receivers):
            self._receivers.append(kind(told, _Report(self.progress, number), self.progress.failed))

    def wait(self, known: int, timeout: float, *, for_idle: bool) -> None:
        """Wait until `news` is no longer `known`, or with `for_idle` until no more messages arrive; see `Progress`."""
        if self._options.receivers:
            self.progress.wait(known, timeout, self._options.receivers if for_idle else None)
        else:
            time.sleep(min(timeout, _LIST_SECONDS if self._options.intake.spool.is_local else _LIST_SECONDS_REMOTE))

    def are_idle(self) -> bool:
        """Whether nothing has come to any of them for `availableNowIdleMs`."""
        if self._are_stopped:
            return True
        if self._options.receivers:
            return self.progress.is_idle(self._options.receivers)
        return all(each.idle >= self._options.available_idle for each in self._planner.receivers())

    def stop(self) -> None:
        """Stop those that belong to the query: what they have taken is in the spool, the rest is given back."""
        self._are_stopped = True
        for receiver in self._receivers:
            receiver.stop()
        until = time.monotonic() + _STOP_SECONDS
        for receiver in self._receivers:
            if not receiver.join(max(0.1, until - time.monotonic())):
                logger.warning("a receiver has not ended after %g s; it ends with its process", _STOP_SECONDS)
