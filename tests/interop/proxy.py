"""A TCP proxy between client and broker, which can fall silent, or cut the line, as networks do."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


class Proxy:
    """One listening port whose connections go to the broker.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._sockets: list[trio.SocketStream] = []
        self._silent = False
        self._refusing = False

    async def serve(self, near: trio.SocketStream, host: str, port: int) -> None:
        """Pass bytes on in both directions until one side ends."""
        if self._refusing:
            await near.aclose()
            return
        far = await trio.open_tcp_stream(host, port)
        assert isinstance(far, trio.SocketStream)
        self._sockets += [near, far]
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, near, far, nursery.cancel_scope)
            nursery.start_soon(self._pass_on, far, near, nursery.cancel_scope)

    async def _pass_on(self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            async for octets in source:
                if self._silent:
                    # For this connection for good; a new one speaks when the proxy does again.
                    await trio.sleep_forever()
                await target.send_all(octets)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    def fall_silent(self) -> None:
        """Pass nothing on any more, in either direction; the connections stay open."""
        self._silent = True

    def speak(self) -> None:
        """Pass bytes on again, for connections that are new."""
        self._silent = False

    def refuse(self) -> None:
        """Close new connections at once."""
        self._refusing = True

    def admit(self) -> None:
        """Take new connections again."""
        self._refusing = False

    def cut(self) -> None:
        """Reset all connections on both sides: nobody says good-bye."""
        for stream in self._sockets:
            try:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
            stream.socket.close()
        self._sockets.clear()


@asynccontextmanager
async def open_proxy(host: str, port: int) -> AsyncGenerator[Proxy]:
    """A proxy to one port of a broker, for the length of a block."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy = Proxy(int(listener.socket.getsockname()[1]))

        async def serve(stream: trio.SocketStream) -> None:
            await proxy.serve(stream, host, port)

        await nursery.start(trio.serve_listeners, serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
