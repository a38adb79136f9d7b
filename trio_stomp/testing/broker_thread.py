"""The embedded broker in its own thread, for programs that do not run on trio."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal

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

    def call(self, function: Callable[[Broker], object]) -> object:
        """Call a function with the broker, in its thread: ``call(lambda broker: broker.depth("/queue/a"))``.

        If the function is async, its result is awaited: ``call(Broker.stop_listening)`` closes the socket.
        """
        return self._portal.call(function, self._broker)


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
    """
    opened = open_broker(host=host, port=port, tls=tls, websocket=websocket, unix_socket=unix_socket, options=options)
    with (
        start_blocking_portal(backend="trio") as portal,
        portal.wrap_async_context_manager(opened) as broker,
    ):
        yield ThreadedBroker(portal, broker)
