"""All that differs between the event loops: trio, asyncio and loops like uvloop.

The client is written for structured concurrency, and takes from anyio what that offers on both. What is on its hot
paths, or is not in anyio, is here, in two small implementations. The loop that runs decides which of them is used, at
each call: a program may run several loops in several threads.
"""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import ParamSpec, TypeVar, TypeVarTuple

import anyio
import anyio.abc

from trio_stomp.runtime.blocks import sync_context, with_usage
from trio_stomp.runtime.interface import OTHER_LOOP, ByteStream, Nursery, Runtime, Stop, Waiter, WaitQueue
from trio_stomp.runtime.interrupts import (
    awaited,
    called,
    completed,
    enable_ki_protection,
    iterated,
    protect,
    surrounded,
)
from trio_stomp.runtime.leaving import leaving
from trio_stomp.runtime.streams import AnyioStream

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

__all__ = [
    "OTHER_LOOP",
    "ByteStream",
    "Nursery",
    "Stop",
    "WaitQueue",
    "Waiter",
    "apart",
    "as_byte_stream",
    "async_context",
    "awaited",
    "background",
    "called",
    "clock",
    "completed",
    "connect",
    "current_time",
    "detached",
    "enable_ki_protection",
    "in_thread",
    "is_trio",
    "iterated",
    "leaving",
    "loop_id",
    "move_on_at",
    "new_wait_queue",
    "new_waiter",
    "open_background_nursery",
    "prepare",
    "protect",
    "require_loop",
    "socket_stream",
    "surrounded",
    "sync_context",
    "with_usage",
]

# Neither loop is imported before it runs: each takes as long as all the rest.
_on_asyncio: Runtime | None = None
_on_trio: Runtime | None = None


def is_trio() -> bool:
    """Whether the caller is a task of trio."""
    module = sys.modules.get("trio")
    return module is not None and module.lowlevel.in_trio_task()


def _current() -> Runtime:
    runtime = _on_trio if is_trio() else _on_asyncio
    return _loaded() if runtime is None else runtime


def _loaded() -> Runtime:
    global _on_asyncio, _on_trio  # noqa: PLW0603  # loaded once
    if is_trio():
        from trio_stomp.runtime import _trio  # noqa: PLC0415  # see above

        _on_trio = _trio
        return _trio
    from trio_stomp.runtime import _asyncio  # noqa: PLC0415  # see above

    _on_asyncio = _asyncio
    return _asyncio


@contextmanager
def apart() -> Generator[None]:
    """Keep cancellations in a task of a nursery apart from those of the task that holds the nursery.

    anyio (4.16) counts what scopes in the task were canceled with, if the nursery is canceled in the same moment, as if
    it was the nursery's. Where the program has canceled the holder by ``task.cancel()``, this would be taken back.
    """
    if is_trio():
        yield
        return
    raised: BaseException | None = None
    with anyio.CancelScope() as scope:
        try:
            yield
        except anyio.get_cancelled_exc_class() as error:
            raised = error
            raise
        finally:
            # A scope that is canceled and shielded takes back by itself what is counted in it.
            scope.shield = True
            scope.cancel()
    # By the same count, it may take a cancellation of the task for its own.
    if raised is not None:
        raise raised


def prepare() -> None:
    """Load what the client needs of trio if that runs here, so that Ctrl-C is held back from now on."""
    if is_trio():
        _current()


