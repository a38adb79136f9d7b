"""A TCP proxy in front of the broker that can cut its connections."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

__all__ = ["FaultyProxy", "open_faulty_proxy"]

# SO_LINGER on, 0 seconds: closing sends RST, as if the machine had failed.
_RESET: Final = struct.pack("ii", 1, 0)


class FaultyProxy:
    """One listening port whose connections go to the broker. Get one from `open_faulty_proxy`.

    Attributes:
        port: Its port on the loopback interface.
        cuts: The number of connections cut so far.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.cuts = 0
        self._pairs: list[tuple[trio.SocketStream, trio.SocketStream]] = []

    async def serve(self, near: trio.SocketStream, host: str, port: int) -> None:
        """Forward data in both directions until one side ends.

        Cancellation: both connections are closed.
        """
        async with near:
            try:
                far = await trio.open_tcp_stream(host, port)
            except OSError:
                # The broker is down; so is this connection to it.
                return
            pair = (near, far)
            self._pairs.append(pair)
            async with far, trio.open_nursery() as nursery:
                nursery.start_soon(_pass_on, near, far, nursery.cancel_scope)
                nursery.start_soon(_pass_on, far, near, nursery.cancel_scope)
            if pair in self._pairs:
                self._pairs.remove(pair)

    def cut_all(self) -> int:
        """Reset all connections on both sides; returns how many there were."""
        pairs, self._pairs = self._pairs, []
        for stream in (each for pair in pairs for each in pair):
            # One side may just have closed.
            with suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            stream.socket.close()
        self.cuts += len(pairs)
        return len(pairs)


async def _pass_on(source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for data in source:
            await target.send_all(data)
    scope.cancel()


@asynccontextmanager
async def open_faulty_proxy(host: str, port: int) -> AsyncGenerator[FaultyProxy]:
    """Run a proxy to one port of a broker for the length of a block.

    Cancellation: all connections are closed.
    """
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        name: tuple[str, int] = listener.socket.getsockname()
        proxy = FaultyProxy(name[1])

        async def serve(stream: trio.SocketStream) -> None:
            await proxy.serve(stream, host, port)

        await nursery.start(trio.serve_listeners, serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
