"""What the client needs of an event loop, beyond what anyio gives at its speed.

There are two implementations: `_trio` and `_asyncio`. All other modules of the client import this package and anyio,
and neither trio nor asyncio.
"""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeAlias, TypeVar, TypeVarTuple

from anyio.abc import AsyncResource

__all__ = ["OTHER_LOOP", "ByteStream", "Nursery", "Runtime", "Stop", "WaitQueue", "Waiter"]


class ByteStream(AsyncResource):
    """A byte stream in both directions.

    One task at a time may send, and one may receive. Errors are anyio's: BrokenResourceError with the cause, or
    ClosedResourceError.

    Attributes:
        writes_now: Whether `write_now` may take anything.
        lends_reads: Whether tasks may take turns in waiting for input at no cost.
        can_send_eof: Whether `send_eof` does anything.
    """

    __slots__ = ()

    writes_now: bool = False
    lends_reads: bool = False
    can_send_eof: bool = False

    @abstractmethod
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive at least one byte; empty means the end of the stream.

        Cancellation: nothing has been received.
        """

    @abstractmethod
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes.

        Cancellation: an unknown part of them has been sent.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the stream.

        Cancellation: it is closed all the same, by force.
        """

    async def wait_writable(self) -> None:  # not every stream can tell
        """Wait until some bytes can probably be sent without waiting.

        Cancellation: nothing has happened.
        """

    async def send_eof(self) -> None:  # not every stream can
        """Tell the other side that no more bytes follow, if the stream can. It may still be read.

        Cancellation: nothing has happened, or all.
        """

    def write_now(self, _data: bytes, /) -> int:
        """Write what goes at once, without waiting; return how many bytes. Errors are left to the next `send_all`.

        No other task may be sending. After less than all, `send_all` must follow, with the rest first.
        """
        return 0

    @property
    def unwritten_bytes(self) -> int:
        """How much `write_now` and `send_all` have taken that is not written yet, or never was before it was closed."""
        return 0

    def abandon(self) -> None:  # the default is for what is no socket
        """Close the socket in a forked process and send nothing: it belongs to the other process."""


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OTHER_LOOP: Final = (
    "this client belongs to another event loop: use it in the loop in which it was opened, or open one in each loop"
)

# Cancels what runs in the background; returns False where its event loop has ended.
Stop: TypeAlias = Callable[[], bool]


class Waiter(Protocol):
    """One task that waits to be woken, again and again."""

    async def wait(self) -> None:
        """Wait until `wake` is called.

        Cancellation: it raises, also if the task was woken in the same pass of the loop; then `was_woken` is True.
        """

    def wake(self) -> bool:
        """Wake the task, once. Return whether it was waiting."""
        ...

    @property
    def was_woken(self) -> bool:
        """Whether `wake` has ended the last wait."""
        ...


class Nursery(Protocol):
    """Where tasks are started."""

    def start_soon(self, function: Callable[[*Ts], Coroutine[object, object, object]], /, *args: *Ts) -> None:
        """Start a task."""


class WaitQueue(Protocol):
    """Tasks that wait, woken in the order in which they came. A `trio.lowlevel.ParkingLot` is one."""

    def __len__(self) -> int: ...

    async def park(self) -> None:
        """Wait to be woken.

        Cancellation: a task that was woken all the same passes that on to the next one.
        """

    def unpark(self, *, count: int = 1) -> object:
        """Wake that many tasks, or all if there are fewer."""
        ...

    def unpark_all(self) -> object:
        """Wake all tasks."""
        ...


class Runtime(Protocol):
    """What one implementation offers; each is a module. The functions of the package say what they promise."""

    @property
    def loop_id(self) -> Callable[[], object]:
        """A function that tells the loop that runs here from others."""
        ...

    def new_waiter(self) -> Waiter:
        """Make a Waiter for a task of this loop."""
        ...

    def new_wait_queue(self) -> WaitQueue:
        """Make a WaitQueue for tasks of this loop."""
        ...

    def clock(self) -> Callable[[], float]:
        """Return the clock of this loop."""
        ...

    def background(self, function: Callable[[], Awaitable[None]], /) -> AbstractAsyncContextManager[Stop]:
        """Run a function beside a block."""
        ...

    def detached(self, function: Callable[[], Awaitable[None]], /) -> AbstractAsyncContextManager[Stop]:
        """`background` for a block that is entered in one task and may be left in another, or never."""
        ...

    def open_background_nursery(self) -> AbstractAsyncContextManager[Nursery]:
        """Open a nursery for tasks that serve a block."""
        ...

    def foreign_stream(self, stream: object, /) -> ByteStream | None:
        """A stream of this loop's own kind as a ByteStream; None if it is not one."""
        ...

    async def in_thread(self, function: Callable[[*Ts], T], /, *args: *Ts) -> T:
        """Call a function in a worker thread, and wait for its end."""
        ...

    async def connect(self, sock: socket.socket, address: tuple[str | int | bytes, ...] | str, /) -> None:
        """Connect a socket."""

    async def socket_stream(self, sock: socket.socket, /) -> ByteStream:
        """Make the stream of a connected socket."""
        ...
