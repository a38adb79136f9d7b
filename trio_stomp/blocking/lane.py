"""How the objects of this room have their verbs done: at once and waited for, or in turn and not.

Each object that can fail without being asked (a client, a transaction, a publisher) has a lane of its own, on the pump
of its client. What fails in the pump is kept in the lane, and raised by the next call there or on leaving.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeVar

import trio

from trio_stomp.blocking.caller_context import in_context
from trio_stomp.blocking.pump import Pump
from trio_stomp.blocking.trio_thread import TrioThread
from trio_stomp.errors import ConnectionClosed, StompError

__all__ = ["Finish", "Lane"]

T = TypeVar("T")

# A block that is left by Ctrl-C waits no longer than this for what it has sent and acknowledged.
_HASTE: Final = 1.0


class Lane:
    """The way from synchronous code to the verbs of one object.

    Args:
        thread: The thread of trio.
        pump: The pump of the client.
        keeps_context: Whether what is posted sees the context variables of its caller. Hooks want them, for traces;
            without hooks nobody does.
    """

    def __init__(self, thread: TrioThread, pump: Pump, *, keeps_context: bool = False) -> None:
        self.thread = thread
        self._pump = pump
        self._keeps_context = keeps_context
        self._errors: list[StompError] = []

    def catch_up(self) -> None:
        """Return when all is done that was posted before.

        Raises:
            StompError: Something of it has failed.
        """
        if self.has_posted:
            self.call(self.wait_done)
        else:
            self.raise_failure()

    def branch(self) -> Lane:
        """A lane on the same pump, with failures of its own."""
        return Lane(self.thread, self._pump, keeps_context=self._keeps_context)

    def call(self, function: Callable[[], Awaitable[T]], *, raises_earlier: bool = True) -> T:
        """Do something after all that was posted before, and wait for it.

        Args:
            function: What to do.
            raises_earlier: Raise what was posted before and has failed.

        Raises:
            StompError: What was posted before has failed, or this has.
        """
        newest = self._pump.newest

        async def in_turn() -> T:
            await self._pump.wait_done(newest)
            if raises_earlier:
                self.raise_failure()
            return await function()

        return self.thread.call(in_turn)

    def post(self, action: Callable[[], Awaitable[object]], octets: int = 0) -> int:
        """Have something done in its turn, without waiting for it.

        Returns:
            Its number, for `is_done`.

        Raises:
            StompError: What was posted before has failed.
        """
        if self._errors:
            self.raise_failure()
        if self._keeps_context:
            action = in_context(contextvars.copy_context(), action)
        return self._pump.add(action, octets, self._errors.append)

    def is_done(self, number: int) -> bool:
        """Whether what was posted under a number, and all before it, is done."""
        return self._pump.is_done(number)

    def raise_failure(self) -> None:
        """Raise what was posted and has failed, once.

        Raises:
            StompError: That.
        """
        error = self.take_failure()
        if error is not None:
            raise error

    def take_failure(self) -> StompError | None:
        """What was posted and has failed first, once."""
        if not self._errors:
            return None
        error = self._errors[0]
        self._errors.clear()
        error.add_note("an earlier call that did not wait, such as send() or ack(), has failed")
        return error

    @property
    def has_posted(self) -> bool:
        """Whether something waits to be done."""
        return not self._pump.is_done(self._pump.newest)

    async def wait_done(self) -> None:
        """Wait, in the thread of trio, until all is done that was posted before.

        Cancellation: nothing changes.
        """
        await self._pump.wait_done(self._pump.newest)


class Finish:
    """A block at whose end all that was posted in it is done, well or not.

    Args:
        lane: Where it was posted.
        raises: Raise what has failed of it, where the block itself has not raised.
    """

    def __init__(self, lane: Lane, *, raises: bool = False) -> None:
        self._lane = lane
        self._raises = raises

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the end of what was posted, and not long when the block was left by Ctrl-C."""
        lane = self._lane
        with suppress(ConnectionClosed):  # then nothing can be done any more
            if lane.has_posted:
                lane.thread.call(self._wait if error is None or isinstance(error, Exception) else self._wait_shortly)
        if error is None and self._raises:
            lane.raise_failure()
        elif isinstance(error, Exception):
            failure = lane.take_failure()
            if failure is not None and failure is not error:
                error.add_note(f"besides, an earlier call that did not wait has failed: {failure}")

    async def _wait(self) -> None:
        await self._lane.wait_done()

    async def _wait_shortly(self) -> None:
        with trio.move_on_after(_HASTE):
            await self._lane.wait_done()
