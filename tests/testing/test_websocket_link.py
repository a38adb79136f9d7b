"""The embedded broker over WebSocket, in front of clients that are not ours: trio-websocket's, and bytes."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream
from wsproto import ConnectionType, WSConnection
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, Request, TextMessage
from wsproto.frame_protocol import CloseReason

from tests.kit.loops import on_loops, wait_all_tasks_blocked
from tests.testing.raw_client import with_options
from trio_stomp import Limits
from trio_stomp.testing import Broker, BrokerOptions, MemoryLink, open_broker, open_memory_links

pytestmark = pytest.mark.anyio
over_sockets = on_loops("trio-real")

CONNECT = "CONNECT\naccept-version:1.2\nhost:h\n\n\0"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
PROTOCOLS = ["v10.stomp", "v11.stomp", "v12.stomp"]


@asynccontextmanager
async def connected(broker: Broker) -> AsyncGenerator[WebSocketConnection]:
    # Its own open_websocket() leaves the socket open where the other side closes first.
    async with await trio.open_tcp_stream("127.0.0.1", broker.port) as stream, trio.open_nursery() as nursery:
        websocket = await wrap_client_stream(nursery, stream, "h", "/any/path", subprotocols=PROTOCOLS)
        await websocket.send_message(CONNECT)
        answer = await websocket.get_message()
        assert isinstance(answer, str)
        assert answer.startswith("CONNECTED\n")
        yield websocket
        await websocket.aclose()
        nursery.cancel_scope.cancel()


@pytest.fixture
async def open_link(broker: Broker) -> AsyncGenerator[Callable[[], MemoryLink]]:
    """Opens links to the broker; returns the client's end, before the handshake."""

    def opened() -> MemoryLink:
        near, far = open_memory_links()
        tasks.start_soon(broker.serve_websocket, far)
        return near

    async with anyio.create_task_group() as tasks:
        yield opened
        tasks.cancel_scope.cancel()


@pytest.fixture
async def link(open_link: Callable[[], MemoryLink]) -> MemoryLink:
    return open_link()


@pytest.fixture
async def other(link: MemoryLink) -> OtherEnd:
    return await OtherEnd.connected(link)


class OtherEnd:
    """A client in memory that does what wsproto allows."""

    def __init__(self, link: MemoryLink) -> None:
        self._link = link
        self._session = WSConnection(ConnectionType.CLIENT)
        self.events: list[Event] = []

    @classmethod
    async def connected(cls, link: MemoryLink) -> OtherEnd:
        """Open a WebSocket and send CONNECT."""
        other = cls(link)
        await other.send(Request(host="h", target="/ws"))
        await other.receive()
        await other.send(TextMessage(data=CONNECT))
        await other.expect("CONNECTED")
        return other

    async def send(self, *events: Event) -> None:
        """Send these in one piece."""
        await self._link.send_all(b"".join(map(self._session.send, events)))

    async def send_bytes(self, given: bytes) -> None:
        """Send bytes past the rules."""
        await self._link.send_all(given)

    async def receive(self) -> bool:
        """Read what has come; returns whether there may be more."""
        data = bytes(await self._link.receive_some())
        if data:
            self._session.receive_data(data)
            self.events += self._session.events()
        return bool(data)

    async def receive_all(self) -> None:
        """Read until the end."""
        while await self.receive():
            pass

    async def expect(self, text: str) -> None:
        """Read until a message has such text in it."""
        while text not in self.text:
            assert await self.receive(), self.events

    @property
    def text(self) -> str:
        """What has come in messages of text."""
        return "".join(event.data for event in self.events if isinstance(event, TextMessage))

    @property
    def last(self) -> Event:
        """What has come last."""
        return self.events[-1]


