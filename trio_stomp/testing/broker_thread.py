"""The embedded broker in its own thread, for synchronous programs, and for those whose event loop it must not use."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import isawaitable
from typing import TypeVar, cast, overload

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from trio_stomp.runtime import is_trio
from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions

__all__ = ["ThreadedBroker", "run_broker_in_thread"]

T = TypeVar("T")


class ThreadedBroker:
    """A broker that runs in another thread. Get one from `run_broker_in_thread`.

    Args:
        portal: Runs functions in its thread.
        broker: The broker, which only its thread may use.

    Attributes:
        url: The URL to connect to, with a valid user.
    """

    def __init__(self, portal: BlockingPortal, broker: Broker) -> None:
        self._portal = portal
        self._broker = broker
        self._calls: set[anyio.CancelScope] = set()
        self._ended = False
        self.url = broker.url

    @property
    def port(self) -> int:
        """The port that it listens on.

        Raises:
            RuntimeError: It listens on a Unix socket.
        """
        return self._broker.port

    @overload
    def call(self, function: Callable[[Broker], Awaitable[T]]) -> T: ...

    @overload
    def call(self, function: Callable[[Broker], T]) -> T: ...

    def call(self, function: Callable[[Broker], Awaitable[T] | T]) -> T:
        """Call a function with the broker, in its thread: ``call(lambda broker: broker.depth("/queue/a"))``.

        If the function is async, its result is awaited: ``call(Broker.stop_listening)`` closes the socket. The call
        blocks this thread and its event loop; to wait for something that needs the loop, await `wait_until`.
        """
        if is_trio():
            # A Trio loop must not wait for another one.
            with ThreadPoolExecutor(1) as another_thread:
                return cast("T", another_thread.submit(self._call, function).result())
        return cast("T", self._call(function))

    async def wait_until(self, condition: Callable[[Broker], bool]) -> None:
        """Wait until a condition is true, such as ``lambda broker: broker.depth("/queue/a") == 3``.

        This is for async tests, on asyncio or Trio. The condition runs in the thread of the broker, after each of its
        actions.

        Cancellation: nothing changes.
        """

        def wait(broker: Broker) -> Awaitable[None]:
            return broker.wait_until(lambda: condition(broker))

        await anyio.to_thread.run_sync(self._call, wait, abandon_on_cancel=True)

    def _call(self, function: Callable[[Broker], object]) -> object:
        return self._portal.call(self._run, function)

    # These two run in the thread of the broker.

    async def _run(self, function: Callable[[Broker], object]) -> object:
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            if self._ended:
                scope.cancel()
            try:
                result = function(self._broker)
                return await result if isawaitable(result) else result
            finally:
                self._calls.discard(scope)
        raise RuntimeError("the broker has ended")

    def _end_calls(self) -> None:
        """End the calls that wait: their callers may have given up, and the thread would wait for them."""
        self._ended = True
        for scope in self._calls:
            scope.cancel()


@contextmanager
def run_broker_in_thread(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    websocket: bool = False,
    unix_socket: str | os.PathLike[str] | None = None,
    options: BrokerOptions | None = None,
) -> Generator[ThreadedBroker]:
    """Run a STOMP broker in its own thread, for the length of a ``with`` block.

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 chooses a free one.
        tls: TLS context of the server.
        websocket: Speak STOMP over WebSocket, at any path. Requires the extra ``websocket``.
        unix_socket: Listen at this path instead of host and port.
        options: The settings. Default: `BrokerOptions()`.

    Yields:
        The broker, for use from any other thread.

    Raises:
        OSError: The port or path is not available.
        RuntimeError: This thread runs a Trio loop, which the start of the broker would block.
    """
    if is_trio():
        raise RuntimeError("run_broker_in_thread() is for code that does not run on Trio; there, use open_broker()")
    opened = open_broker(host=host, port=port, tls=tls, websocket=websocket, unix_socket=unix_socket, options=options)
    with (
        start_blocking_portal(backend="trio") as portal,
        portal.wrap_async_context_manager(opened) as broker,
    ):
        threaded = ThreadedBroker(portal, broker)
        try:
            yield threaded
        finally:
            portal.call(threaded._end_calls)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # only this function ends it
