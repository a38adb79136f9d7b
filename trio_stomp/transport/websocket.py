"""A WebSocket as a stream of bytes. Imported only for ``ws`` and ``wss`` URLs.

Theory of operation. wsproto implements the rules of WebSocket (RFC 6455). This class moves bytes through it and has no
task of its own: receiving reads, sending writes. trio-websocket, which builds on wsproto too, was tried (0.12.2) and
rejected for two reasons. Its reader is a task in a nursery that must outlive the dialing, while this stream can be
handed from the dialer to the connection. And its reader answers a ping under the lock that writers hold: while the
broker does not read our data (RabbitMQ in a memory alarm), a ping from the broker would stop us from receiving. Here,
a ping is answered while receiving goes on.

Memory: messages are not assembled. What has arrived of one is passed on at once, and the limits of the STOMP decoder
apply as on any other stream. h11 bounds the opening handshake (16 KiB of headers).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import anyio
import anyio.lowlevel
import h11
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
from trio_stomp.protocol import Secrets, Version
from trio_stomp.runtime import ByteStream, protect
from trio_stomp.transport.diagnosis import HINT_BYTES, StepFailed, hint_at
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.urls import Endpoint
from trio_stomp.transport.websocket_messages import MessageStream, fragments, pieces, stomp_frames

__all__ = ["WebSocketEnded", "WebSocketStream", "open_websocket"]

_CHUNK_BYTES: Final = 64 * 1024

# Seconds to wait for the answer to our Close.
_CLOSE_TIMEOUT: Final = 1.0

# The names that stomp-websocket clients and all three brokers use for the versions.
_SUBPROTOCOLS: Final = {Version.V1_0: "v10.stomp", Version.V1_1: "v11.stomp", Version.V1_2: "v12.stomp"}

_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

# What to do about a close code.
_CLOSE_HINTS: Final = {
    CloseReason.MESSAGE_TOO_BIG: (
        "; send smaller messages, or raise the broker's limit for WebSocket messages; for a broker that puts a STOMP "
        "frame together from several WebSocket messages, as Spring does, connect(websocket_message_bytes=8192)"
    ),
}


class WebSocketEnded(Exception):
    """The peer has closed the WebSocket, or has broken its rules."""


class WebSocketStream(MessageStream):
    """A stream over a WebSocket. Get one from `open_websocket`.

    Args:
        transport: What carries the WebSocket.
        session: The WebSocket, open.
    """

    def __init__(self, transport: ByteStream, session: WSConnection) -> None:
        self._transport = transport
        self.writes_now, self.lends_reads = transport.writes_now, transport.lends_reads
        self._session = session
        self._sending = anyio.Lock()
        self._incoming = bytearray()
        self._pong: Pong | None = None
        self._goodbye = CloseConnection(code=CloseReason.NORMAL_CLOSURE)
        self._ended: WebSocketEnded | None = None
        self._no_more = False
        self._receiving = False
        self._torn = False
        # The end of a message that `write_now` has begun, all but its last byte counted as written.
        self._unwritten = b""
        # Its length, until it is written.
        self._left_over = 0
        self._closed = False

    # --- sending --------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole STOMP frames and heart-beats, each as one message, or as several of `message_bytes`.

        Cancellation: an unknown part of them has been sent, and nothing more can be sent.
        """
        async with self._sending:
            self._check_open()
            if self._torn:
                raise anyio.BrokenResourceError("a message was cut off, so that no other can follow")
            begun = self._take_unwritten()
            output = begun + self._encoded(bytes(data[1:] if begun else data))
            self._torn = True
            await self._transport.send_all(output)
            self._torn = False
            self._left_over = 0

    def write_now(self, data: bytes, /) -> int:
        """Send whole STOMP frames at once, as far as the stream below takes them; return how much needs no `send_all`.

        Where it takes less than all, one byte is left for `send_all`, which then sends the end of the message.
        """
        if self._closed or self._ended is not None or self._torn or self._unwritten or self._sending.locked():
            return 0
        output = self._encoded(data)
        written = self._transport.write_now(output)
        if written == len(output):
            return len(data)
        self._unwritten = output[written:]
        self._left_over = len(self._unwritten)
        return len(data) - 1

    @property
    def unwritten_bytes(self) -> int:
        """How much has been taken that is not written yet, at least: the stream below may hold some of it."""
        return max(self._left_over, self._transport.unwritten_bytes)

    def _take_unwritten(self) -> bytes:
        unwritten, self._unwritten = self._unwritten, b""
        return unwritten

    def _encoded(self, frames: bytes) -> bytes:
        """The messages for whole STOMP frames, after the answer to a ping."""
        output = bytearray(self._take_pong())
        for frame in stomp_frames(frames):
            for piece in pieces(frame, self.message_bytes):
                for event in _message(piece):
                    output += self._session.send(event)
        return bytes(output)

    async def wait_writable(self) -> None:
        """Wait until the stream below may take more bytes.

        Cancellation: nothing has happened.
        """
        async with self._sending:
            self._check_open()
            await self._transport.wait_writable()

    def abandon(self) -> None:
        """Close the socket in a forked process and send nothing."""
        self._transport.abandon()

    def _check_open(self) -> None:
        if self._closed:
            raise anyio.ClosedResourceError("this WebSocket is closed")
        if self._ended is not None:
            raise anyio.BrokenResourceError(str(self._ended)) from self._ended

    def _take_pong(self) -> bytes:
        pong, self._pong = self._pong, None
        return b"" if pong is None or self._session.state is not ConnectionState.OPEN else self._session.send(pong)

    # --- receiving ------------------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; empty means that the stream ended without a Close.

        Raises:
            BrokenResourceError: Also when the peer closed the WebSocket; code and reason are in its cause.

        Cancellation: nothing has been received.
        """
        if self._receiving:
            raise anyio.BusyResourceError("receiving on")
        self._receiving = True
        try:
            if self._incoming or self._no_more:
                # What follows may not wait for anything.
                await anyio.lowlevel.checkpoint()
            while not self._incoming:
                self._check_open()
                if self._no_more:
                    return b""
                await self._receive()
            data = bytes(self._incoming if max_bytes is None else self._incoming[:max_bytes])
            del self._incoming[: len(data)]
            return data
        finally:
            self._receiving = False

    async def _receive(self) -> None:
        """Take one chunk, and meanwhile answer an earlier ping."""
        if self._pong is None:
            self._take(await self._transport.receive_some(_CHUNK_BYTES))
            return
        failure: Exception | None = None
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(self._answer_ping)
            try:
                self._take(await self._transport.receive_some(_CHUNK_BYTES))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _answer_ping(self) -> None:
        try:
            async with self._sending:
                if self._unwritten:
                    return  # the answer follows the end of the message
                await self._transport.wait_writable()
                # About twenty bytes, where there is room for more: no wait, and the shield keeps them whole.
                with anyio.CancelScope(shield=True):
                    await self._transport.send_all(self._take_pong())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the receiving task gets the same error

    def _take(self, data: bytes | bytearray) -> None:
        if not data:
            self._no_more = True
            return
        self._session.receive_data(bytes(data))
        self.take_events(self._session.events())

    def take_events(self, events: Iterable[Event]) -> None:
        """Handle what arrived: bytes to pass on, a ping to answer, the end."""
        for event in events:
            if isinstance(event, BytesMessage):
                self._incoming += event.data
            elif isinstance(event, TextMessage):
                self._incoming += event.data.encode()
            elif isinstance(event, Ping):
                # Spec: RFC 6455, 5.5.3 Pong: of several unanswered pings, answering the last one is enough.
                self._pong = event.response()
            elif isinstance(event, CloseConnection):
                self._end(event)

    def _end(self, event: CloseConnection) -> None:
        reason = self.secrets.masked_quotation(event.reason or "")
        if self._session.state is ConnectionState.OPEN:
            # This is how wsproto reports that the peer broke the rules, with the code to close with.
            self._goodbye = event
            text = f"the broker violated the WebSocket protocol: {reason}"
            if event.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA:
                text += "; RabbitMQ sends binary data as text unless configured with web_stomp.ws_frame = binary"
        else:
            self._goodbye = event.response()
            text = f"the broker closed the WebSocket: {_described(event.code, reason)}"
        self._ended = WebSocketEnded(text)

    # --- closing --------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the WebSocket, with a closing handshake if the peer answers within a second.

        Cancellation: it is closed all the same, without the handshake.
        """
        said, self._closed = self._closed, True
        try:
            if not said and not self._torn:
                with anyio.move_on_after(_CLOSE_TIMEOUT):
                    await self._say_goodbye()
        finally:
            await self._transport.aclose()

    async def _say_goodbye(self) -> None:
        try:
            async with self._sending:
                if self._session.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                    await self._transport.send_all(self._take_unwritten() + self._session.send(self._goodbye))
                    self._left_over = 0
            while self._ended is None and not self._no_more and not self._receiving:
                self._take(await self._transport.receive_some(_CHUNK_BYTES))
                self._incoming.clear()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # closed already


