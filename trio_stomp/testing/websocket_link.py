"""STOMP over WebSocket, the broker's side, on wsproto. Imported only by brokers with websocket=True.

Memory: messages are not assembled. Each part is passed on at once, so the limits of the broker apply as on any other
stream. h11 bounds the opening handshake (16 KiB of headers).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import anyio
import anyio.lowlevel
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from trio_stomp.runtime import ByteStream
from trio_stomp.testing.origins import is_welcome

__all__ = ["WebSocketLink"]

# The highest first, as RabbitMQ chooses.
_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")

_CHUNK_BYTES: Final = 64 * 1024
# A client that has not answered our Close by then will not.
_CLOSE_SECONDS: Final = 1.0


class WebSocketLink(ByteStream):
    """The bytes that go through a WebSocket, at any path. The first call does the opening handshake.

    Args:
        transport: What carries the WebSocket.
        tls: Whether that is TLS.
        host: The host that the broker listens on.
        origins: The origins of web pages that may connect, besides the broker's own.
    """

    def __init__(
        self, transport: ByteStream, *, tls: bool = False, host: str = "localhost", origins: Collection[str] = ()
    ) -> None:
        self._transport = transport
        self._tls = tls
        self._host = host
        self._origins = origins
        self._session = WSConnection(ConnectionType.SERVER)
        # Held for the handshake too.
        self._sending = anyio.Lock()
        self._unread = bytearray()
        self._pong: Pong | None = None
        self._goodbye = CloseConnection(code=CloseReason.NORMAL_CLOSURE)
        self._ended = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes as one message: text if they are UTF-8, otherwise binary, so that clients see both kinds.

        Cancellation: an unknown part of them has been sent, and no more can be sent.
        """
        try:
            message: TextMessage | BytesMessage = TextMessage(data=bytes(data).decode())
        except UnicodeDecodeError:
            message = BytesMessage(data=bytes(data))
        async with self._sending:
            await self._shake_hands()
            try:
                encoded = self._session.send(message)
            except LocalProtocolError as error:
                raise anyio.BrokenResourceError("the WebSocket is closed") from error
            await self._transport.send_all(encoded)

    async def wait_writable(self) -> None:
        """Wait until the stream below may take bytes.

        Cancellation: nothing has happened.
        """
        async with self._sending:
            await self._transport.wait_writable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive the next part of a message; an empty result is the end, with or without a Close.

        Cancellation: nothing has been received.
        """
        await anyio.lowlevel.checkpoint()
        while not self._unread and not self._ended:
            if self._pong is not None:
                await self._answer_ping()
            if self._session.state is ConnectionState.CONNECTING:
                async with self._sending:
                    await self._shake_hands()
            else:
                await self._receive()
        taken = bytes(self._unread if max_bytes is None else self._unread[:max_bytes])
        del self._unread[: len(taken)]
        return taken

    # --- opening ----------------------------------------------------------------------------------------------------

    async def _shake_hands(self) -> None:
        while self._session.state is ConnectionState.CONNECTING and not self._ended:
            data = bytes(await self._transport.receive_some(_CHUNK_BYTES))
            answer = self._handshake_answer(data)
            if answer:
                await self._transport.send_all(b"".join(map(self._session.send, answer)))
                # An eager client sends its first message behind the handshake.
                self._take_events()

    def _handshake_answer(self, data: bytes) -> list[Event]:
        try:
            if data:
                self._session.receive_data(data)
                request = next(self._session.events(), None)
                return self._answer_to(request) if isinstance(request, Request) else []
        except RemoteProtocolError as error:
            # It speaks something else. The answer in HTTP tells people what this port is for.
            self._ended = True
            return [error.event_hint or RejectConnection()]
        except UnicodeError:
            # wsproto decodes Host and the path without handling what cannot be decoded.
            self._ended = True
            return [RejectConnection()]
        self._ended = True
        return []

    def _answer_to(self, request: Request) -> list[Event]:
        given = [value.decode("latin-1") for name, value in request.extra_headers if name.lower() == b"origin"]
        if is_welcome(given, host=request.host, listens_on=self._host, tls=self._tls, allowed=self._origins):
            chosen = next((name for name in _SUBPROTOCOLS if name in request.subprotocols), None)
            return [AcceptConnection(subprotocol=chosen)]
        self._ended = True
        why = b"web pages of this origin may not connect (websocket_origins; trio-stomp broker --origin)\n"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(why))]
        return [RejectConnection(status_code=403, headers=headers, has_body=True), RejectData(data=why)]

    # --- receiving --------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        data = await self._transport.receive_some(_CHUNK_BYTES)
        self._session.receive_data(bytes(data) or None)
        self._take_events()

    def _take_events(self) -> None:
        for event in self._session.events():
            if isinstance(event, BytesMessage):
                self._unread += event.data
            elif isinstance(event, TextMessage):
                self._unread += event.data.encode()
            elif isinstance(event, Ping):
                # Spec: RFC 6455, 5.5.3 Pong: of several pings that were not answered yet, the last one will do.
                self._pong = event.response()
            elif isinstance(event, CloseConnection):
                self._ended = True
                # wsproto reports a client that breaks the rules as if it had closed, with the code to close with.
                broken = self._session.state is ConnectionState.OPEN
                self._goodbye = event if broken else event.response()

    async def _answer_ping(self) -> None:
        async with self._sending:
            await self._transport.wait_writable()
            pong, self._pong = self._pong, None
            if pong is not None and self._session.state is ConnectionState.OPEN:
                # Some twenty bytes where there is room for more: nothing to wait for, and never torn by the shield.
                with anyio.CancelScope(shield=True):
                    await self._transport.send_all(self._session.send(pong))

    # --- closing ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the WebSocket, with a closing handshake if the client answers within a second.

        Cancellation: it is closed at once.
        """
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                async with self._sending:
                    if self._session.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                        await self._transport.send_all(self._session.send(self._goodbye))
                while self._session.state is ConnectionState.LOCAL_CLOSING:
                    await self._receive()
                    self._unread.clear()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client has gone, which is what was wanted
        finally:
            await self._transport.aclose()
