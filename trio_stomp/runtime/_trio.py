"""The runtime on trio."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

import anyio
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled

from trio_stomp.runtime.interface import ByteStream, Stop, WaitQueue
from trio_stomp.runtime.interrupts import tell_trio
from trio_stomp.runtime.leaving import leaving
from trio_stomp.runtime.readers import Readers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

__all__ = [
    "Detached",
    "ForeignStream",
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


class Waiter:
    """One task that waits to be woken. A ParkingLot makes more calls, and this comes with each confirmed message."""

    __slots__ = ("_task", "was_woken")

    def __init__(self) -> None:
        self._task: Task | None = None
        self.was_woken = False

    async def wait(self) -> None:
        """Wait until `wake` is called."""
        self._task, self.was_woken = current_task(), False
        await wait_task_rescheduled(self._abort)

    def wake(self) -> bool:
        """Wake the task, once. Return whether it was waiting."""
        task, self._task = self._task, None
        if task is None:
            return False
        self.was_woken = True
        reschedule(task)
        return True

    def _abort(self, _raise_cancel: RaiseCancelT) -> Abort:
        # It runs next, with the exception; trio allows no other task to wake it.
        self._task = None
        return Abort.SUCCEEDED


def new_waiter() -> Waiter:
    """Make a Waiter for a task of this loop."""
    return Waiter()


def new_wait_queue() -> WaitQueue:
    """Make a queue for tasks of this run."""
    return trio.lowlevel.ParkingLot()


def clock() -> Callable[[], float]:
    """Return the clock of this run, with fewer calls than ``trio.current_time``."""
    return trio.lowlevel.current_clock().current_time


@asynccontextmanager
async def background(function: Callable[[], Awaitable[None]]) -> AsyncGenerator[Stop]:
    """Run a function, which never raises, beside a block; it is canceled and awaited when the block ends.

    It is shielded: a block that shields its last steps from a cancellation still needs it.
    """
    scope = trio.CancelScope(shield=True)
    token = trio.lowlevel.current_trio_token()

    async def run() -> None:
        with scope:
            await function()

    async with open_background_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield partial(_cancel_soon, token, scope)
        finally:
            scope.cancel()


@asynccontextmanager
async def open_background_nursery() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for tasks that serve a block; they are canceled when the block ends."""
    own: BaseException | None = None
    group: BaseExceptionGroup[BaseException] | None = None
    passed_through = False
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as error:  # noqa: ASYNC103  # raised below, outside of the nursery
                own = error
                passed_through = nursery.cancel_scope.cancel_called
                if passed_through:
                    # A task has raised, and that canceled the block. Only the nursery can distinguish its own
                    # `Cancelled` from one that belongs to a scope around it.
                    raise
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as caught:
        group = caught
    if passed_through and (group is None or all(member is not own for member in group.exceptions)):
        # The nursery has removed its `Cancelled` from it; the rest, if any, is in the group.
        own = None
    # Outside of the handlers, so that it keeps its context.
    left = leaving(own, group)
    if left is not None:
        try:
            raise left
        finally:
            # An exception that is reachable from its own traceback is garbage that only a collection frees.
            del own, group, left


class Detached:
    """`background` for a block that is entered in one task and may be left in another, or never.

    The function runs in a task of the system's, so trio cancels it when the main task has ended.
    """

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._function = function
        self._scope, self._ended = trio.CancelScope(), trio.Event()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._function()
        finally:
            self._ended.set()

    async def __aenter__(self) -> Stop:
        """Begin."""
        trio.lowlevel.spawn_system_task(self._run, name="trio_stomp connection", context=copy_context())
        return partial(_cancel_soon, trio.lowlevel.current_trio_token(), self._scope)

    async def __aexit__(self, *_: object) -> None:
        """Cancel the function, and wait for its end."""
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()


detached = Detached


def _cancel_soon(token: trio.lowlevel.TrioToken, scope: trio.CancelScope) -> bool:
    try:
        token.run_sync_soon(scope.cancel)
    except trio.RunFinishedError:
        return False
    return True


async def in_thread(function: Callable[[*Ts], T], /, *args: *Ts) -> T:
    """Call a function in a worker thread, and wait for its end."""
    return await trio.to_thread.run_sync(function, *args)


# --- streams ----------------------------------------------------------------------------------------------------------