def _message(frame: bytes) -> list[TextMessage] | list[BytesMessage]:
    *rest, last = fragments(frame)
    if isinstance(last, str):
        texts = [TextMessage(data=str(piece), message_finished=False) for piece in rest]
        return [*texts, TextMessage(data=last)]
    pieces = [BytesMessage(data=piece, message_finished=False) for piece in rest if isinstance(piece, bytes)]
    return [*pieces, BytesMessage(data=last)]


def _described(code: int, reason: str) -> str:
    name = code.name.lower().replace("_", " ") if isinstance(code, CloseReason) else ""
    said = f"code {int(code)}" + (f" ({name})" if name else "")
    said += f": {one_line(reason)}" if reason else ""
    return said + (_CLOSE_HINTS.get(code, "") if isinstance(code, CloseReason) else "")


# --- opening --------------------------------------------------------------------------------------------------------


async def open_websocket(transport: ByteStream, endpoint: Endpoint, options: TransportOptions) -> WebSocketStream:
    """Do the opening handshake of a WebSocket.

    Raises:
        StepFailed: The handshake failed.
        LocalProtocolError: ``websocket_headers=`` cannot be sent.

    Cancellation: the stream is left for the caller to close.

    Spec: RFC 6455, 4 Opening Handshake.
    """
    session = WSConnection(ConnectionType.CLIENT)
    seen = b""
    request = _request(session, endpoint, options.versions, options.websocket_headers)
    try:
        await transport.send_all(request)
        while True:
            data = await transport.receive_some(_CHUNK_BYTES)
            if not data:
                what = "the server closed the connection during the WebSocket handshake"
                raise StepFailed("websocket", what, "is this a plain STOMP port?")
            seen += data[: HINT_BYTES - len(seen)]
            if hint := _hint(seen, endpoint, options):
                raise StepFailed("websocket", "the server does not speak WebSocket on this port", hint)
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
        what = f"the server does not speak WebSocket on this port: {error}"
        # Its context quotes the first line of the answer, which may be that of the request, with the query.
        quoted = str(error.__context__)
        cause = error if Secrets(endpoint.query).masked_quotation(quoted) == quoted else None
        raise StepFailed("websocket", what, "is this a port for STOMP over WebSocket?") from cause
    except anyio.BrokenResourceError as error:
        what = f"the link broke during the WebSocket handshake: {error.__cause__ or error}"
        raise StepFailed("websocket", what) from (error.__cause__ or error)


