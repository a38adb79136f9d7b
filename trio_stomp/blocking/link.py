"""An open client in the loop's thread, and how the calls of its users get there.

Sends and acknowledgments that need no answer go into one ordered queue (`Calls.post`). One task does them in the order
of the calls, woken once for all that has gathered: a crossing between threads costs ten times what a send costs. All
other verbs are calls that wait (`Calls.call`), and come after everything that was posted before.

Whatever can fail without being asked (a client, a transaction, a publisher) has `Calls` of its own. What was posted
there and has failed is raised once, by the next call or when it is left.
"""

from __future__ import annotations

import contextvars
import math
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sized
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Final, Protocol, TypeVar

import trio

from trio_stomp.blocking.processes import EXIT_SECONDS, process
from trio_stomp.blocking.thread import CLOSED, FORKED, INTERRUPT_SECONDS, Call, LoopThread
from trio_stomp.brokers import SendOptions
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import HeaderInput, Publication, Settlement, Statistics, session_of
from trio_stomp.errors import ConnectionClosed, Delivery, OperationTimeout, StompError
from trio_stomp.session import (
    Limit,
    checked_seconds,
    limit_of,
    mark_raised,
    renewed,
    send_confirmed,
    send_confirmed_at_once,
    unconfirmed,
)

__all__ = ["Calls", "ConfirmedSend", "Dial", "Link", "Opened", "Posted", "entered"]

T = TypeVar("T")
Action = Callable[[], Awaitable[object]]
# Connects in the loop's thread.
Dial = Callable[[], Awaitable[AsyncClient]]

# As much as the outbox of a connection holds by default.
_HIGH_WATER_BYTES: Final = 1024 * 1024
# What an action weighs besides its body: about the size of an ACK, and of its objects.
_ACTION_BYTES: Final = 256
# A block that is left by Ctrl-C waits this many seconds for what it has sent and acknowledged.
_HASTE: Final = 1.0
# Calls of other threads that are under way when a client is closed have been told so, and end in a moment.
_GRACE: Final = 1.0


class Posted:
    """Something that was added to the queue.

    Args:
        action: What to do.
        size: How many bytes it holds.
        failures: Where its failure is kept.

    Attributes:
        done: Whether it was done, well or not.
        settles: The settlement that it gives a message.
    """

    __slots__ = ("action", "done", "failures", "settles", "size")

    def __init__(self, action: Action, size: int, failures: list[Exception]) -> None:
        self.action = action
        self.size = size
        self.failures = failures
        self.done = False
        self.settles: Settlement | None = None


class _Queue:
    """The queue of a client, and the task that empties it. Any thread may add.

    The task gives each of its sleeps a number. After adding something, a caller wakes it unless that was
    done for this sleep, and then notes the number. If Ctrl-C comes in between, the next caller wakes it once more.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._lock = threading.Lock()
        self._waiting: deque[Posted] = deque()
        self._in_hand = 0
        self._done = 0
        self._size = 0
        self._sleep = 0
        self._rung = 0
        self._bell = trio.lowlevel.ParkingLot()
        self._progress = trio.lowlevel.ParkingLot()

    @property
    def is_empty(self) -> bool:
        """Whether all that was added is done."""
        return not self._waiting and not self._in_hand

    def has_room(self, size: int) -> bool:
        """Whether something may be added; a single large thing always may."""
        return self._size + size <= _HIGH_WATER_BYTES or self.is_empty

    def add(self, posted: Posted) -> None:
        """Add something; does not wait."""
        with self._lock:
            self._waiting.append(posted)
            self._size += posted.size
        sleep = self._sleep
        if self._rung != sleep:
            self._thread.soon(self._bell.unpark)
            self._rung = sleep

    # --- in the loop's thread -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is added, until canceled.

        Cancellation: what was not begun is not done.
        """
        waiting = self._waiting
        while True:  # noqa: ASYNC913  # each round waits for the bell, or does something
            # Before the last look at the queue: what is added after it sees the new number, and rings.
            self._sleep += 1
            if not waiting:
                await self._bell.park()
            while waiting:
                self._in_hand = 1
                posted = waiting.popleft()
                try:
                    await posted.action()
                except Exception as error:  # noqa: BLE001  # raised by the next call of its thread
                    posted.failures.append(error)
                posted.done = True
                self._in_hand = 0
                self._done += 1
                with self._lock:
                    # A Ctrl-C in `add` may have left the size out.
                    self._size = self._size - posted.size if waiting else 0
                if self._progress:
                    self._progress.unpark_all()

    async def wait_done(self) -> None:
        """Wait until all that was added so far is done.

        Cancellation: nothing changes.
        """
        newest = self._done + self._in_hand + len(self._waiting)
        self._bell.unpark()
        while self._done < newest:
            await self._progress.park()

    async def wait_room(self) -> None:
        """Wait until half of the queue is free, so that not each of the next calls has to wait again.

        Cancellation: nothing changes.
        """
        self._bell.unpark()
        while self._size > _HIGH_WATER_BYTES // 2 and not self.is_empty:
            await self._progress.park()


