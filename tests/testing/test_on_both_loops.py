"""The embedded broker, the scripted peer and memory links in the event loop of the test, whichever that is."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
import trustme

import trio_stomp
from tests.kit.certificates import client_context, server_context
from tests.kit.loops import (
    LOOPS_OF_BROKER,
    REAL_LOOPS_OF_BROKER,
    nothing_left,
    on_loops,
    run_on,
    wait_all_tasks_blocked,
)
from tests.kit.on_asyncio import run_on_asyncio
from trio_stomp import Client, ConnectError, ConnectionLost
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    DropLink,
    MemoryLink,
    ScriptMismatchError,
    SlowWriting,
    StallReading,
    SwallowReceipts,
    open_broker,
    open_memory_links,
    open_scripted_peer,
)
from trio_stomp.types import Command

pytestmark = pytest.mark.anyio

in_memory = on_loops(*LOOPS_OF_BROKER)
over_sockets = on_loops(*REAL_LOOPS_OF_BROKER)


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    async with open_broker(listen=False) as opened:
        yield opened


@pytest.fixture
async def client(broker: Broker) -> AsyncGenerator[Client]:
    async with trio_stomp.connect_stream(broker.connect_stream()) as connected:
        yield connected


# --- the main verbs ---------------------------------------------------------------------------------------------------


@in_memory
async def test_verbs_when_the_broker_is_in_the_same_loop_then_do_what_they_say(broker: Broker, client: Client) -> None:
    await client.send("/queue/a", b"plain")
    await client.send("/queue/a", b"confirmed", receipt=True)
    assert broker.depth("/queue/a") == 2

    async with client.subscribe("/queue/a") as messages:
        first, second = await anext(messages), await anext(messages)
        assert (first.body, second.body) == (b"plain", b"confirmed")
        await first.ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 1
        async with client.transaction() as transaction:
            await transaction.send("/queue/b", b"third")
            await transaction.ack(second)
        assert broker.unacknowledged("/queue/a") == 0
    assert [message.body for message in broker.messages("/queue/b")] == [b"third"]


@in_memory
async def test_request_when_another_client_answers_then_returns_its_reply(broker: Broker, client: Client) -> None:
    async def serve() -> None:
        async with (
            trio_stomp.connect_stream(broker.connect_stream()) as server,
            server.subscribe("/queue/asked") as questions,
        ):
            async for question in questions:
                about = {"correlation-id": question.headers["correlation-id"]}
                await server.send(question.headers["reply-to"], question.body.upper(), headers=about)
                await question.ack()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        reply = await client.request("/queue/asked", b"tea?", timeout=5)
        assert reply.body == b"TEA?"
        tasks.cancel_scope.cancel()


@in_memory
async def test_broker_when_a_message_is_delayed_then_delivers_it_by_the_clock_of_the_loop(
    broker: Broker, client: Client
) -> None:
    start = anyio.current_time()
    await client.send("/queue/a", b"later", headers={"AMQ_SCHEDULED_DELAY": "30000"}, receipt=True)
    assert broker.depth("/queue/a") == 0

    with anyio.fail_after(60):
        await broker.wait_until(lambda: broker.depth("/queue/a") == 1)

    assert anyio.current_time() - start == pytest.approx(30)


@in_memory
async def test_broker_when_a_client_is_silent_then_disconnects_it_in_time() -> None:
    async with open_broker(listen=False, options=BrokerOptions(connect_timeout=3)) as broker:
        link = broker.connect_stream()
        start = anyio.current_time()
        received = b""
        while data := await link.receive_some():
            received += data

        assert received.startswith(b"ERROR\n")
        assert anyio.current_time() - start == pytest.approx(3)


# --- faults -----------------------------------------------------------------------------------------------------------


@in_memory
async def test_faults_when_set_then_the_client_meets_them(broker: Broker) -> None:
    broker.faults.plan(DelayReceipts(seconds=7))
    async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client:
        start = anyio.current_time()
        await client.send("/queue/a", b"1", receipt=True)
        assert anyio.current_time() - start == pytest.approx(7)

    broker.faults.plan(SlowWriting(bytes_per_second=100))
    start = anyio.current_time()
    async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)):
        assert anyio.current_time() - start > 0.5

    broker.faults.plan(SwallowReceipts(command=Command.SEND))
    async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client:
        with anyio.move_on_after(100) as waiting:
            await client.send("/queue/a", b"2", receipt=True)
        assert waiting.cancelled_caught
        assert broker.depth("/queue/a") == 2


@in_memory
async def test_faults_when_the_broker_stops_reading_then_goes_on_where_it_was(broker: Broker, client: Client) -> None:
    broker.faults.now(StallReading())
    await client.send("/queue/a", b"held")
    await wait_all_tasks_blocked()
    assert broker.depth("/queue/a") == 0

    broker.faults.resume()
    await broker.wait_until(lambda: broker.depth("/queue/a") == 1)


@in_memory
async def test_faults_when_the_link_is_dropped_then_the_client_says_so(broker: Broker) -> None:
    with pytest.raises(ConnectionLost):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            broker.faults.drop()
            await client.send("/queue/a", b"x", receipt=True)

    await broker.wait_until(lambda: not broker.sessions)


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


# --- listeners --------------------------------------------------------------------------------------------------------


async def confirmed_and_received(url: str, *, tls: ssl.SSLContext | None = None, body: bytes = b"tea") -> bytes:
    async with trio_stomp.connect(url, tls=tls or False) as client:
        await client.send("/queue/a", body, receipt=True)
        async with client.subscribe("/queue/a") as messages:
            message = await anext(messages)
            await message.ack()
            return message.body


@over_sockets
@pytest.mark.parametrize("websocket", [False, True], ids=["plain", "websocket"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["clear", "tls"])
async def test_broker_when_it_listens_then_serves_large_messages_through_each_door(
    websocket: bool, has_tls: bool, tmp_path: Path
) -> None:
    authority = trustme.CA()
    body = bytes(range(256)) * 4096
    async with open_broker(
        host="localhost" if has_tls else "127.0.0.1",
        tls=server_context(authority) if has_tls else None,
        websocket=websocket,
    ) as broker:
        tls = client_context(authority) if has_tls else None
        assert await confirmed_and_received(broker.url, tls=tls, body=body) == body
    with pytest.raises(ConnectError):
        await confirmed_and_received(broker.url, tls=tls)


@over_sockets
async def test_broker_when_it_listens_on_a_unix_socket_then_serves_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with open_broker(unix_socket=path) as broker:
        assert await confirmed_and_received(broker.url) == b"tea"
        await broker.stop_listening()
        assert not path.exists()
        await broker.start_listening()
        assert await confirmed_and_received(broker.url) == b"tea"
    assert not path.exists()


@over_sockets
async def test_broker_when_a_client_speaks_no_tls_then_goes_on_serving_others() -> None:
    authority = trustme.CA()
    async with open_broker(host="localhost", tls=server_context(authority)) as broker:
        async with await anyio.connect_tcp("localhost", broker.port) as stream:
            await stream.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" * 10)
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()

        assert await confirmed_and_received(broker.url, tls=client_context(authority)) == b"tea"


# --- the scripted peer ------------------------------------------------------------------------------------------------


@in_memory
async def test_peer_when_the_client_follows_the_script_then_answers_it() -> None:
    async with open_scripted_peer() as peer, anyio.create_task_group() as tasks:

        async def play() -> None:
            await peer.accept_connect()
            await peer.confirm(await peer.expect(Command.SEND, destination="/queue/a", body=b"tea"))
            await peer.expect_disconnect()

        tasks.start_soon(play)
        async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
            await client.send("/queue/a", b"tea", receipt=True)


@in_memory
async def test_peer_when_the_client_does_nothing_then_says_so_after_its_patience() -> None:
    async with open_scripted_peer(patience=3) as peer:
        start = anyio.current_time()
        with pytest.raises(ScriptMismatchError, match="expected a connection"):
            await peer.accept()
        assert anyio.current_time() - start == pytest.approx(3)
        link = peer.connect_stream()
        await peer.accept()
        await peer.expect_silence(10)
        await link.send_all(b"\n")
        with pytest.raises(ScriptMismatchError, match="silence"):
            await peer.expect_silence(10)


@over_sockets
async def test_peer_when_it_listens_then_a_client_connects() -> None:
    async with open_scripted_peer(listen=True) as peer, anyio.create_task_group() as tasks:

        async def play() -> None:
            await peer.accept_connect()
            await peer.expect_disconnect()

        tasks.start_soon(play)
        async with trio_stomp.connect(peer.url):
            pass


# --- memory links -----------------------------------------------------------------------------------------------------


@in_memory
async def test_links_when_the_buffer_is_full_then_the_sender_waits_for_the_reader() -> None:
    ours, theirs = open_memory_links(capacity_bytes=4)
    received = b""

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ours.send_all, b"0123456789")
        await wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await ours.send_all(b"x")
        while len(received) < 10:
            part = await theirs.receive_some()
            assert len(part) <= 4
            received += part
    assert received == b"0123456789"

    await ours.send_eof()
    assert await theirs.receive_some() == b""
    await theirs.aclose()
    with pytest.raises(anyio.BrokenResourceError):
        await open_closed_reader().send_all(b"x")


def open_closed_reader() -> MemoryLink:
    ours, theirs = open_memory_links()
    theirs.close()
    return ours


@in_memory
async def test_links_when_a_reader_is_canceled_as_bytes_come_then_they_wait_for_the_next() -> None:
    ours, theirs = open_memory_links()

    async def receive(scope: anyio.CancelScope) -> None:
        with scope:
            await theirs.receive_some()

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive, scope)
        await wait_all_tasks_blocked()
        await ours.send_all(b"tea")
        scope.cancel()
    rest = b"" if not scope.cancelled_caught else await theirs.receive_some()

    assert rest in {b"", b"tea"}


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
    class Bad(anyio.abc.ByteStream):
        async def send(self, item: bytes) -> None:
            raise AssertionError

        async def receive(self, max_bytes: int = 1) -> bytes:
            raise ZeroDivisionError

        async def send_eof(self) -> None:
            raise AssertionError

        async def aclose(self) -> None:
            pass

    async def main() -> None:
        async with open_broker(listen=False) as broker:
            broker._nursery.start_soon(broker.serve_stream, Bad())
            await asyncio.sleep(1)
            assert "a background task has failed" in caplog.text

    with pytest.raises(ZeroDivisionError):
        run_on("asyncio", main)