@pytest.mark.parametrize("kind", [TextMessage, BytesMessage])
@with_options(BrokerOptions(max_unfinished_bytes=100_000))
async def test_door_when_messages_are_not_finished_then_they_count_among_the_unfinished_frames(
    broker: Broker, open_link: Callable[[], MemoryLink], kind: type[TextMessage | BytesMessage]
) -> None:
    large, small = [await OtherEnd.connected(open_link()) for _ in range(2)]

    def piece(text: str, *, last: bool = False) -> Event:
        if kind is TextMessage:
            return TextMessage(data=text, message_finished=last)
        return BytesMessage(data=text.encode(), message_finished=last)

    for end, count in ((large, 90_000), (small, 20_000)):
        await end.send(piece("SEND\ndestination:/queue/a\ncontent-length:150000\n\n"))
        await end.send(piece("x" * count))
        await wait_all_tasks_blocked()

    await large.expect("max_unfinished_bytes")
    await large.receive_all()
    await small.send(piece("x" * 130_000), piece("\0", last=True))
    await broker.wait_until(lambda: broker.depth("/queue/a") == 1)


@over_sockets
async def test_door_when_open_then_messages_of_both_kinds_go_in_and_out() -> None:
    async with open_broker(websocket=True) as broker, connected(broker) as websocket:
        assert websocket.subprotocol == "v12.stomp"
        await websocket.send_message("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        await websocket.send_message("SEND\ndestination:/queue/a\n\né\0".encode())
        message = await websocket.get_message()
        assert isinstance(message, str)
        assert message.endswith("\n\né\0\n")
        # Two frames in one message, one of them in two.
        await websocket.send_message("SEND\ndestination:/queue/a\n\n1\0SEND\n")
        await websocket.send_message(b"destination:/queue/a\ncontent-length:2\n\n\xff\0\0")
        given = b""
        while not given.endswith(b"\xff\0\0\n"):
            message = await websocket.get_message()
            given += message.encode() if isinstance(message, str) else message
        assert b"\n\n1\0\n" in given
        assert isinstance(message, bytes)


@over_sockets
@pytest.mark.parametrize(
    ("sent", "answer"), [("DISCONNECT\nreceipt:bye\n\n\0", "receipt-id:bye"), ("x" * 2000, "limit exceeded")]
)
async def test_door_when_the_session_ends_then_its_last_frame_comes_and_close(sent: str, answer: str) -> None:
    options = BrokerOptions(limits=Limits(body_bytes=10, header_count=10, header_line_bytes=100))
    async with open_broker(websocket=True, options=options) as broker, connected(broker) as websocket:
        await websocket.send_message(sent)
        assert answer in str(await websocket.get_message())
        with pytest.raises(ConnectionClosed):
            await websocket.get_message()
        await broker.wait_until(lambda: broker.sessions == ())


async def test_door_when_pinged_then_answers_the_last_ping(other: OtherEnd) -> None:
    await other.send(Ping(payload=b"1"), Ping(payload=b"2"))
    await other.receive()
    assert other.last == Pong(payload=b"2")


async def test_door_when_the_client_closes_then_close_is_answered_and_the_session_ends(
    broker: Broker, other: OtherEnd
) -> None:
    await other.send(CloseConnection(code=1000))
    await other.receive_all()
    assert other.last == CloseConnection(code=1000, reason="")
    await broker.wait_until(lambda: broker.sessions == ())


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (b"\x81\x81\0\0\0\0\xff", CloseReason.INVALID_FRAME_PAYLOAD_DATA),
        (b"\x81\x01x", CloseReason.PROTOCOL_ERROR),
    ],
)
async def test_door_when_the_client_breaks_the_rules_then_close_says_which(
    broker: Broker, other: OtherEnd, given: bytes, code: CloseReason
) -> None:
    await other.send_bytes(given)
    await other.receive_all()
    assert isinstance(other.last, CloseConnection)
    assert other.last.code is code
    await broker.wait_until(lambda: broker.sessions == ())


async def test_door_when_the_client_knows_no_subprotocol_then_none_is_named(link: MemoryLink) -> None:
    await link.send_all(UPGRADE + b"Sec-WebSocket-Protocol: mqtt\r\n\r\n")
    answer = await link.receive_some()
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-protocol" not in answer.lower()