class _Ending(Protocol):
    """A call, whatever it returns."""

    def cancel(self) -> None:
        """Cancel it."""


class Link:
    """A client in the loop's thread, and what runs for it there.

    Args:
        thread: The loop's thread.
        client: The client.
        keeps_context: Whether what is posted sees the context variables of its caller. Hooks need them, for traces.

    Attributes:
        thread: The loop's thread.
        client: The client.
        session: Its session.
        queue: What is to be done without being waited for.
        last: Its statistics when it was closed.
        is_closed: Whether it takes no more calls.
    """

    def __init__(self, thread: LoopThread, client: AsyncClient, *, keeps_context: bool) -> None:
        self.thread = thread
        self.client = client
        self.session = session_of(client)
        self.keeps_context = keeps_context
        self.queue = _Queue(thread)
        self.last: Statistics | None = None
        self.is_closed = False
        # Those that are under way.
        self._calls: set[_Ending] = set()
        self._no_calls = trio.lowlevel.ParkingLot()
        self._closing: trio.CancelScope | None = None
        self._closed = trio.Event()
        self._queueing = Call(self.queue.run)
        self._queueing.begin(contextvars.copy_context())

    def check(self) -> None:
        """Raise if nothing can cross any more.

        Raises:
            ConnectionClosed: The client is closed, or this process was forked.
        """
        if self.thread.forked:
            raise ConnectionClosed(FORKED)
        if self.is_closed:
            process.halt_daemon()
            raise ConnectionClosed(CLOSED)

    def run(self, call: Call[T], seconds: float = math.inf) -> T:
        """Begin a call of the client and wait for it; see `LoopThread.run`.

        Raises:
            ConnectionClosed: The client is closed.
            BaseException: What the call has raised.
        """
        try:
            return self.thread.run(call, self._begin, seconds)
        except ConnectionClosed:
            process.halt_daemon()
            raise

    # --- in the loop's thread -------------------------------------------------------------------------------------

    def _begin(self, call: Call[T], context: contextvars.Context) -> None:
        if self.is_closed:
            call.refuse()
        elif not call.is_done:
            self._calls.add(call)
            call.when_done = self._ended
            call.begin(context)

    def _ended(self, call: Call[T]) -> None:
        self._calls.discard(call)
        if not self._calls:
            self._no_calls.unpark_all()

    async def count(self) -> Statistics:  # noqa: ASYNC124  # runs in the loop's thread
        """Return the statistics of this moment.

        Cancellation: no cancellation point.
        """
        return self.last or self.client.statistics()

    async def close(self, error: BaseException | None, seconds: float | None = None) -> None:
        """Close the client as its block was left, within a time limit; if that is under way already, wait for it.

        Raises:
            StompError: As leaving the client does.

        Cancellation: the connection is closed at once.
        """
        if self._closing is not None:
            await self._closed.wait()
            return
        self._closing = trio.CancelScope()
        grace = 0.0
        try:
            with self._closing:
                async with Limit(seconds, "close()", outcome="the connection was closed at once"):
                    try:
                        # As long as the session waits for what it has: without a connection, this would not end.
                        with trio.move_on_after(self.session.settings.disconnect_timeout):
                            await self.finish(error)
                    finally:
                        # Canceled, it closes the connection at once.
                        await self.client.__aexit__(*_raised(error))  # noqa: ASYNC102  # it decides what it shields
                grace = _GRACE
        finally:
            self.last = self.client.statistics()
            self.is_closed = True
            self._queueing.cancel()
            with trio.CancelScope(deadline=trio.current_time() + grace, shield=True):
                while self._calls:
                    await self._no_calls.park()
            for call in list(self._calls):
                call.cancel()
            self._closed.set()
        if self._closing.cancelled_caught:
            raise ConnectionClosed(CLOSED)

    async def close_within(self, seconds: float) -> None:
        """`close`, and if that takes too long, close the connection at once, also if another task was closing it.

        Cancellation: as `close`.
        """
        with trio.move_on_after(seconds) as limit:
            await self.close(None)
        if limit.cancelled_caught:
            if self._closing is not None:
                self._closing.cancel()
            raise ConnectionClosed(CLOSED)

    def begin_closing(self) -> Call[None] | None:
        """`close_within` the time that there is at exit, without waiting for it; in any thread."""
        call = Call(partial(self.close_within, EXIT_SECONDS))
        with suppress(ConnectionClosed):
            self.thread.soon(call.begin, contextvars.copy_context())
            return call
        return None

    async def finish(self, error: BaseException | None = None) -> None:
        """Wait until all that was posted so far is done, but not for long if a block is left by Ctrl-C.

        Cancellation: nothing changes.
        """
        if self.is_closed or self.queue.is_empty:
            return
        in_haste = error is not None and not isinstance(error, Exception)
        with trio.move_on_after(_HASTE if in_haste else math.inf):
            await self.queue.wait_done()


