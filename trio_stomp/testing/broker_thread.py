"""The embedded broker in its own thread, for synchronous programs, and for those whose event loop it must not use."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import TypeVar, cast, overload

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from trio_stomp.runtime import is_trio, loop_id, sync_context
from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions

__all__ = ["ThreadedBroker", "run_broker_in_thread"]

T = TypeVar("T")

_ENDED = "the broker has ended"


class _Done:
    """What a call returns that has waited already."""

    def __await__(self) -> Generator[None]:
        yield from ()


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
        self._thread = portal.call(threading.get_ident)
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
        takes as long as the function, and blocks this thread and its event loop; to wait for a condition, use
        `wait_until`.

        Raises:
            RuntimeError: The broker has ended, or its own thread calls, which would wait for itself.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError(
                "call() runs in the thread of the broker already: use the broker that the function is given"
            )
        if is_trio():
            # A Trio loop must not wait for another one.
            with ThreadPoolExecutor(1) as another_thread:
                return cast("T", another_thread.submit(self._call, function).result())
        return cast("T", self._call(function))

    def wait_until(self, condition: Callable[[Broker], bool], *, timeout: float = 10) -> Awaitable[None]:
        """Wait until a condition is true, such as ``lambda broker: broker.depth("/queue/a") == 3``.

        In a synchronous test, the call itself waits. In an async one, on asyncio or Trio, await it, so that the event
        loop of the test goes on. The condition runs in the thread of the broker, after each of its actions.

        Args:
            condition: The condition.
            timeout: Seconds to wait at most; ``math.inf`` is no limit. The thread of the broker measures them, so they
                are real ones even if the clock of the test is not.

        Raises:
            TimeoutError: The condition is still false then. The text says what the broker holds.
            RuntimeError: The broker has ended.
            TypeError: The condition is async, or the timeout is no number.
            ValueError: The timeout is negative.

        Cancellation: nothing changes.
        """

        def wait(broker: Broker) -> Awaitable[None]:
            return broker.wait_until(lambda: condition(broker), timeout=timeout)

        if loop_id()() is not None:
            return self._call_elsewhere(wait)
        self._call(wait)
        return _Done()

    async def _call_elsewhere(self, function: Callable[[Broker], object]) -> None:
        await anyio.to_thread.run_sync(self._call, function, abandon_on_cancel=True)

    def _call(self, function: Callable[[Broker], object]) -> object:
        if self._ended:
            raise RuntimeError(_ENDED)
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
        raise RuntimeError(_ENDED)

    def _end_calls(self) -> None:
        """End the calls that wait: their callers may have given up, and the thread would wait for them."""
        self._ended = True
        for scope in self._calls:
            scope.cancel()


@sync_context("run_broker_in_thread()", "with run_broker_in_thread() as broker:")
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
        TypeError: The options are no BrokerOptions, or the TLS context is something else.
        ValueError: A Unix socket cannot have TLS or WebSocket, or the TLS context is that of a client.
        ModuleNotFoundError: The extra ``websocket`` is not installed.
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