@over_sockets
@pytest.mark.parametrize("given", [b"CONNECT\n\n\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_door_when_it_is_no_websocket_then_the_link_is_closed_and_others_are_served(given: bytes) -> None:
    async with open_broker(websocket=True) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await stream.send_all(given)
        with trio.fail_after(60):
            while await stream.receive_some():
                pass
        await stream.aclose()
        async with connected(broker):
            pass


async def status(link: MemoryLink, host: str, *origins: str) -> int:
    """The status of the answer to a handshake with this Host, and these headers Origin."""
    lines = "".join(f"Origin: {origin}\r\n" for origin in origins)
    await link.send_all(UPGRADE.replace(b"Host: h", b"Host: " + host.encode("latin-1")) + lines.encode() + b"\r\n")
    return int((await link.receive_some()).split(b" ")[1])


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:61613", "http://127.0.0.1:61613"),
        ("LocalHost:61613", "HTTP://localhost:61613"),
        ("localhost", "http://localhost:80"),
        ("localhost:80", "http://localhost"),
        ("[::1]:61613", "http://[0:0:0:0:0:0:0:1]:61613"),
    ],
)
async def test_door_when_the_page_is_of_the_brokers_own_origin_then_accepted(
    link: MemoryLink, host: str, origin: str
) -> None:
    assert await status(link, host, origin) == 101


@pytest.mark.parametrize(
    "origins",
    [
        ["http://evil.example"],
        ["http://127.0.0.1:1"],
        ["http://127.0.0.1"],
        ["https://127.0.0.1:61613"],
        ["http://127.0.0.1.evil.example:61613"],
        ["http://127.0.0.1:61613@evil.example"],
        ["http://127.0.0.1:61613/"],
        ["http://localhost:61613"],
        ["file://"],
        ["null"],
        [""],
        ["http://127.0.0.1:61613", "http://evil.example"],
    ],
)
async def test_door_when_the_page_is_of_another_origin_then_refused(link: MemoryLink, origins: list[str]) -> None:
    assert await status(link, "127.0.0.1:61613", *origins) == 403


async def test_door_when_a_page_has_led_its_own_name_to_this_machine_then_refused(link: MemoryLink) -> None:
    """DNS rebinding: the page's host and that of the handshake are the same, and it is not the broker's."""
    assert await status(link, "evil.example:61613", "http://evil.example:61613") == 403


def allowing(origin: str) -> BrokerOptions:
    return BrokerOptions(websocket_origins=[origin])


@pytest.mark.parametrize(
    ("options", "origin", "expected"),
    [
        (allowing("http://app.example"), "http://APP.example:80", 101),
        (allowing("http://app.example"), "https://app.example", 403),
        (allowing("http://app.example"), "null", 403),
        (allowing("null"), "null", 101),
        (allowing("*"), "http://evil.example", 101),
        (allowing("*"), "null", 101),
    ],
)
async def test_door_when_origins_are_allowed_then_those_are_accepted_too(
    link: MemoryLink, origin: str, expected: int
) -> None:
    assert await status(link, "127.0.0.1", origin) == expected


async def test_door_when_an_origin_is_refused_then_the_answer_says_why(broker: Broker, link: MemoryLink) -> None:
    await link.send_all(UPGRADE + b"Origin: http://evil.example\r\n\r\n")
    answer = b""
    while data := await link.receive_some():
        answer += data
    assert b"websocket_origins" in answer
    await broker.wait_until(lambda: broker.sessions == ())


async def test_door_when_the_host_cannot_be_decoded_then_refused(link: MemoryLink) -> None:
    assert await status(link, "\xff") == 400


@with_options(BrokerOptions(connect_timeout=3))
async def test_door_when_the_handshake_does_not_come_then_the_link_is_closed(link: MemoryLink) -> None:
    began = anyio.current_time()
    assert await link.receive_some() == b""
    # The ERROR waits for the handshake as long as for any client that does not take its last frame.
    assert anyio.current_time() - began == 3 + 5


@over_sockets
async def test_door_when_the_broker_is_left_then_the_websocket_ends() -> None:
    async with open_broker(websocket=True) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await stream.send_all(UPGRADE + b"\r\n")
        assert bytes(await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
        await broker.wait_until(lambda: len(broker.sessions) == 1)
    with trio.fail_after(60):
        while await stream.receive_some():
            pass
    await stream.aclose()
    assert broker.sessions == ()


@over_sockets
async def test_broker_when_the_extra_is_missing_then_said_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trio_stomp.testing.websocket_link", raising=False)
    monkeypatch.setitem(sys.modules, "wsproto", None)
    with pytest.raises(ModuleNotFoundError, match=r"requires wsproto. Run: pip install 'trio-stomp\[websocket\]'"):
        async with open_broker(websocket=True):
            raise AssertionError
