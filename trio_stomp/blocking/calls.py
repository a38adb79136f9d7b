"""How the calls of users get to the loop's thread, in order.

What needs no answer goes into the queue of the client (`Calls.post`). All other verbs are calls that wait
(`Calls.call`), and come after everything that was posted before.

Whatever can fail without being asked (a client, a transaction, a publisher) has `Calls` of its own. What was posted
there and has failed is raised once, by the next call or when it is left.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

import trio

from trio_stomp.blocking.link import Link, raised
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.queue import Action, InContext, Posted
from trio_stomp.blocking.thread import INTERRUPT_SECONDS, Call
from trio_stomp.client import Publication
from trio_stomp.errors import ConnectionClosed, DeliveryStatus, StompError
from trio_stomp.session import (
    Limit,
    Parts,
    add_note,
    checked_seconds,
    limit_of,
    mark_raised,
    note_unconfirmed,
    renewed,
    send_confirmed,
    send_confirmed_at_once,
)

__all__ = ["Calls", "ConfirmedSend", "entered"]

T = TypeVar("T")

# What an action weighs besides its body: about the size of an ACK, and of its objects.
_ACTION_BYTES: Final = 256


class Calls:
    """The calls of one object, in order, and what has failed of those that did not wait.

    Args:
        link: The client that they belong to.

    Attributes:
        link: The argument.
        failures: What has failed, until it is raised.
        to_raise: Makes the exception to raise of what has failed.
    """

    __slots__ = ("failures", "link", "to_raise")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.failures: list[Exception] = []
        self.to_raise: Callable[[Exception], Exception] = lambda error: error

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
            self._wait(link.queue.wait_room, timeout)
        if self.failures:
            self.raise_failure()
        if link.keeps_context:
            action = partial(InContext, contextvars.copy_context(), action)
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
            self._wait(self.link.queue.wait_done, timeout)
        self.raise_failure()

    def _wait(self, function: Callable[[], Awaitable[None]], timeout: float | None) -> None:
        session = self.link.session
        seconds = limit_of(timeout, session.settings.timeout)

        async def wait() -> None:
            async with Limit(seconds, "the call", session):
                await function()

        self.link.run(Call(wait))

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
        return self.to_raise(error)

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
        if not isinstance(error, Exception):
            return
        failure = self.take_failure()
        if failure is not None and failure is not error:
            add_note(error, f"besides, an earlier call that did not wait has failed: {failure}")


class ConfirmedSend(Call[None]):
    """A send that is over when the broker has confirmed it, after everything that was posted before.

    Where it can be written at once, it needs no task in the loop's thread. That saves a sixth of its time and of its
    processor time.

    Args:
        calls: The calls of its client.
        message: The message.
        timeout: Its ``timeout=``.
    """

    __slots__ = ("_calls", "_name", "_publication", "_seconds", "_send")

    def __init__(self, calls: Calls, message: Parts[bytes | str], timeout: float | None) -> None:
        session = calls.link.session
        self._name = f"send() to {message[0]!r}"
        self._seconds = limit_of(timeout, session.settings.timeout)

        async def send(left: float | None) -> None:
            async with Limit(limit_of(left, self._seconds), self._name, session) as limit:
                await send_confirmed(session, message, limit)

        super().__init__(calls.in_turn(send, timeout, name="send"))
        self._calls = calls
        self._send = partial(send_confirmed_at_once, session, message, self._settled)
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
            limit = Limit(self._seconds, self._name, self._calls.link.session)
            note_unconfirmed(limit, self._publication)
            self.set_error(limit.error())
            self.cancel()

    def cancel(self) -> None:
        """Do not wait for the RECEIPT any more, and do not send the message again."""
        if self._publication is None:
            super().cancel()
        else:
            self._calls.link.session.receipts.give_up(self._publication)
            self.refuse()

    def _settled(self, delivery: DeliveryStatus | None, error: StompError | None) -> None:
        if self.is_done:
            return
        if error is not None:
            mark_raised(error)
            self.set_error(renewed(error))
        elif delivery is DeliveryStatus.CONFIRMED:
            self.set_result(None)
        else:
            self.set_error(ConnectionClosed("the call was interrupted"))


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
        trace = raised(error)[2]
        try:
            thread.run(self.call)
        finally:
            if error is not None:
                # What it passed through over there is no concern of its reader.
                error.with_traceback(trace)
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
        except BaseException as other:  # noqa: ASYNC103, BLE001  # raised below
            own = other if error is None or isinstance(other, trio.Cancelled) else error
        await self._manager.__aexit__(*raised(own))
        if own is not error and own is not None:
            raise own
