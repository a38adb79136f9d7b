"""How asyncio code waits for the trio thread, and how the trio thread runs asyncio code.

Theory of operation. A verb that waits for the broker is a `Call` in the trio thread, and an asyncio task waits for its
end. When that task is canceled, the call is canceled, and the task goes on only when the call has ended: so a verb
keeps what it promises about cancellation. The task then gets its CancelledError in any case, even if the call came to a
result at the same moment, because asyncio tells a task only once. What the call returned goes back to where it came
from.

A verb that does not wait for the broker is added to a `Lane`, which costs no crossing. Now and then it lets other tasks
run, as the verbs do on trio.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final, Generic, TypeVar

import trio

from trio_stomp.bridge import Bridge, Call, Entered, Lane, Outcome
from trio_stomp.errors import ConnectionClosed, StompError

__all__ = ["Crossing", "Home", "enter", "leave", "stop"]

T = TypeVar("T")

# As the verbs do on trio: giving way costs more than what most of them do.
_CALLS_PER_CHECKPOINT: Final = 64


async def wait_ended(outcome: Outcome[T], interrupt: Callable[[], None]) -> None:
    """Wait until something has ended in the trio thread.

    Args:
        outcome: What comes of it.
        interrupt: Makes it end soon; called when this task is canceled.

    Cancellation: it has ended.
    """
    loop = asyncio.get_running_loop()
    canceled: asyncio.CancelledError | None = None
    try:
        while not outcome.done():
            woken: asyncio.Future[None] = loop.create_future()
            outcome.add_done_callback(partial(_wake, loop, woken))
            try:
                await woken
            except asyncio.CancelledError as error:  # noqa: ASYNC103  # raised below, once it has ended
                canceled = error
                interrupt()
    finally:
        if not outcome.done():
            # The loop was closed with this task in it.
            interrupt()
    if canceled is not None:
        try:
            raise canceled
        finally:
            # An exception that is reachable from its own traceback is garbage that only a collection frees.
            del canceled


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None], _ended: Outcome[T]) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nothing waits
        loop.call_soon_threadsafe(_set, woken)


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class Crossing:
    """The way of one object into the trio thread, for tasks of any event loop.

    Args:
        lane: For work that is done in order without waiting for it.
    """

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.bridge: Bridge = lane.bridge
        self._calls = 0

    def branch(self) -> Crossing:
        """Return a crossing with failures of its own."""
        return Crossing(self.lane.branch())

    async def at_once(self, function: Callable[[], Awaitable[T]], *, undo: Callable[[T], None] | None = None) -> T:
        """Run an async function in the trio thread.

        Args:
            function: What to run.
            undo: Is given what it returned if the task was canceled and cannot take it.

        Raises:
            ConnectionClosed: The client is closed.
            BaseException: What it raised.

        Cancellation: it was canceled, and has ended. What a function of the user's has raised goes first.
        """
        return await self.run(Call(function), undo=undo)

    async def run(self, call: Call[T], *, undo: Callable[[T], None] | None = None) -> T:
        """Begin a call in the trio thread and wait for it; see `at_once`.

        Cancellation: as `at_once`.
        """
        self.bridge.begin(call)
        try:
            await wait_ended(call.outcome, partial(self.bridge.cancel, call))
        except asyncio.CancelledError:
            error = call.outcome.exception()
            if error is None:
                if undo is not None:
                    undo(call.outcome.result())
            elif isinstance(error, Exception) and not isinstance(error, StompError):
                raise error from None  # noqa: ASYNC104  # what a function of the user's has raised goes first
            raise
        return call.outcome.result()

    async def in_turn(self, function: Callable[[], Awaitable[T]], *, raises_earlier: bool = True) -> T:
        """Run an async function in the trio thread, after everything that was added to the lane before.

        Args:
            function: What to run.
            raises_earlier: Raise what was added before and has failed, instead of running it.

        Raises:
            StompError: What was added before has failed, or this has.

        Cancellation: as `at_once`.
        """
        return await self.at_once(self.lane.in_turn(function, raises_earlier=raises_earlier))

    def must_wait(self, size: int = 0) -> bool:
        """Whether to await `wait` before something of this size is added to the lane."""
        self._calls += 1
        return self._calls >= _CALLS_PER_CHECKPOINT or self.lane.is_full(size)

    async def wait(self, size: int = 0) -> None:
        """Let other tasks run, and wait for room in the lane.

        Cancellation: nothing changes.
        """
        self._calls = 0
        await asyncio.sleep(0)
        while self.lane.is_full(size):
            await self.at_once(self.lane.wait_room)

    async def catch_up(self) -> None:
        """Wait until everything that was added to the lane is done.

        Raises:
            StompError: Something of it has failed.

        Cancellation: nothing changes.
        """
        if not self.lane.is_empty:
            await self.at_once(self.lane.wait_done)
        self.lane.raise_failure()

    async def finish(self, error: BaseException | None) -> None:
        """Wait until everything that was added is done, well or not, at the end of a block.

        Args:
            error: What the block raised; then this does not wait long.

        Cancellation: some of it may not be done.
        """
        if not self.lane.is_empty:
            with suppress(ConnectionClosed):  # then nothing can be done any more
                await self.at_once(self.lane.wait_done if error is None else self.lane.wait_shortly)
        if isinstance(error, Exception):
            self.lane.add_failure_to(error)

    @asynccontextmanager
    async def entered(
        self, manager: AbstractAsyncContextManager[T], *, outlives: bool = False, raises: bool = False
    ) -> AsyncGenerator[T]:
        """Enter an async context manager in the trio thread for the length of a block.

        Args:
            manager: The context manager.
            outlives: It may be left after the client was closed, and nothing is lost then.
            raises: Raise what was added to the lane in the block and has failed, unless the block itself has raised.

        Yields:
            What entering it returned.

        Raises:
            BaseException: What the block raised, as that same object, or else what leaving raised.

        Cancellation: it is left as by an exception.
        """
        held = Entered(self.bridge, manager, outlives=outlives)
        value = await enter(self.bridge, held)
        try:
            yield value
            await self.finish(None)
            if raises:
                self.lane.raise_failure()
        except BaseException as error:
            try:
                await self.finish(error)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            finally:
                await leave(self.bridge, held, error)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            raise
        await leave(self.bridge, held, None)


async def enter(bridge: Bridge, held: Entered[T]) -> T:
    """Enter an async context manager in the trio thread; `leave` it later.

    Cancellation: it was left again.
    """
    held.begin()
    entered = False
    try:
        await wait_ended(held.value, partial(bridge.cancel, held.call))
        value = held.value.result()
        entered = True
    finally:
        if not entered:
            bridge.cancel(held.call)
            await wait_ended(held.call.outcome, partial(bridge.cancel, held.call))  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
    return value


async def leave(bridge: Bridge, held: Entered[T], error: BaseException | None) -> None:
    """Leave an async context manager in the trio thread, with the exception of its block if that has raised.

    Raises:
        BaseException: What leaving it raised, if that is not the exception of the block.

    Cancellation: it was left as by a canceled block.
    """
    held.leave(error)
    if bridge.forked:
        return
    await wait_ended(held.call.outcome, partial(bridge.cancel, held.call))
    held.raise_outcome()


async def stop(bridge: Bridge) -> None:
    """End a bridge, and wait until everything that ran through it has ended.

    Cancellation: it has ended.
    """
    bridge.stop()
    try:
        if not bridge.forked:
            await wait_ended(bridge.stopped, bridge.stop)
    finally:
        # Nothing runs any more, so this takes no longer than the last steps of the trio thread.
        bridge.close()


class Home:
    """The event loop of the running task, for the trio thread, which runs functions of the user's there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function in a task of that loop; called in the trio thread.

        Returns:
            What it returned.

        Raises:
            RuntimeError: The loop is closed.
            BaseException: What it raised.

        Cancellation: the task was canceled, and has ended.
        """
        visit = _Visit(function)
        self._loop.call_soon_threadsafe(visit.begin, self._loop)
        try:
            await visit.ended.wait()
        finally:
            if not visit.ended.is_set():
                self._loop.call_soon_threadsafe(visit.cancel)
                with trio.CancelScope(shield=True):
                    await visit.ended.wait()
        return visit.outcome.result()


class _Visit(Generic[T]):
    """An async function that runs in a task of asyncio while the trio thread waits for it.

    Attributes:
        ended: Set in the trio thread when the task has ended.
        outcome: What it returned or raised.
    """

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        # What hooks have set for a handler, such as a span, is set in the trio thread.
        self._context = contextvars.copy_context()
        self._token = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[None] | None = None
        self.ended = trio.Event()
        self.outcome: Outcome[T] = Outcome()

    # --- in the event loop ----------------------------------------------------------------------------------------

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the task."""
        self._task = loop.create_task(self._run(), context=self._context)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel the task."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self.outcome.set_result(await self._function())
        except BaseException as error:  # noqa: ASYNC103, BLE001  # raised in the trio thread
            self.outcome.set_exception(error)

    def _end(self, _task: asyncio.Task[None]) -> None:
        if not self.outcome.done():
            # It was canceled before its first step.
            self.outcome.set_exception(asyncio.CancelledError())
        with suppress(trio.RunFinishedError):  # trio has ended
            self._token.run_sync_soon(self.ended.set)
