"""STOMP over WebSocket, the broker's side: on trio-websocket. Imported only by a broker that is told to speak it.

The client of this library has its own way on wsproto; that the two understand each other says something of both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio
import trio_websocket

__all__ = ["WebSocketLink", "serve_websocket"]

# The highest first, as RabbitMQ chooses.
_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")

_CHUNK_OCTETS: Final = 64 * 1024


class WebSocketLink(trio.abc.Stream):
    """The octets that go through a WebSocket.

    Args:
        connection: The WebSocket, open.
    """

    def __init__(self, connection: trio_websocket.WebSocketConnection) -> None:
        self._connection = connection
        self._unread = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send octets as one message: text where they are UTF-8, so that a client meets both kinds.

        Cancellation: an unknown part of them has been sent.
        """
        octets = bytes(data)
        try:
            message: bytes | str = octets.decode()
        except UnicodeDecodeError:
            message = octets
        try:
            await self._connection.send_message(message)
        except trio_websocket.ConnectionClosed as error:
            raise trio.BrokenResourceError("the WebSocket is closed") from error

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: trio-websocket cannot tell.

        Cancellation: nothing has happened.
        """
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive what is there of the messages; nothing is the end, however it came.

        Cancellation: nothing has been received.
        """
        await trio.lowlevel.checkpoint()
        while not self._unread:
            try:
                message = await self._connection.get_message()
            except trio_websocket.ConnectionClosed:
                return b""
            self._unread = message.encode() if isinstance(message, str) else message
        octets = self._unread if max_bytes is None else self._unread[:max_bytes]
        self._unread = self._unread[len(octets) :]
        return octets

    async def aclose(self) -> None:
        """Close the WebSocket in order.

        Cancellation: it is closed at once.
        """
        await self._connection.aclose()


async def serve_websocket(
    transport: trio.abc.Stream,
    serve: Callable[[trio.abc.Stream], Awaitable[None]],
    *,
    message_octets: int,
    timeout: float,
) -> None:
    """Do the opening handshake, at any path, and serve what comes through.

    Args:
        transport: What carries the WebSocket.
        serve: Serves the octets.
        message_octets: A longer message ends the connection.
        timeout: Seconds for the handshake.

    Cancellation: the transport is closed at once.
    """
    try:
        async with trio.open_nursery() as nursery:
            link: WebSocketLink | None = None
            with trio.move_on_after(timeout):
                request = await trio_websocket.wrap_server_stream(
                    nursery, transport, max_message_size=message_octets, receive_buffer_size=_CHUNK_OCTETS
                )
                proposed = request.proposed_subprotocols
                chosen = next((name for name in _SUBPROTOCOLS if name in proposed), None)
                link = WebSocketLink(await request.accept(subprotocol=chosen))
            if link is not None:
                await serve(link)
            nursery.cancel_scope.cancel()
    except* (trio_websocket.ConnectionClosed, trio_websocket.HandshakeError):
        pass  # the client has gone, before or in the middle of something
    finally:
        await trio.aclose_forcefully(transport)