def _hint(seen: bytes, endpoint: Endpoint, options: TransportOptions) -> str:
    # With TLS, these bytes were decrypted already.
    return "" if options.uses_tls(endpoint) else hint_at(seen, endpoint, tls=False)


def _request(
    session: WSConnection, endpoint: Endpoint, versions: Sequence[Version], headers: Sequence[tuple[str, str]]
) -> bytes:
    try:
        request = Request(
            host=endpoint.ascii_authority,
            target=endpoint.resource,
            # The highest first: RabbitMQ and Artemis choose the first that they support.
            subprotocols=[_SUBPROTOCOLS[version] for version in sorted(versions, reverse=True)],
            extra_headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
        )
        return session.send(request)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # The message of the original error quotes the value, which may be a secret.
        raise LocalProtocolError("a name or value in websocket_headers= cannot be sent as an HTTP header") from None


def _rejected(answer: RejectConnection, endpoint: Endpoint) -> StepFailed:
    status = answer.status_code
    phrase = f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""
    refused = status in _REFUSALS
    if refused:
        hint = "it may want credentials or an Origin of its own: pass them as websocket_headers="
    elif status == HTTPStatus.NOT_FOUND:
        hint = "is the path right? It is /ws at RabbitMQ"
    else:
        hint = "is this a port for STOMP over WebSocket?"
        # nginx and others answer so to HTTP on a port for HTTPS.
        hint += " If it is one for HTTPS, use wss://" if status == HTTPStatus.BAD_REQUEST and not endpoint.tls else ""
    what = f"the server answered {status}{phrase} to the WebSocket handshake at {endpoint}"
    return StepFailed("websocket", what, hint, refused=refused)


# It is imported when the first such connection is opened, after the rest of the client was protected.
protect(__name__)
