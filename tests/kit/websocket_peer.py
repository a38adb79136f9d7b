"""The far end of a WebSocket, in the hands of a test: it does what wsproto allows, and any bytes besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request

from tests.kit.wire import Wire
from trio_stomp.runtime import ByteStream, as_byte_stream
from trio_stomp.session.settings import Settings
from trio_stomp.transport.websocket import WebSocketStream, open_websocket
from trio_stomp.types import ConnectOptions

__all__ = ["FarEnd", "Opened", "opened", "settings_for"]


class FarEnd:
    """A server of WebSocket.

    Attributes:
        events: What came, in order, but for the opening handshake.
        request: The opening handshake.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._session = WSConnection(ConnectionType.SERVER)
        self.events: list[Event] = []
        self.request: Request | None = None

    async def receive(self) -> bool:
        """Read what has come; returns whether there may be more."""
        data = bytes(await self._stream.receive_some(65536))
        if data:
            self._session.receive_data(data)
            self.events += self._session.events()
        return bool(data)

    async def take_request(self) -> Request:
        """Read the opening handshake."""
        while not self.events:
            await self.receive()
        request = self.events.pop(0)
        assert isinstance(request, Request)
        self.request = request
        return request

    async def accept(self, *, subprotocol: str | None = None, behind: Sequence[Event] = ()) -> None:
        """Take the opening handshake, and send more in the same breath."""
        await self.take_request()
        await self.send(AcceptConnection(subprotocol=subprotocol), *behind)

    async def send(self, *events: Event) -> None:
        """Send these in one piece."""
        await self._stream.send_all(b"".join(map(self._session.send, events)))

    async def send_bytes(self, given: bytes) -> None:
        """Send bytes past the rules."""
        await self._stream.send_all(given)


class WritingNow(ByteStream):
    """The client's end of a wire, which writes at once what there is room for, and keeps the rest as TLS does."""

    writes_now = lends_reads = True

    def __init__(self, wire: Wire) -> None:
        self._wire, self._stream = wire, as_byte_stream(wire.client)
        self._kept = b""

    def write_now(self, data: bytes, /) -> int:
        assert not self._kept
        put = self._wire.to_server.put(data)
        if put == len(data):
            return put
        # It has taken all, and is given the last byte once more.
        self._kept = data[put:]
        return len(data) - 1

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        kept, self._kept = self._kept, b""
        await self._stream.send_all(kept + bytes(data)[1:] if kept else data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def wait_writable(self) -> None:
        await self._stream.wait_writable()

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A WebSocket that is open, both ends of it."""

    wire: Wire
    stream: WebSocketStream
    far: FarEnd


def settings_for(url: str = "ws://broker:15674/ws", **options: object) -> Settings:
    """The settings of a client for this URL."""
    return Settings.of(url, ConnectOptions(**options))  # type: ignore[typeddict-item]  # passed on as given


async def opened(*behind: Event) -> Opened:
    """Open a WebSocket over a wire."""
    wire = Wire()
    far = FarEnd(wire.server)
    settings = settings_for()
    streams: list[WebSocketStream] = []

    async def open_near() -> None:
        streams.append(await open_websocket(WritingNow(wire), settings.endpoints[0], settings))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_near)
        await far.accept(subprotocol="v12.stomp", behind=behind)
    return Opened(wire=wire, stream=streams[0], far=far)
