"""A client from `open` to `close`: across a fork, at exit, and when it is forgotten."""

from __future__ import annotations

import contextvars
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from trio_stomp.blocking.calls import Calls
from trio_stomp.blocking.link import Link, raised
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.thread import CLOSED, FORKED, Call, begin
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import ConnectionState, Phase
from trio_stomp.errors import ConnectionClosed, ConnectionLost, StompError
from trio_stomp.session import Limit, limit_of

__all__ = ["Opened"]

# Connects in the loop's thread.
Dial = Callable[[], Awaitable[AsyncClient]]

_NOT_REOPENED: Final = (
    "this client was opened before os.fork(), and the new process has not connected yet; the next call does "
    "(after_fork='reopen')"
)


class _Guard:
    """Closes a client that the program has dropped without closing it, and warns.

    It exists while the client is open, and is dropped in the loop's thread when that is closed. So in the main thread
    no finalizer runs, in which a Ctrl-C would be lost, except for a client that was forgotten.

    Args:
        link: The link of the client.
        place: Where the program has called `open`.

    Attributes:
        is_armed: Whether it does that.
    """

    def __init__(self, link: Link, place: str) -> None:
        self.is_armed = True
        self._link = link
        self._place = place

    def __del__(self) -> None:
        link = self._link
        if self.is_armed and not link.is_closed and not link.thread.forked:
            url = link.session.link.endpoint
            link.begin_closing()
            text = f"the client of {url}, opened at {self._place}, was not closed: call its close()"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)


