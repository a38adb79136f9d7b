"""The runtime on asyncio, and on loops like uvloop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, TypeVarTuple, cast

import anyio
import anyio.abc
import anyio.to_thread

from trio_stomp.runtime.interface import OTHER_LOOP, ByteStream, Nursery, Stop, WaitQueue
from trio_stomp.runtime.leaving import leaving

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

__all__ = [
    "Background",
    "BackgroundNursery",
    "SocketStream",
    "Waiter",
    "background",
    "clock",
    "connect",
    "detached",
    "foreign_stream",
    "in_thread",
    "loop_id",
    "new_wait_queue",
    "new_waiter",
    "open_background_nursery",
    "socket_stream",
]

# The loop that runs here, or None. Without an exception, because each verb asks.
loop_id: Final = asyncio._get_running_loop  # noqa: SLF001  # documented for such use

_log: Final = logging.getLogger("trio_stomp")

# Above this, the loop stops reading until the reader has taken what is here.
_MOST_UNREAD_BYTES: Final = 64 * 1024


class Waiter:
    """One task that waits to be woken."""

    __slots__ = ("_future", "was_woken")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self.was_woken = False

    async def wait(self) -> None:
        """Wait until `wake` is called."""
        future = asyncio.get_running_loop().create_future()
        self._future, self.was_woken = future, False
        try:
            await future
        finally:
            self._future = None

    def wake(self) -> bool:
        """Wake the task, once. Return whether it was waiting."""
        future = self._future
        if future is None or future.done():
            return False
        self.was_woken = True
        future.set_result(None)
        return True


class _WaitQueue:
    """Tasks that wait, woken in the order in which they came."""

    __slots__ = ("_loop", "_parked")

    def __init__(self) -> None:
        # None where none runs yet; then that of the first task that waits.
        self._loop: asyncio.AbstractEventLoop | None = asyncio._get_running_loop()  # noqa: SLF001  # as `trio_stomp.runtime.running_loop`
        self._parked: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parked)

    async def park(self) -> None:
        """Wait to be woken."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif loop is not self._loop:
            raise RuntimeError(OTHER_LOOP)
        future = loop.create_future()
        self._parked[future] = None
        try:
            await future
        except BaseException:
            # A task that is canceled in the pass of the loop in which it was woken does not come to what it was woken
            # for. Trio has no such case.
            self._parked.pop(future, None)
            if future.done() and not future.cancelled():
                self.unpark()
            raise

    def unpark(self, *, count: int = 1) -> None:
        """Wake that many tasks, or all if there are fewer."""
        parked = self._parked
        while count > 0 and parked:
            future, _ = parked.popitem(last=False)
            # A task that was canceled has not run since, and is not waiting any more.
            if not future.done():
                future.set_result(None)
                count -= 1

    def unpark_all(self) -> None:
        """Wake all tasks."""
        self.unpark(count=len(self._parked))


def new_waiter() -> Waiter:
    """Make a Waiter for a task of this loop."""
    return Waiter()


def new_wait_queue() -> WaitQueue:
    """Make a queue for tasks of this loop."""
    return _WaitQueue()


def clock() -> Callable[[], float]:
    """Return the clock of this loop."""
    return asyncio.get_running_loop().time


