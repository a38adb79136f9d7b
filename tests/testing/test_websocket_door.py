"""The embedded broker's door for WebSocket, in front of a client that is not ours: trio-websocket's."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from trio_stomp.protocol import Limits
from trio_stomp.testing import Broker, BrokerOptions, open_broker

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
        octets = b""
        while not octets.endswith(b"\xff\0\0\n"):
            message = await websocket.get_message()
            octets += message.encode() if isinstance(message, str) else message
        assert b"\n\n1\0\n" in octets
        assert isinstance(message, bytes)


async def test_door_when_the_client_says_disconnect_then_receipt_and_close() -> None:
    async with open_broker(websocket=True) as broker, connected(broker) as websocket:
        await websocket.send_message("DISCONNECT\nreceipt:bye\n\n\0")
        assert "receipt-id:bye" in str(await websocket.get_message())
        with pytest.raises(ConnectionClosed):
            await websocket.get_message()
        await broker.wait_until(lambda: broker.sessions == ())


async def test_door_when_a_message_is_too_long_then_the_session_ends() -> None:
    options = BrokerOptions(limits=Limits(body_octets=10, header_count=10, header_line_octets=100))
    async with open_broker(websocket=True, options=options) as broker, connected(broker) as websocket:
        await websocket.send_message("x" * 2000)
        with pytest.raises(ConnectionClosed) as caught:
            await websocket.get_message()
        assert caught.value.reason is not None
        assert caught.value.reason.code == 1009
        await broker.wait_until(lambda: broker.sessions == ())


async def test_door_when_the_client_knows_no_subprotocol_then_none_is_named(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        near, far = trio.testing.memory_stream_pair()
        nursery.start_soon(broker.serve_websocket, far)
        await near.send_all(UPGRADE + b"Sec-WebSocket-Protocol: mqtt\r\n\r\n")
        answer = bytes(await near.receive_some())
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"sec-websocket-protocol" not in answer.lower()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("octets", [b"CONNECT\n\n\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_door_when_it_is_no_websocket_then_the_link_is_closed_and_others_are_served(octets: bytes) -> None:
    async with open_broker(websocket=True) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await stream.send_all(octets)
        with trio.fail_after(60):
            while await stream.receive_some():
                pass
        await stream.aclose()
        async with connected(broker):
            pass


async def test_door_when_the_handshake_does_not_come_then_the_link_is_closed(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(connect_timeout=3)) as broker:
        near, far = trio.testing.memory_stream_pair()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve_websocket, far)
            assert await near.receive_some() == b""
        assert trio.current_time() - began == 3


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


async def test_broker_when_the_extra_is_missing_then_said_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trio_stomp.testing.websocket_door", raising=False)
    monkeypatch.setitem(sys.modules, "trio_websocket", None)
    with pytest.raises(ModuleNotFoundError, match=r"'trio_websocket': pip install 'trio-stomp\[websocket\]'"):
        async with open_broker(websocket=True):
            raise AssertionError