class Calls:
    """The calls of one object, in order, and what has failed of those that did not wait.

    Args:
        link: The client that they belong to.

    Attributes:
        link: The argument.
        failures: What has failed, until it is raised.
    """

    __slots__ = ("failures", "link")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.failures: list[Exception] = []

    def branch(self) -> Calls:
        """Return the calls of another object of the same client, with failures of their own."""
        return Calls(self.link)

    def call(
        self,
        verb: Callable[[float | None], Awaitable[T]],
        timeout: float | None = None,
        *,
        name: str = "the call",
        raises_earlier: bool = True,
        patience: float = INTERRUPT_SECONDS,
    ) -> T:
        """Do something after all that was posted before, and wait for it.

        Args:
            verb: What to do; it is given what is left of its ``timeout=``.
            timeout: Its ``timeout=``.
            name: What it is, for the error.
            raises_earlier: Raise what was posted before and has failed, instead of doing it.
            patience: See `Call`.

        Raises:
            StompError: What was posted before has failed, or this has.
        """
        return self.link.run(Call(self.in_turn(verb, timeout, name=name, raises_earlier=raises_earlier), patience))

    def in_turn(
        self,
        verb: Callable[[float | None], Awaitable[T]],
        timeout: float | None,
        *,
        name: str,
        raises_earlier: bool = True,
    ) -> Callable[[], Awaitable[T]]:
        """Return a function that does something after all that was posted before; see `call`."""
        session, queue = self.link.session, self.link.queue
        seconds = limit_of(timeout, session.settings.timeout)

        async def run() -> T:
            left = timeout
            if not queue.is_empty:
                began = trio.current_time()
                async with Limit(seconds, f"{name}()", session):
                    await queue.wait_done()
                if seconds is not None:
                    left = max(0.0, began + seconds - trio.current_time())
            error = self.take_failure() if raises_earlier else None
            if error is not None:
                raise error
            return await verb(left)

        return run

    def post(self, action: Action, size: int = 0, timeout: float | None = None) -> Posted:
        """Have something done after everything that was posted before; waits only while too much waits already.

        Args:
            action: An async function, called in the loop's thread.
            size: How many bytes it holds.
            timeout: Seconds to wait for room; by default those of the client.

        Returns:
            What tells whether it is done.

        Raises:
            StompError: Something that was posted before has failed.
            ConnectionClosed: The client is closed.
            OperationTimeout: There was no room in time.
        """
        link, size = self.link, size + _ACTION_BYTES
        link.check()
        if timeout is not None:
            checked_seconds(timeout)
        if not link.queue.has_room(size):
            link.run(Call(self._within(timeout, "the call", link.queue.wait_room)))
        if self.failures:
            self.raise_failure()
        if link.keeps_context:
            action = partial(_InContext, contextvars.copy_context(), action)
        posted = Posted(action, size, self.failures)
        link.queue.add(posted)
        return posted

    def catch_up(self, timeout: float | None) -> None:
        """Wait until all that was posted is done.

        Raises:
            StompError: Something of it has failed.
        """
        self.link.check()
        if not self.link.queue.is_empty:
            self.link.run(Call(self._within(timeout, "the call", self.link.queue.wait_done)))
        self.raise_failure()

    def _within(
        self, timeout: float | None, name: str, wait: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        seconds = limit_of(timeout, self.link.session.settings.timeout)

        async def run() -> None:
            async with Limit(seconds, name, self.link.session):
                await wait()

        return run

    def take_failure(self) -> Exception | None:
        """Return what was posted and has failed first, once."""
        if not self.failures:
            return None
        try:
            error = self.failures.pop(0)
        except IndexError:  # another thread has taken it
            return None
        self.failures.clear()
        error.add_note("an earlier call that did not wait, such as send() or ack(), has failed")
        return error

    def raise_failure(self) -> None:
        """Raise what was posted and has failed, once.

        Raises:
            StompError: That.
        """
        error = self.take_failure()
        if error is not None:
            process.halt_daemon()
            raise error

    def note_failure(self, error: BaseException) -> None:
        """Add what was posted and has failed to the exception of a block, as a note."""
        failure = self.take_failure() if isinstance(error, Exception) else None
        if failure is not None and failure is not error:
            error.add_note(f"besides, an earlier call that did not wait has failed: {failure}")


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

    async def _connect(self) -> None:
        async with self._connecting:
            # Another thread of a process that was forked may have done it.
            if self._newest is None or self._newest.link.thread.forked:
                thread, client = process.thread, await self._dial()
                link = Link(thread, client, keeps_context=self._has_hooks)
                self._newest, self._guard = Calls(link), _Guard(link, self._place)

    @property
    def calls(self) -> Calls:
        """The calls of the client, on the link of this process.

        Raises:
            ConnectionClosed: It was never connected.
        """
        calls = self._newest
        if calls is not None and not (calls.link.thread.forked and self._reopens_after_fork and self._is_open):
            return calls
        if self._is_open:
            process.thread.run(Call(self._connect))
        if self._newest is None:
            raise ConnectionClosed(CLOSED)
        return self._newest

    def close(self, error: BaseException | None, timeout: float | None = None) -> None:
        """Close the client as its block was left; see `Client.close`."""
        calls, me, seconds = self._newest, threading.get_ident(), limit_of(timeout, None)
        if calls is None or me in self._closers:
            return
        self._is_open = False
        if not calls.link.thread.can_be_awaited:
            self._begin_closing()
            return
        trace = _raised(error)[2]
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
                error.__traceback__ = trace
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
        self._renew_locks()


@contextmanager
def entered(
    calls: Calls,
    manager: AbstractAsyncContextManager[T],
    timeout: float | None,
    failure: Callable[[], Exception | None] = lambda: None,
) -> Generator[T]:
    """Keep an async context manager open for the length of a block, in the loop's thread.

    Args:
        calls: The calls of the block. What they have posted is done before it is left.
        manager: The context manager. It may be entered in one task and left in another.
        timeout: How long to wait, at both ends, for what was posted.
        failure: What the block has raised if it does not know it yet; asked when it ends without an exception.
    """
    calls.catch_up(timeout)
    entering = Call(manager.__aenter__)
    leaving = _Leaving(calls, manager, timeout, failure)
    try:
        yield calls.link.run(entering)
    except BaseException as error:
        leaving.error = error
        if entering.value is not None:
            leaving.run()
        raise
    else:
        leaving.run()
    finally:
        # A Ctrl-C may have come before the first step of leaving.
        if entering.value is not None and not leaving.call.begun:
            leaving.begin()


class _Leaving:
    """How `entered` leaves its context manager.

    Args:
        calls: As in `entered`, like the others.
        manager: The context manager.
        timeout: The time limit.
        failure: The function.

    Attributes:
        error: What the block has raised.
        call: It runs `leave`.
    """

    def __init__(
        self,
        calls: Calls,
        manager: AbstractAsyncContextManager[object],
        timeout: float | None,
        failure: Callable[[], Exception | None],
    ) -> None:
        self.error: BaseException | None = None
        self.call = Call(self.leave)
        self._calls = calls
        self._manager = manager
        self._seconds = limit_of(timeout, calls.link.session.settings.timeout)
        self._failure = failure

    def run(self) -> None:
        """Leave it, also if the client is closed: what that means is up to the manager."""
        error, thread = self.error, self._calls.link.thread
        if not thread.can_be_awaited:
            # The garbage collector leaves the block of a generator that was dropped.
            self.begin()
            return
        trace = _raised(error)[2]
        try:
            thread.run(self.call)
        finally:
            if error is not None:
                # What it passed through over there is no concern of its reader.
                error.__traceback__ = trace
        if error is not None:
            self._calls.note_failure(error)

    def begin(self) -> None:
        """Leave it, without waiting for that."""
        call = Call(self.leave)
        with suppress(ConnectionClosed):
            self._calls.link.thread.soon(call.begin, contextvars.copy_context())

    async def leave(self) -> None:
        """Leave it, after everything that was posted.

        Cancellation: it is left by the cancellation.
        """
        link, error = self._calls.link, self.error
        own = error
        try:
            async with Limit(self._seconds, "leaving the block", link.session):
                await link.finish(error)
            own = self._failure() if error is None else error
        except BaseException as raised:  # noqa: ASYNC103, BLE001  # raised below
            own = raised if error is None or isinstance(raised, trio.Cancelled) else error
        await self._manager.__aexit__(*_raised(own))
        if own is not error and own is not None:
            raise own


def _raised(
    error: BaseException | None,
) -> tuple[type[BaseException] | None, BaseException | None, TracebackType | None]:
    """Return what a context manager is told when its block was left."""
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


class ConfirmedSend(Call[None]):
    """A send that is over when the broker has confirmed it, after everything that was posted before.

    Where it can be written at once, it needs no task in the loop's thread. That saves a sixth of its time and of its
    processor time.

    Args:
        calls: The calls of its client.
        destination: As in `send_confirmed`, like the next four.
        body: The body.
        headers: The headers of the sender.
        content_type: MIME type of the body.
        options: Options of the broker.
        timeout: Its ``timeout=``.
    """

    __slots__ = ("_calls", "_name", "_publication", "_seconds", "_send")

    def __init__(
        self,
        calls: Calls,
        destination: str,
        body: Sized,
        headers: HeaderInput | None,
        content_type: str | None,
        options: SendOptions | None,
        timeout: float | None,
    ) -> None:
        session = calls.link.session
        message = (session, destination, body, headers, content_type, options)
        self._name = f"send() to {destination!r}"
        self._seconds = limit_of(timeout, session.settings.timeout)

        async def send(left: float | None) -> None:
            async with Limit(limit_of(left, self._seconds), self._name, session) as limit:
                await send_confirmed(*message, limit)

        super().__init__(calls.in_turn(send, timeout, name="send"))
        self._calls = calls
        self._send = partial(send_confirmed_at_once, *message, self._settled)
        self._publication: Publication | None = None

    def wait_confirmed(self) -> None:
        """Begin it, and wait for its end."""
        self._calls.link.run(self, math.inf if self._seconds is None else self._seconds)

    def begin(self, context: contextvars.Context) -> None:
        """Write it, if nothing goes before it; else begin as other calls do."""
        if self._calls.link.queue.is_empty:
            try:
                self._calls.raise_failure()
                self._publication = context.run(self._send)
            except Exception as error:  # noqa: BLE001  # raised in the thread that waits
                self.set_error(error)
                return
        if self._publication is None:
            super().begin(context)

    def expire(self) -> None:
        """Do not wait for the RECEIPT any more, because of the time limit."""
        if self._publication is not None and not self.is_done:
            self.set_error(
                OperationTimeout(
                    f"{self._name} took longer than its timeout of {self._seconds:g} s; the broker has not confirmed "
                    f"message {self._publication.id!r}, which may or may not have arrived",
                    messages=[unconfirmed(self._publication)],
                    sent=1,
                )
            )
            self.cancel()

    def cancel(self) -> None:
        """Do not wait for the RECEIPT any more, and do not send the message again."""
        if self._publication is None:
            super().cancel()
        else:
            self._calls.link.session.receipts.give_up(self._publication)
            self.refuse()

    def _settled(self, delivery: Delivery | None, error: StompError | None) -> None:
        if self.is_done:
            return
        if error is not None:
            mark_raised(error)
            self.set_error(renewed(error))
        elif delivery is Delivery.CONFIRMED:
            self.set_result(None)
        else:
            self.set_error(ConnectionClosed("the call was interrupted"))


class _InContext:
    """An awaitable that runs each step of an async function in a context.

    A task has one context, and the task of the queue works for all callers.
    """

    def __init__(self, context: contextvars.Context, function: Action) -> None:
        self._context = context
        self._function = function

    def __await__(self) -> Generator[object, object, None]:
        run = self._context.run
        steps: Generator[object, object, object] = run(lambda: self._function().__await__())
        step: Callable[[], object] = partial(steps.send, None)
        while True:
            try:
                wanted = run(step)
            except StopIteration:
                return
            try:
                step = partial(steps.send, (yield wanted))
            except BaseException as error:  # noqa: BLE001, ASYNC103  # thrown on, into the action
                step = partial(steps.throw, error)
