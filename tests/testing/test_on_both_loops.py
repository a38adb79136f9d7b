"""Our client and the embedded broker in the event loop of the test, whichever that is."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
import pytest
import trustme

import trio_stomp
from tests.kit.certificates import client_context, server_context
from tests.kit.loops import (
    REAL_LOOPS_OF_BROKER,
    nothing_left,
    on_loops,
    run_on,
    wait_all_tasks_blocked,
)
from tests.kit.on_asyncio import run_on_asyncio
from tests.testing.raw_client import CONNECT, BrokenStream
from trio_stomp import ConnectError
from trio_stomp.testing import Broker, DropLink, MemoryLink, open_broker

pytestmark = pytest.mark.anyio

over_sockets = on_loops(*REAL_LOOPS_OF_BROKER)


@over_sockets
async def test_client_when_the_broker_drops_the_link_then_reconnects_and_loses_nothing() -> None:
    async with open_broker() as broker:
        # In the middle of its second message.
        broker.faults.plan(DropLink(after_received_bytes=250))
        async with trio_stomp.connect(broker.url, reconnect=True) as client:
            for number in range(20):
                await client.send("/queue/a", b"%d" % number, receipt=True)

        bodies = [message.body for message in broker.messages("/queue/a")]
        assert sorted(set(bodies), key=int) == [b"%d" % number for number in range(20)]
        assert broker.statistics().connections == 2


async def confirmed_and_received(url: str, *, tls: ssl.SSLContext | None = None, body: bytes = b"tea") -> bytes:
    async with trio_stomp.connect(url, tls=tls or False) as client:
        await client.send("/queue/a", body, receipt=True)
        async with client.subscribe("/queue/a") as messages:
            message = await anext(messages)
            await message.ack()
            return message.body


@over_sockets
@pytest.mark.parametrize(("scheme", "path"), [("stomp", ""), ("stomps", ""), ("ws", "/ws"), ("wss", "/ws")])
async def test_broker_when_it_listens_then_serves_large_messages_at_its_url(scheme: str, path: str) -> None:
    authority = trustme.CA()
    body = bytes(range(256)) * 4096
    has_tls = scheme in {"stomps", "wss"}
    host, theirs = ("localhost", server_context(authority)) if has_tls else ("127.0.0.1", None)
    ours = client_context(authority) if has_tls else None
    async with open_broker(host=host, tls=theirs, websocket=path != "") as broker:
        assert broker.url == f"{scheme}://guest:guest@{host}:{broker.port}{path}"
        assert await confirmed_and_received(broker.url, tls=ours, body=body) == body
    with pytest.raises(ConnectError):
        await confirmed_and_received(broker.url, tls=ours)


@over_sockets
async def test_broker_when_it_listens_on_a_unix_socket_then_serves_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "a b%"
    async with open_broker(unix_socket=path) as broker:
        assert broker.url == f"stomp+unix://guest:guest@{tmp_path}/a%20b%25"
        assert await confirmed_and_received(broker.url) == b"tea"
        await broker.stop_listening()
        assert not path.exists()
        with pytest.raises(ConnectError):
            await confirmed_and_received(broker.url)
        await broker.start_listening()
        await broker.start_listening()
        assert await confirmed_and_received(broker.url) == b"tea"
        with pytest.raises(RuntimeError, match="no port"):
            _ = broker.port
    assert not path.exists()


@over_sockets
async def test_broker_when_a_client_has_gone_before_connected_then_goes_on_serving_others() -> None:
    async with open_broker() as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as gone:
            gone.sendall(CONNECT)
        await broker.wait_until(lambda: broker.statistics().connections == 1 and not broker.sessions)

        assert await confirmed_and_received(broker.url) == b"tea"


async def test_broker_when_a_stream_raises_what_the_system_says_then_goes_on_serving_others(broker: Broker) -> None:
    await broker.serve_stream(BrokenStream(OSError("not possible"), CONNECT))

    assert not broker.sessions
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"tea", receipt=True)


async def test_broker_when_used_in_another_loop_then_says_so_at_once(broker: Broker) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="this broker belongs to another event loop: use it in the loop"):
            await broker.wait_until(lambda: True)
        with pytest.raises(RuntimeError, match="this broker belongs to another event loop: use it in the loop"):
            broker.connect_stream()

    for backend in ("asyncio", "trio"):
        await anyio.to_thread.run_sync(partial(anyio.run, main, backend=backend))


@over_sockets
async def test_broker_when_a_client_speaks_no_tls_then_goes_on_serving_others() -> None:
    authority = trustme.CA()
    async with open_broker(host="localhost", tls=server_context(authority)) as broker:
        async with await anyio.connect_tcp("localhost", broker.port) as stream:
            await stream.send(CONNECT * 10)
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()

        assert await confirmed_and_received(broker.url, tls=client_context(authority)) == b"tea"


# --- asyncio's own ----------------------------------------------------------------------------------------------------


def test_block_when_entered_in_one_task_and_left_in_another_then_ends_all_tasks() -> None:
    async def main() -> None:
        stack = AsyncExitStack()
        async with nothing_left():
            entering = asyncio.create_task(stack.enter_async_context(open_broker()))
            broker = await entering
            assert await confirmed_and_received(broker.url) == b"tea"
            link = broker.connect_stream()
            leaving = asyncio.create_task(stack.aclose())
            await leaving
            assert await link.receive_some() == b""
            with pytest.raises(ConnectError):
                await confirmed_and_received(broker.url)

    run_on_asyncio(main)


def test_block_when_its_task_is_canceled_then_the_broker_ends_and_the_same_error_leaves() -> None:
    async def main() -> None:
        links: list[MemoryLink] = []

        async def serve() -> None:
            async with open_broker(listen=False) as broker:
                links.append(broker.connect_stream())
                await asyncio.sleep(3600)

        async with nothing_left():
            task = asyncio.create_task(serve())
            await wait_all_tasks_blocked()
            task.cancel("why")
            with pytest.raises(asyncio.CancelledError, match="why"):
                await task
            assert await links[0].receive_some() == b""

    run_on("asyncio", main)


def test_block_when_a_task_of_the_broker_fails_then_the_error_is_raised_at_its_end_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with open_broker(listen=False) as broker:
            broker._nursery.start_soon(broker.serve_stream, BrokenStream(ZeroDivisionError()))
            await asyncio.sleep(2)
            assert "a background task has failed" in caplog.text

    with pytest.raises(ZeroDivisionError):
        run_on("asyncio", main)
