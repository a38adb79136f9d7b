"""Where an embedded broker listens: TCP, with TLS or without, WebSocket over that, or a Unix socket."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.lowlevel

from trio_stomp.runtime import ByteStream, Nursery
from trio_stomp.testing.checks import require, require_type
from trio_stomp.testing.sockets import Listener, open_tcp_listeners, open_unix_listener
from trio_stomp.testing.tls_link import TlsLink

__all__ = ["NO_HOST", "Address", "Listening"]

# RFC 2606 keeps .invalid from ever naming a host. The error of a client that looks it up says what to use instead.
NO_HOST = "use-connect-stream.invalid"
_NO_PORT = 61613

Serve = Callable[[ByteStream], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an embedded broker listens, and with which transport.

    Attributes:
        listen: Open a socket at all.
        host: The address to listen on.
        port: The port; 0 chooses a free one.
        tls: TLS context of the server.
        websocket: Speak STOMP over WebSocket.
        unix_socket: The path of a Unix socket, instead of host and port.

    Raises:
        TypeError: The TLS context is something else.
        ValueError: A Unix socket cannot have TLS or WebSocket, or the TLS context is that of a client.
    """

    listen: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    websocket: bool = False
    unix_socket: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        server_context = "a server's context, such as ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)"
        require_type("tls", self.tls, ssl.SSLContext | None, server_context)
        # Otherwise each client sees only that its handshake fails.
        is_client = self.tls is not None and self.tls.protocol is ssl.PROTOCOL_TLS_CLIENT
        require(not is_client, "tls", server_context, self.tls)
        if self.unix_socket is not None and (self.tls is not None or self.websocket):
            raise ValueError("a Unix socket carries STOMP alone: leave out tls= and websocket=")

    def url(self, login: str, passcode: str) -> str:
        """Return the URL to connect to; without a socket, one that does not work."""
        user = f"{quote(login, safe='')}:{quote(passcode, safe='')}@"
        if not self.listen:
            return f"{'stomp' if self.tls is None else 'stomps'}://{user}{NO_HOST}:{_NO_PORT}"
        if self.unix_socket is not None:
            return f"stomp+unix://{user}{quote(str(Path(self.unix_socket).absolute()))}"
        scheme = ("ws" if self.tls is None else "wss") if self.websocket else "stomp" if self.tls is None else "stomps"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{user}{host}:{self.port}{'/ws' if self.websocket else ''}"


class Listening:
    """The socket of a broker, which can be closed and opened again.

    Args:
        nursery: Where its connections are served.
        address: Where to listen.
        serve: Serves one connection, TLS included.

    Attributes:
        address: Where it listens, with the port that it got.
    """

    def __init__(self, nursery: Nursery, address: Address, serve: Serve) -> None:
        self.address = address
        self._nursery = nursery
        self._serve = serve
        self._scope: anyio.CancelScope | None = None
        self._stopped = anyio.Event()
        self._stopped.set()

    @property
    def port(self) -> int:
        """The port. It stays the same when listening stops and starts again.

        Raises:
            RuntimeError: There is none.
        """
        if not self.address.listen:
            raise RuntimeError("this broker was opened with listen=False; use connect_stream()")
        if self.address.unix_socket is not None:
            raise RuntimeError("this broker listens on a Unix socket, which has no port; use its url")
        return self.address.port

    async def start(self) -> None:
        """Open the socket. Does nothing if it is open.

        Raises:
            RuntimeError: The broker was opened without a socket.
            OSError: The port or path is not available.

        Cancellation: it may or may not listen.
        """
        if self._scope is not None:
            await anyio.lowlevel.checkpoint()
            return
        if not self.address.listen:
            raise RuntimeError("this broker was opened with listen=False; it has no address to listen on")
        listeners = await self._open()
        self._scope = anyio.CancelScope()
        self._stopped = anyio.Event()
        self._nursery.start_soon(self._listen, listeners, self._scope, self._stopped)

    async def _open(self) -> list[Listener]:
        address = self.address
        if address.unix_socket is not None:
            return [open_unix_listener(os.fspath(address.unix_socket))]
        listeners = await open_tcp_listeners(address.host, address.port)
        self.address = replace(address, port=listeners[0].port)
        return listeners

    async def _listen(self, listeners: list[Listener], scope: anyio.CancelScope, stopped: anyio.Event) -> None:
        try:
            with scope:
                async with anyio.create_task_group() as accepting:
                    for listener in listeners:
                        accepting.start_soon(self._accept, listener)
        finally:
            for listener in listeners:
                listener.close()
            self._remove()
            stopped.set()

    def _remove(self) -> None:
        """Remove the file of a closed Unix socket, which would prevent listening again."""
        if self.address.unix_socket is not None:
            Path(self.address.unix_socket).unlink(missing_ok=True)

    async def _accept(self, listener: Listener) -> None:
        tls = self.address.tls
        while True:
            stream = await listener.accept()
            self._nursery.start_soon(self._serve, stream if tls is None else TlsLink(stream, tls))

    async def stop(self) -> None:
        """Close the socket, so that the system refuses new connections. Open connections stay open.

        Cancellation: it has stopped, or stops at once.
        """
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None
        # The task that listens closes the socket when it sees that it is canceled.
        await self._stopped.wait()