class ForeignStream(ByteStream):
    """A stream of trio, with anyio's errors.

    Args:
        stream: The stream.
    """

    __slots__ = ("can_send_eof", "stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.can_send_eof = isinstance(stream, trio.abc.HalfCloseableStream)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive at least one byte; empty means the end of the stream."""
        try:
            return await self.stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError) as error:
            raise _converted(error) from (error.__cause__ or error)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError) as error:
            raise _converted(error) from (error.__cause__ or error)

    async def wait_writable(self) -> None:
        """Wait until some bytes can probably be sent without waiting."""
        try:
            await self.stream.wait_send_all_might_not_block()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError) as error:
            raise _converted(error) from (error.__cause__ or error)

    async def send_eof(self) -> None:
        """Send the end."""
        if not isinstance(self.stream, trio.abc.HalfCloseableStream):
            return
        try:
            await self.stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError) as error:
            raise _converted(error) from (error.__cause__ or error)

    async def aclose(self) -> None:
        """Close the stream."""
        await self.stream.aclose()


def _converted(
    error: trio.BrokenResourceError | trio.ClosedResourceError | trio.BusyResourceError,
) -> anyio.BrokenResourceError | anyio.ClosedResourceError | anyio.BusyResourceError:
    if isinstance(error, trio.BrokenResourceError):
        return anyio.BrokenResourceError(str(error) or "the link is broken")
    if isinstance(error, trio.ClosedResourceError):
        return anyio.ClosedResourceError("this stream is closed")
    return anyio.BusyResourceError("using")


class SocketStream(ForeignStream):
    """A plain socket, read and written without trio's stream layer where that shortens round trips.

    ``send_all`` needs a task that waits in it, and trio's ``receive_some`` makes two system calls for data that is not
    there yet. Neither matters for bulk traffic; both matter for a single request and its reply.

    Args:
        stream: The stream of trio.
    """

    __slots__ = ("_readers", "_socket")

    writes_now = True
    lends_reads = True

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self._socket = stream.socket
        self._readers = Readers.of_this_run()

    def write_now(self, data: bytes, /) -> int:
        """Write what the operating system accepts at once; return how many bytes."""
        try:
            # Sockets of trio never block. fileno() each time: after closing, the number may belong to another file.
            return os.write(self._socket.fileno(), data)
        except OSError:
            # Full or broken: the writer task will wait, or see the error.
            return 0

    def abandon(self) -> None:
        """Close the socket in a forked process and send nothing."""
        if self._socket.fileno() >= 0:
            os.close(self._socket.detach())

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive at least one byte; empty means the end of the stream."""
        readers, sock = self._readers, self._socket
        while True:
            number = sock.fileno()
            if number < 0:
                raise anyio.ClosedResourceError("this stream is closed")
            try:
                # Usually nothing is there, because the last read took everything: so wait first.
                await trio.lowlevel.wait_readable(number)
            except trio.ClosedResourceError as error:
                raise _converted(error) from error
            if not readers.may_read(self):
                await readers.turn()
            try:
                data = os.read(sock.fileno(), _CHUNK_BYTES if max_bytes is None else max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError(os.strerror(error.errno or 0)) from error
            readers.count(self, len(data))
            return data


_CHUNK_BYTES: Final = 64 * 1024


def foreign_stream(stream: object) -> ByteStream | None:
    """A stream of trio as a ByteStream; None if it is not one."""
    # A subclass may transform the bytes. Windows does not read and write sockets like files.
    if type(stream) is trio.SocketStream and sys.platform != "win32":
        return SocketStream(stream)
    return ForeignStream(stream) if isinstance(stream, trio.abc.Stream) else None


async def connect(sock: socket.socket, address: tuple[str | int | bytes, ...] | str) -> None:
    """Connect a socket."""
    await trio.socket.from_stdlib_socket(sock).connect(address)


async def socket_stream(sock: socket.socket | trio.socket.SocketType) -> ByteStream:  # noqa: ASYNC124  # one of two implementations
    """Make the stream of a connected socket."""
    own = sock if isinstance(sock, trio.socket.SocketType) else trio.socket.from_stdlib_socket(sock)
    stream = trio.SocketStream(own)
    return SocketStream(stream) if sys.platform != "win32" else ForeignStream(stream)


# Here `trio.run` and the thread are the same.
loop_id: Final = threading.get_ident

# It is imported when the first client is about to be opened.
tell_trio()
