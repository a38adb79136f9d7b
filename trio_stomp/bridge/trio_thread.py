"""The thread that runs trio, shared by all clients of a process that do not run on trio."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

import trio

from trio_stomp.bridge.outcome import Outcome
from trio_stomp.errors import ConnectionClosed

__all__ = [
    "CLOSED",
    "FORKED",
    "TrioThread",
    "begin_exit",
    "held",
    "join_thread",
    "leave_thread",
    "stop_daemon_at_exit",
    "wait_done",
]

T = TypeVar("T")

CLOSED: Final = "this client was closed; open a new one with connect()"
FORKED: Final = (
    "this client was opened before os.fork(), and the new process has no connection of its own; open a client in each "
    "process, for example in gunicorn's post_fork hook or on Celery's worker_process_init signal"
)

# A thread that waits for a lock does not see a Ctrl-C that comes in the moment before it falls asleep, and on Windows
# none at all. So it wakes now and then to look.
_SLICE: Final = 0.5


def wait_done(outcome: Outcome[T], seconds: float = math.inf) -> None:
    """Wait until an outcome is there, at most for so long, and see a Ctrl-C meanwhile in any case."""
    if outcome.done():
        return
    deadline = time.monotonic() + seconds
    lock = threading.Lock()
    lock.acquire()
    outcome.add_done_callback(lambda _: lock.release())
    while (left := deadline - time.monotonic()) > 0 and not lock.acquire(timeout=min(left, _SLICE)):
        pass


@contextmanager
def held(lock: threading.Lock) -> Generator[None]:
    """Hold a lock for the length of a block, and see a Ctrl-C while waiting for it in any case."""
    while not lock.acquire(timeout=_SLICE):
        pass
    try:
        yield
    finally:
        lock.release()


class TrioThread:
    """A thread that runs trio. `join_thread` returns the one of this process.

    Attributes:
        users: Those that keep it running.
        ident: Its identifier, as in ``threading.get_ident()``.
        forked: Whether this process was forked from the one that the thread runs in.
    """

    def __init__(self) -> None:
        self.users: set[object] = set()
        self.ident: int | None = None
        self.forked = False
        self._thread = threading.Thread(target=self._run, name="trio_stomp", daemon=True)
        self._is_stopping = False
        self._stopped = trio.Event()
        self._ready: Outcome[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = Outcome()
        self._crash: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def soon(self, function: Callable[[], object]) -> None:
        """Call a plain function in the thread, in the order of asking; does not wait for it.

        Raises:
            ConnectionClosed: The thread has ended, or is the one of another process.
        """
        if self.forked:
            raise ConnectionClosed(FORKED)
        if not self._ready.done():
            wait_done(self._ready)
        try:
            self._ready.result()[0].run_sync_soon(function)
        except trio.RunFinishedError:
            raise ConnectionClosed(CLOSED) from None

    @property
    def is_current(self) -> bool:
        """Whether this very thread runs now."""
        return threading.get_ident() == self.ident

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    @property
    def nursery(self) -> trio.Nursery:
        """Where tasks run for as long as the thread does; to be used in the thread."""
        return self._ready.result()[1]

    def stop(self) -> None:
        """Begin to end, however far the start has come."""
        self._is_stopping = True
        if self._ready.done():
            with suppress(ConnectionClosed):
                self.soon(self._stopped.set)

    def join(self) -> None:
        """Wait for the end.

        Raises:
            BaseException: What the thread crashed with, a mistake of this library.
        """
        while self._thread.is_alive():
            self._thread.join(_SLICE)
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        self.ident = threading.get_ident()
        try:
            trio.run(self._serve)
        # A mistake of ours, raised in the thread that waits for the end of this one.
        except BaseException as error:  # noqa: ASYNC103, BLE001  # see above
            self._crash = error
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            self._ready.set_result((trio.lowlevel.current_trio_token(), nursery))
            if not self._is_stopping:
                await self._stopped.wait()
            nursery.cancel_scope.cancel()


class _Process:
    """What belongs to this process.

    Attributes:
        lock: Held while the thread is joined or left.
        thread: The thread of this process, if it runs.
        exits: Whether the interpreter exits.
        known: All threads that are not garbage yet.
        abandoned: Threads that ended with a fork. Their sockets belong to the other process too: nothing may close them
            in an orderly way here, not even the garbage collector.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: TrioThread | None = None
        self.exits = False
        self.known: weakref.WeakSet[TrioThread] = weakref.WeakSet()
        self.abandoned: list[TrioThread] = []

    def forked(self) -> None:
        """Forget the thread: this is a new process."""
        self.lock = threading.Lock()
        self.thread = None
        for thread in self.known:
            thread.forked = True
            self.abandoned.append(thread)
        self.known = weakref.WeakSet()


_process: Final = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forked)


def join_thread(user: object) -> TrioThread:
    """Return the trio thread of this process, started if it does not run.

    Args:
        user: What keeps it running, until `leave_thread`.
    """
    with held(_process.lock):
        thread = _process.thread
        if thread is None or not thread.is_alive:
            thread = TrioThread()
            _process.known.add(thread)
            try:
                thread.start()
                thread.users.add(user)
                _process.thread = thread
            finally:
                if _process.thread is not thread:
                    # A Ctrl-C has interrupted the start.
                    thread.stop()
        thread.users.add(user)
    return thread


def leave_thread(user: object) -> None:
    """Let the trio thread end if nothing else uses it; and then wait for its end."""
    with held(_process.lock):
        thread = _process.thread
        if thread is None or user not in thread.users:
            return
        thread.users.discard(user)
        if thread.users:
            return
        _process.thread = None
        thread.stop()
    if not thread.is_current:
        thread.join()


def begin_exit() -> None:
    """The interpreter exits: calls of daemon threads do not return any more."""
    _process.exits = True


def stop_daemon_at_exit() -> None:
    """Stop this thread for good if it is a daemon thread and the interpreter exits.

    A daemon thread that waits for a message is not to print a traceback because the client is closed at exit. It may
    hold locks of its client, so what runs at exit must not wait for those.
    """
    if _process.exits and threading.current_thread().daemon and not any(each.is_current for each in _process.known):
        threading.Event().wait()
