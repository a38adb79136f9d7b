"""A WebSocket as a stream of octets. Imported only where a URL says ``ws`` or ``wss``.

Theory of operation. The rules of WebSocket (RFC 6455) are wsproto's, which trio-websocket stands on; this class is the
octets' way through them, with no task of its own: receiving reads, sending writes. trio-websocket itself was tried
(0.12.2) and is not used here, for two reasons. Its reader is a task in a nursery that has to outlive the dialing, while
a stream can be handed on from the one who dials to the one who serves. And that reader answers a ping through the lock
that writers hold, so that while the broker does not read what we write (RabbitMQ in a memory alarm), a ping of the
broker keeps us from receiving as well. Here the answer to a ping waits beside the receiving, not before it.

Memory: no message is put together. What has come of one is handed on at once, and the limits of the STOMP decoder hold
for it as on any other stream. The opening handshake is bounded by h11 (16 KiB of headers).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import h11
import trio
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
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import one_line
from trio_stomp.protocol import Version
from trio_stomp.transport.foreign_answers import HINT_OCTETS, hint_at
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.steps import StepFailed
from trio_stomp.transport.urls import Endpoint
from trio_stomp.transport.websocket_messages import MessageStream, fragments, pieces, stomp_frames

__all__ = ["WebSocketEnded", "WebSocketStream", "open_websocket"]

_CHUNK_OCTETS: Final = 64 * 1024

# Who has not answered our Close by then will not.
_CLOSE_TIMEOUT: Final = 1.0

# The names that stomp-websocket clients and all three brokers use for the versions.
_SUBPROTOCOLS: Final = {Version.V1_0: "v10.stomp", Version.V1_1: "v11.stomp", Version.V1_2: "v12.stomp"}

_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

# What else there is to say to a close code.
_CLOSE_HINTS: Final = {
    CloseReason.MESSAGE_TOO_BIG: (
        "; send smaller messages, or raise the broker's limit for WebSocket messages; for a broker that puts a STOMP "
        "frame together from several WebSocket messages, as Spring does, connect(websocket_message_octets=8192)"
    ),
}


class WebSocketEnded(Exception):
    """The peer has closed the WebSocket, or has broken its rules."""


class WebSocketStream(MessageStream):
    """The octets that go through a WebSocket. Made by `open_websocket`.

    Args:
        transport: What carries the WebSocket.
        session: The WebSocket, open.
    """

    def __init__(self, transport: trio.abc.Stream, session: WSConnection) -> None:
        self._transport = transport
        self._session = session
        self._sending = trio.StrictFIFOLock()
        self._incoming = bytearray()
        self._pong: Pong | None = None
        self._goodbye = CloseConnection(code=CloseReason.NORMAL_CLOSURE)
        self._ended: WebSocketEnded | None = None
        self._no_more = False
        self._receiving = False
        self._torn = False
        self._closed = False

    # --- sending --------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole STOMP frames and heart-beats, each as one message, or as several of `message_octets`.

        Cancellation: an unknown part of them has been sent, and no more can be.
        """
        async with self._sending:
            self._check_open()
            if self._torn:
                raise trio.BrokenResourceError("a message was cut off, so that no other can follow")
            octets = bytearray(self._take_pong())
            for frame in stomp_frames(bytes(data)):
                for piece in pieces(frame, self.message_octets):
                    for event in _message(piece):
                        octets += self._session.send(event)
            self._torn = True
            await self._transport.send_all(octets)
            self._torn = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream below may take octets.

        Cancellation: nothing has happened.
        """
        async with self._sending:
            self._check_open()
            await self._transport.wait_send_all_might_not_block()

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this WebSocket is closed")
        if self._ended is not None:
            raise trio.BrokenResourceError(str(self._ended)) from self._ended

    def _take_pong(self) -> bytes:
        pong, self._pong = self._pong, None
        return b"" if pong is None or self._session.state is not ConnectionState.OPEN else self._session.send(pong)

    # --- receiving ------------------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive what is there of the messages, at least one octet; nothing is an end without a Close.

        Raises:
            trio.BrokenResourceError: Also where the peer has closed the WebSocket: its code and reason are the cause.

        Cancellation: nothing has been received.
        """
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving on this WebSocket")
        self._receiving = True
        try:
            await trio.lowlevel.checkpoint()
            while not self._incoming:
                self._check_open()
                if self._no_more:
                    return b""
                await self._receive()
            octets = bytes(self._incoming if max_bytes is None else self._incoming[:max_bytes])
            del self._incoming[: len(octets)]
            return octets
        finally:
            self._receiving = False

    async def _receive(self) -> None:
        """Take one chunk; beside it, answer a ping that came before."""
        if self._pong is None:
            self._take(await self._transport.receive_some(_CHUNK_OCTETS))
            return
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_ping)
            try:
                self._take(await self._transport.receive_some(_CHUNK_OCTETS))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _answer_ping(self) -> None:
        try:
            async with self._sending:
                await self._transport.wait_send_all_might_not_block()
                # Some twenty octets where there is room for more: nothing to wait for, and never torn by the shield.
                with trio.CancelScope(shield=True):
                    await self._transport.send_all(self._take_pong())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # whoever receives finds out, and why

    def _take(self, data: bytes | bytearray) -> None:
        if not data:
            self._no_more = True
            return
        self._session.receive_data(bytes(data))
        self.take_events(self._session.events())

    def take_events(self, events: Iterable[Event]) -> None:
        """Take what has come: octets to hand on, a ping to answer, the end."""
        for event in events:
            if isinstance(event, BytesMessage):
                self._incoming += event.data
            elif isinstance(event, TextMessage):
                self._incoming += event.data.encode()
            elif isinstance(event, Ping):
                # Spec: RFC 6455, 5.5.3 Pong: of several pings that were not answered yet, the last one will do.
                self._pong = event.response()
            elif isinstance(event, CloseConnection):
                self._end(event)

    def _end(self, event: CloseConnection) -> None:
        if self._session.state is ConnectionState.OPEN:
            # wsproto's way to say that the peer has broken the rules, with the code to close with.
            self._goodbye = event
            text = f"the broker broke the rules of WebSocket: {event.reason}"
            if event.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA:
                text += "; RabbitMQ sends octets as text until its configuration says web_stomp.ws_frame = binary"
        else:
            self._goodbye = event.response()
            text = f"the broker closed the WebSocket: {_described(event)}"
        self._ended = WebSocketEnded(text)

    # --- closing --------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the WebSocket, in order where the peer takes part in that within a second.

        Cancellation: it is closed all the same, without a word.
        """
        said, self._closed = self._closed, True
        try:
            if not said and not self._torn:
                with trio.move_on_after(_CLOSE_TIMEOUT):
                    await self._say_goodbye()
        finally:
            await self._transport.aclose()

    async def _say_goodbye(self) -> None:
        try:
            async with self._sending:
                if self._session.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                    await self._transport.send_all(self._session.send(self._goodbye))
            while self._ended is None and not self._no_more and not self._receiving:
                self._take(await self._transport.receive_some(_CHUNK_OCTETS))
                self._incoming.clear()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # gone, which is what was wanted


def _message(frame: bytes) -> list[TextMessage] | list[BytesMessage]:
    *rest, last = fragments(frame)
    if isinstance(last, str):
        texts = [TextMessage(data=str(piece), message_finished=False) for piece in rest]
        return [*texts, TextMessage(data=last)]
    pieces = [BytesMessage(data=piece, message_finished=False) for piece in rest if isinstance(piece, bytes)]
    return [*pieces, BytesMessage(data=last)]


def _described(event: CloseConnection) -> str:
    name = event.code.name.lower().replace("_", " ") if isinstance(event.code, CloseReason) else ""
    said = f"code {int(event.code)}" + (f" ({name})" if name else "")
    said += f": {one_line(event.reason)}" if event.reason else ""
    return said + (_CLOSE_HINTS.get(event.code, "") if isinstance(event.code, CloseReason) else "")


# --- opening --------------------------------------------------------------------------------------------------------


async def open_websocket(transport: trio.abc.Stream, endpoint: Endpoint, options: TransportOptions) -> WebSocketStream:
    """Do the opening handshake of a WebSocket.

    Raises:
        StepFailed: The server does not agree to it.
        LocalProtocolError: The headers that the user gives cannot be sent.

    Cancellation: the stream is left for the caller to close.

    Spec: RFC 6455, 4 Opening Handshake.
    """
    session = WSConnection(ConnectionType.CLIENT)
    seen = b""
    request = _request(session, endpoint, options.versions, options.websocket_headers)
    try:
        await transport.send_all(request)
        while True:
            data = await transport.receive_some(_CHUNK_OCTETS)
            if not data:
                reason = "the server closed the connection during the WebSocket handshake; is this a plain STOMP port?"
                raise StepFailed("websocket", reason)
            seen += data[: HINT_OCTETS - len(seen)]
            if hint := _hint(seen, endpoint, options):
                raise StepFailed("websocket", f"the answer to the WebSocket handshake is none{hint}")
            session.receive_data(bytes(data))
            events = session.events()
            answer = next(events, None)
            if isinstance(answer, AcceptConnection):
                stream = WebSocketStream(transport, session)
                stream.take_events(events)
                return stream
            if isinstance(answer, RejectConnection):
                raise _rejected(answer, endpoint)
    except RemoteProtocolError as error:
        reason = f"the answer to the WebSocket handshake is none: {error}; is this a port for STOMP over WebSocket?"
        raise StepFailed("websocket", reason) from error
    except trio.BrokenResourceError as error:
        reason = f"the link broke during the WebSocket handshake: {error.__cause__ or error}"
        raise StepFailed("websocket", reason) from (error.__cause__ or error)


def _hint(seen: bytes, endpoint: Endpoint, options: TransportOptions) -> str:
    # In TLS, the octets seen here came through it.
    return "" if endpoint.tls or options.tls else hint_at(seen, endpoint, tls=False)


def _request(
    session: WSConnection, endpoint: Endpoint, versions: Sequence[Version], headers: Sequence[tuple[str, str]]
) -> bytes:
    try:
        request = Request(
            host=endpoint.ascii_authority,
            target=endpoint.resource,
            # The highest first: RabbitMQ and Artemis take the first that they know.
            subprotocols=[_SUBPROTOCOLS[version] for version in sorted(versions, reverse=True)],
            extra_headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
        )
        return session.send(request)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # Their own messages quote the value, which may be a secret.
        raise LocalProtocolError("a name or value in websocket_headers= cannot be sent as an HTTP header") from None


def _rejected(answer: RejectConnection, endpoint: Endpoint) -> StepFailed:
    status = answer.status_code
    phrase = f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""
    refused = status in _REFUSALS
    if refused:
        hint = "; it may want credentials or an Origin of its own: pass them as websocket_headers="
    elif status == HTTPStatus.NOT_FOUND:
        hint = "; is the path right? It is /ws at RabbitMQ"
    else:
        hint = "; is this a port for STOMP over WebSocket?"
        # nginx and others answer so to HTTP on a port for HTTPS.
        hint += " If it is one for HTTPS, use wss://" if status == HTTPStatus.BAD_REQUEST and not endpoint.tls else ""
    reason = f"the server answered {status}{phrase} to the WebSocket handshake at {endpoint}{hint}"
    return StepFailed("websocket", reason, refused=refused)