class Opened:
    """What `open` has made: the link of this process, which is opened once more after a fork if that was asked for.

    Args:
        dial: Connects in the loop's thread.
        place: Where the program has called `open`.
        has_hooks: Whether the program has hooks.
        reopens_after_fork: Whether a process that was forked opens a connection of its own.

    Attributes:
        naming: Held while the asynchronous client makes an id, which it does for one thread.
    """

    def __init__(self, dial: Dial, place: str, *, has_hooks: bool, reopens_after_fork: bool) -> None:
        self._place = place
        self._dial = dial
        self._has_hooks = has_hooks
        self._reopens_after_fork = reopens_after_fork
        self._newest: Calls | None = None
        self._guard: _Guard | None = None
        self._is_open = True
        # The threads that are in `close`.
        self._closers: set[int] = set()
        self._reopening: Call[None] | None = None
        self._not_reopened: StompError = ConnectionLost(_NOT_REOPENED)
        self._renew_locks()
        process.remember(self)

    def _renew_locks(self) -> None:
        # After a fork, another process may hold the old ones.
        self.naming = threading.Lock()
        self._connecting = trio.Lock()

    def open(self) -> None:
        """Connect."""
        connected = False
        try:
            process.thread.run(Call(self._connect))
            connected = True
        finally:
            if not connected:
                # Also if Ctrl-C came after it was connected.
                self.drop()

    async def _connect(self, seconds: float | None = None, call: str = "open()") -> None:
        outcome = "the client was not connected in this process yet, and nothing was sent"
        async with Limit(seconds, call, outcome=outcome), self._connecting:
            # Another thread of a process that was forked may have done it.
            if self._newest is None or self._newest.link.thread.forked:
                thread, client = process.thread, await self._dial()
                link = Link(thread, client, keeps_context=self._has_hooks)
                self._newest, self._guard = Calls(link), _Guard(link, self._place)
                if not self._is_open:
                    # It was closed meanwhile.
                    await self._close(link, None, None)

    @property
    def newest(self) -> Calls:
        """The calls of the client on its newest link, which may belong to the process that this one was forked from.

        Raises:
            ConnectionClosed: It was never connected.
        """
        if self._newest is None:
            raise ConnectionClosed(CLOSED)
        return self._newest

    @property
    def is_to_reopen(self) -> bool:
        """Whether this process was forked, and the next call connects."""
        return self._reopens_after_fork and self._is_open and self.newest.link.thread.forked

    @property
    def state(self) -> ConnectionState:
        """The state of the client in this process."""
        link = self.newest.link
        if not link.thread.forked:
            return link.client.state
        if self.is_to_reopen:
            return ConnectionState(phase=Phase.LOST, cause=self._not_reopened)
        return ConnectionState(phase=Phase.CLOSED, cause=ConnectionClosed(FORKED))

    def begin_reopening(self) -> None:
        """Begin to connect if this process was forked and has not connected, and that was asked for; never waits."""
        if not self.is_to_reopen or self._reopening is not None:
            return
        call = Call(self._connect)
        call.when_done = self._note_reopening
        self._reopening = call
        process.thread.soon(begin, call, contextvars.copy_context())

    def _note_reopening(self, call: Call[None]) -> None:
        # The call refers to this object, which must end with the last reference of the program.
        self._reopening = None
        error, call.error = call.error, None
        if isinstance(error, StompError):
            self._not_reopened = error.with_traceback(None)

    def ready(self, timeout: float | None, name: str) -> tuple[Calls, float | None]:
        """Connect once more if this process was forked and that was asked for.

        Args:
            timeout: The ``timeout=`` of a call.
            name: The call, for the error.

        Returns:
            The calls of the client on the link of this process, and what is left of the `timeout`.

        Raises:
            ConnectError: It cannot connect.
            OperationTimeout: It could not connect in time.
            ConnectionClosed: It was never connected.
        """
        calls = self._newest
        if calls is not None and not calls.link.thread.forked:
            return calls, timeout
        if not self.is_to_reopen:
            return self.newest, timeout
        seconds = limit_of(timeout, self.newest.link.session.settings.timeout)
        began = time.monotonic()
        process.thread.run(Call(partial(self._connect, seconds, name)))
        return self.newest, None if seconds is None else max(0.0, began + seconds - time.monotonic())

    def close(self, error: BaseException | None, timeout: float | None = None) -> None:
        """Close the client as its block was left; see `Client.close`."""
        calls, me, seconds = self._newest, threading.get_ident(), limit_of(timeout, None)
        if calls is None or me in self._closers:
            return
        self._is_open = False
        if not calls.link.thread.can_be_awaited:
            self._begin_closing()
            return
        trace = raised(error)[2]
        try:
            self._closers.add(me)
            if not calls.link.is_closed:
                calls.link.thread.run(Call(partial(self._close, calls.link, error, seconds)))
        except ConnectionClosed:
            process.halt_daemon()
            raise
        finally:
            self._closers.discard(me)
            if error is not None:
                error.with_traceback(trace)
                calls.note_failure(error)
        if error is None:
            calls.raise_failure()

    async def _close(self, link: Link, error: BaseException | None, seconds: float | None) -> None:
        try:
            await link.close(error, seconds)
        finally:
            self._guard = None

    def drop(self) -> None:
        """Close it without waiting, and without a warning, if it is open."""
        self._is_open = False
        if self._guard is not None:
            self._guard.is_armed = False
            self._begin_closing()

    def _begin_closing(self) -> Call[None] | None:
        reopening = self._reopening
        if reopening is not None:
            process.thread.soon(reopening.cancel)
        return None if self._newest is None else self._newest.link.begin_closing()

    # --- for the process ------------------------------------------------------------------------------------------

    def begin_exit(self) -> Call[None] | None:
        """Begin to close it, because the interpreter exits."""
        calls, self._is_open = self._newest, False
        return None if calls is None or calls.link.is_closed else self._begin_closing()

    def abandon(self) -> None:
        """Close the socket in a forked process and send nothing: it belongs to the other process.

        Otherwise the broker would not see the end of that process before the end of this one.
        """
        if self._newest is not None:
            process.abandoned.append(self._newest)
            self._newest.link.session.connection.stream.abandon()
        # The thread that ran it is another process's.
        self._reopening, self._not_reopened = None, ConnectionLost(_NOT_REOPENED)
        self._renew_locks()