class Background:
    """Runs a function, which never raises, beside a block; it is canceled and awaited when the block ends.

    It runs in a task of its own, so that the block may be entered in one task and left in another, or never.

    A program may cancel all tasks, and a loop that ends does. One that has not begun then runs nothing, not even its
    cleanup, and if it is one of anyio's, Python warns of a coroutine that was never awaited. So the function, and the
    tasks that it starts at once, have begun when the block is entered.
    """

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._function = function
        self._scope = anyio.CancelScope()
        self._has_begun = False

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="trio_stomp connection")

    async def _run(self) -> None:
        self._has_begun = True
        # Unlike a canceled task, a canceled scope lets the function come to its first await, and so to its cleanup.
        with self._scope:
            await self._function()

    async def __aenter__(self) -> Stop:
        """Begin.

        Cancellation: the function is canceled and awaited.
        """
        self._start()
        is_entered = False
        try:
            while not self._has_begun:
                if self._task.done():
                    self._start()
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # the tasks that it starts at once
            is_entered = True
        finally:
            if not is_entered:
                await self.__aexit__(asyncio.CancelledError)  # noqa: ASYNC102  # it shields itself
                if not self._has_begun:
                    # Its task was canceled, as another one would be by a program that goes on canceling all of them:
                    # the function comes to its cleanup in this one.
                    with suppress(asyncio.CancelledError):
                        await self._run()  # noqa: ASYNC102  # its scope is canceled
        return partial(_cancel_soon, asyncio.get_running_loop(), self._scope)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Cancel the function, and wait for its end.

        Cancellation: raised after that, unless the block has raised already.
        """
        self._scope.cancel()
        canceled = await _until_done(self._task)  # noqa: ASYNC102  # it ends by itself
        if kind is None and canceled is not None:
            raise canceled


async def _until_done(task: asyncio.Task[T]) -> asyncio.CancelledError | None:
    """Wait for the end of a task, even when canceled; return the cancellation, for the caller to raise."""
    canceled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:  # noqa: ASYNC103  # the caller raises it
            canceled = error
    return canceled


background = detached = Background


def _cancel_soon(loop: asyncio.AbstractEventLoop, scope: anyio.CancelScope) -> bool:
    try:
        loop.call_soon_threadsafe(scope.cancel)
    except RuntimeError:  # it is closed
        return False
    return True


class BackgroundNursery:
    """A nursery for tasks that serve a block; they are canceled when the block ends.

    The block may be entered in one task and left in another. Therefore a task that fails ends the other ones, but does
    not cancel the block.
    """

    def __init__(self) -> None:
        self._background = Background(self._run)
        self._group: anyio.abc.TaskGroup | None = None
        self._failure: BaseExceptionGroup[BaseException] | None = None

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as self._group:
                await anyio.sleep_forever()
        except* Exception as failure:  # noqa: BLE001  # raised when the block ends
            self._failure = failure
            _log.exception("a background task has failed; its block is told when it ends")

    def start_soon(self, function: Callable[[*Ts], Coroutine[object, object, object]], /, *args: *Ts) -> None:
        """Start a task."""
        if self._group is None:
            raise AssertionError
        self._group.start_soon(function, *args)

    async def __aenter__(self) -> Nursery:
        """Begin."""
        await self._background.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, own: BaseException | None, *_: object) -> None:
        """Cancel the tasks, and wait for their end.

        Raises:
            BaseException: What a task raised; if the block has raised too, both in a group.

        Cancellation: raised after that, unless the block has raised already.
        """
        await self._background.__aexit__(kind)  # noqa: ASYNC102  # it shields itself
        failure, self._failure = self._failure, None
        left = None if failure is None else leaving(own, failure)
        if left is not None and left is not own:
            try:
                raise left
            finally:
                # An exception that is reachable from its own traceback is garbage that only a collection frees.
                del own, left, failure


open_background_nursery = BackgroundNursery


async def in_thread(function: Callable[[*Ts], T], /, *args: *Ts) -> T:
    """Call a function in a worker thread, and wait for its end."""
    task = asyncio.create_task(anyio.to_thread.run_sync(function, *args))
    canceled = None
    # The scope keeps anyio from canceling this in each pass of the loop until the thread has ended.
    with anyio.CancelScope(shield=True):
        canceled = await _until_done(task)
    if canceled is not None:
        # What the function raised has no caller any more, and asyncio must not complain that it was not looked at.
        with suppress(asyncio.CancelledError):
            task.exception()
        raise canceled
    return task.result()


# --- streams ----------------------------------------------------------------------------------------------------------


class SocketStream(asyncio.Protocol, ByteStream):
    """A socket that the loop reads and writes.

    Theory of operation. The loop calls `data_received` with what it has read, and this keeps it until the reader takes
    it; above a bound, the loop is told to stop reading. Writes go to the socket at once. With a bound of 0, the loop
    says so as soon as something is left over, and sending then waits until the operating system has taken it.
    """

    __slots__ = (
        "_buffered",
        "_chunks",
        "_closed",
        "_end",
        "_is_paused",
        "_left_over",
        "_never_written",
        "_reader",
        "_transport",
        "_writable",
    )

    writes_now = True
    can_send_eof = True

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._is_paused = False
        # None while it is open; else the error that ended it, or an EndOfStream.
        self._end: Exception | None = None
        self._closed = False
        # What the last write has left over; 0 when the operating system has taken all. A loop forgets it at an error.
        self._left_over = 0
        # What was left over when it was closed.
        self._never_written = 0
        self._reader = Waiter()
        self._writable: asyncio.Future[None] | None = None

    # --- called by the loop -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Keep what came for the reader."""
        self._chunks.append(data)
        self._buffered += len(data)
        if self._buffered >= _MOST_UNREAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._reader.wake()

    def eof_received(self) -> bool:
        """The peer sends no more; it may still read."""
        self._ended(anyio.EndOfStream())
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._ended(exc or anyio.EndOfStream())
        self._wake_sender()

    def pause_writing(self) -> None:
        """Something is left over: sending waits."""
        self._writable = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._left_over = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """The operating system has taken all."""
        self._left_over = 0
        self._wake_sender()

    def _wake_sender(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _ended(self, end: Exception) -> None:
        if self._end is None or isinstance(self._end, anyio.EndOfStream):
            self._end = end
        self._reader.wake()

    # --- called by the client -----------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive at least one byte; empty means the end of the stream."""
        while not self._chunks:
            if self._closed:
                raise anyio.ClosedResourceError("this stream is closed")
            if self._end is not None:
                if isinstance(self._end, anyio.EndOfStream):
                    return b""
                raise anyio.BrokenResourceError(str(self._end)) from self._end
            await self._reader.wait()
        data = self._chunks.popleft()
        if max_bytes is not None and len(data) > max_bytes:
            self._chunks.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        self._buffered -= len(data)
        if self._is_paused and self._buffered < _MOST_UNREAD_BYTES and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def write_now(self, data: bytes, /) -> int:
        """Write at once, unless something is left over from the last time."""
        transport = self._transport
        if transport is None or self._writable is not None or transport.is_closing():
            return 0
        transport.write(data)
        return len(data)

    @property
    def unwritten_bytes(self) -> int:
        """How much was left over, and is not written yet."""
        if self._closed or self._transport is None:
            return self._never_written
        return self._transport.get_write_buffer_size() or self._left_over

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        await self.wait_writable()
        if self._transport is None:
            raise AssertionError
        self._transport.write(data)
        if self._writable is not None or self._transport.is_closing():
            await self.wait_writable()

    async def wait_writable(self) -> None:
        """Wait until the operating system has taken all."""
        while self._writable is not None:
            await asyncio.shield(self._writable)
        if self._closed:
            raise anyio.ClosedResourceError("this stream is closed")
        if self._transport is None or self._transport.is_closing():
            error = None if isinstance(self._end, anyio.EndOfStream) else self._end
            raise anyio.BrokenResourceError(str(error or "the link is broken")) from error

    async def send_eof(self) -> None:
        """Send what was written, and then the end."""
        await self.wait_writable()
        if self._transport is not None:
            try:
                self._transport.write_eof()
            except OSError as error:  # the other end has reset the link, and asyncio has not noticed it yet
                raise anyio.BrokenResourceError(str(error)) from error

    async def aclose(self) -> None:
        """Close the stream, after what was written is sent."""
        transport, self._closed = self._transport, True
        self._reader.wake()
        if transport is None:
            return
        try:
            transport.close()
            while self._writable is not None:
                await asyncio.shield(self._writable)
            # The loop closes the socket in its next pass.
            await asyncio.sleep(0)
        finally:
            self._never_written = self._never_written or transport.get_write_buffer_size() or self._left_over
            transport.abort()


def foreign_stream(_stream: object, /) -> ByteStream | None:
    """None: asyncio's own streams come in pairs, which `connect_stream` does not take."""
    return None


async def connect(sock: socket.socket, address: tuple[str | int | bytes, ...] | str) -> None:
    """Connect a socket."""
    await asyncio.get_running_loop().sock_connect(sock, address)


async def socket_stream(sock: socket.socket) -> ByteStream:
    """Make the stream of a connected socket."""
    _, stream = await asyncio.get_running_loop().create_connection(SocketStream, sock=sock)
    return stream