def async_context(
    call: str, usage: str
) -> Callable[[Callable[P, AsyncGenerator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Decorate an async generator function as `contextlib.asynccontextmanager` does, with hints as `with_usage` has."""

    def decorate(function: Callable[P, AsyncGenerator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        manager = asynccontextmanager(function)

        @functools.wraps(function)
        @enable_ki_protection  # `connect_stream` must come to close the stream that it is given
        def make(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
            prepare()
            return with_usage(manager(*args, **kwargs), call, usage)

        return make

    return decorate


def require_loop(call: str) -> None:
    """Check that an event loop runs here.

    Raises:
        RuntimeError: None does.
    """
    asyncio = sys.modules.get("asyncio")
    if not is_trio() and (asyncio is None or asyncio._get_running_loop() is None):  # noqa: SLF001  # documented for such use
        raise RuntimeError(
            f"{call} needs a running event loop. Call it in an async function that you start with asyncio.run(main()) "
            "or trio.run(main), or use trio_stomp.blocking.connect() in synchronous code"
        )


def loop_id() -> Callable[[], object]:
    """Return a function that tells the running loop from others; each verb calls it."""
    return _current().loop_id


def new_waiter() -> Waiter:
    """Make a Waiter for a task of the running loop."""
    return _current().new_waiter()


def new_wait_queue() -> WaitQueue:
    """Make a WaitQueue for tasks of the running loop."""
    return _current().new_wait_queue()


def clock() -> Callable[[], float]:
    """Return the clock of the running loop. Much faster than `current_time` each time."""
    return _current().clock()


def current_time() -> float:
    """Return the time of the running loop's clock, in seconds."""
    return _current().clock()()


def move_on_at(deadline: float) -> anyio.CancelScope:
    """A scope that is canceled at a time of the running loop's clock."""
    return anyio.CancelScope(deadline=deadline)


def background(function: Callable[[], Awaitable[None]]) -> AbstractAsyncContextManager[Stop]:
    """Run a function, which never raises, beside a block; it is canceled and awaited when the block ends.

    Yields:
        A function that cancels it early; any thread may call it. Once the loop has ended, it only returns False.

    Cancellation: of the block alone; the function goes on until the block has ended.
    """
    return _current().background(function)


def detached(function: Callable[[], Awaitable[None]]) -> AbstractAsyncContextManager[Stop]:
    """`background` for a block that is entered in one task and may be left in another, or never."""
    return _current().detached(function)


def open_background_nursery() -> AbstractAsyncContextManager[Nursery]:
    """Open a nursery for tasks that serve a block; they are canceled when the block ends.

    On trio, the block is left in the task that entered it, and canceled when a task fails. On asyncio, any task may
    leave it, and what a task raises is logged at once and raised when the block ends.

    Yields:
        The nursery.

    Raises:
        BaseException: The exception of the block, as that same object. If a task raised too, both in a group.

    Cancellation: the tasks are canceled and awaited.
    """
    return _current().open_background_nursery()


async def in_thread(function: Callable[[*Ts], T], /, *args: *Ts) -> T:
    """Call a function in a worker thread, and wait for its end.

    Cancellation: raised when the function has returned, so that nothing it uses is still in use; on trio, by the next
    checkpoint.
    """
    return await _current().in_thread(function, *args)


async def connect(sock: socket.socket, address: tuple[str | int | bytes, ...] | str) -> None:
    """Connect a socket, which must not block.

    Raises:
        OSError: It cannot be connected.

    Cancellation: the caller closes the socket.
    """
    await _current().connect(sock, address)


async def socket_stream(sock: socket.socket) -> ByteStream:
    """Make the stream of a connected socket, which belongs to it from then on.

    Raises:
        OSError: The connection was lost meanwhile; the socket is closed.

    Cancellation: the socket is closed.
    """
    is_made = False
    # Some systems refuse to set options of a socket whose other side has closed it.
    try:
        stream = await _current().socket_stream(sock)
        is_made = True
    finally:
        if not is_made:
            sock.close()
    return stream


def as_byte_stream(stream: object) -> ByteStream:
    """A stream of the program's, as a stream of the client.

    Raises:
        TypeError: It is no stream that the running loop can use.
    """
    if isinstance(stream, ByteStream):
        return stream
    own = _current().foreign_stream(stream)
    if own is not None:
        return own
    if isinstance(stream, anyio.abc.ByteStream):
        return AnyioStream(stream)
    raise TypeError(
        "connect_stream() takes a byte stream of anyio or, under trio.run(), one of trio; got "
        f"{type(stream).__module__}.{type(stream).__qualname__}"
    )
