"""An ERROR right behind CONNECTED, in the same bytes or later: it ends that connection, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
import trio

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.peer import Peer, PeerOptions
from tests.kit.reconnecting import RawHost, reconnecting
from tests.kit.tapped_stream import TappedStream
from trio_stomp import (
    BrokerError,
    ConnectionLost,
    DeliveryStatus,
    RemoteProtocolError,
    StompError,
    SubscriptionOverflow,
)
from trio_stomp.testing import ScriptedPeer, open_scripted_peer
from trio_stomp.types import Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]

VERSIONS = ("1.0", "1.1", "1.2")
SERVERS = ("any/1", "RabbitMQ/3.13", "ActiveMQ/6.1", "ActiveMQ-Artemis/2.40")

ERROR = b"ERROR\nmessage:going down\n\nbye\0\n"
NONSENSE = b"NONSENSE\n\n\0\n"


def connected(version: str, server: str) -> bytes:
    return b"CONNECTED\nversion:%b\nserver:%b\nheart-beat:0,0\n\n\0\n" % (version.encode(), server.encode())


async def send_split(stream: trio.abc.Stream, given: bytes, split: int) -> None:
    for part in (given[:split], given[split:]):
        if part:
            await stream.send_all(part)
        await trio.sleep(0.1)


async def answer_all(stream: trio.abc.Stream, server: str) -> None:
    """Confirm what asks for it, and deliver one message to each subscription."""
    peer = Peer(stream, PeerOptions(server=server))

    def subscribe(frame: Frame) -> None:
        peer.confirm(frame)
        peer.deliver(frame.headers["id"], b"here")

    peer.on[Command.SUBSCRIBE] = subscribe
    await peer.serve()


Serve = Callable[[trio.abc.Stream, int], Awaitable[None]]


def going_down_once(first: bytes, second: bytes, split: int, server: str) -> Serve:
    """The first connection is lost once something was sent, the second is answered by `second`, the third works."""

    async def serve(stream: trio.abc.Stream, number: int) -> None:
        if number > 2:
            await answer_all(stream, server)
            return
        await stream.receive_some()
        if number == 2:
            await send_split(stream, second, split)
            return
        await stream.send_all(first)
        await stream.receive_some()

    return serve


@asynccontextmanager
async def client_of(serve: Serve, version: str, *, reconnect: bool = True) -> AsyncGenerator[trio_stomp.Client]:
    async with trio.open_nursery() as nursery:
        host = RawHost(serve, nursery)
        policy = trio_stomp.Reconnect(random=lambda: 1.0) if reconnect else None
        with trio.fail_after(1000):
            async with reconnecting(host, versions=[version], disconnect_timeout=1, reconnect=policy) as client:
                yield client
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tail", [ERROR, NONSENSE])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_error_when_it_comes_behind_connected_then_subscriptions_and_messages_go_on_with_the_next_connection(
    version: str, server: str, tail: bytes
) -> None:
    first = connected(version, server)
    for split in range(0, len(first + tail), 1 if server == SERVERS[0] else 7):
        delivered: list[str] = []
        confirmed: list[DeliveryStatus] = []

        async def consume(client: trio_stomp.Client, delivered: list[str] = delivered) -> None:
            async with client.subscribe("/queue/a", ack="auto") as subscription:
                async for message in subscription:
                    delivered.append(message.text)
                    return

        async with client_of(going_down_once(first, first + tail, split, server), version) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume, client)
                # A header that is escaped has to be encoded anew on each connection.
                await client.send("/queue/b", b"", headers={"at": "12:30"}, receipt=True)
                confirmed.append(DeliveryStatus.CONFIRMED)
            assert client.statistics().reconnections == 2
        assert delivered == ["here"]
        assert confirmed == [DeliveryStatus.CONFIRMED]


@pytest.mark.parametrize(
    ("tail", "kind", "words"), [(ERROR, BrokerError, "going down: bye"), (NONSENSE, RemoteProtocolError, "NONSENSE")]
)
@pytest.mark.parametrize("version", VERSIONS)
async def test_error_when_it_comes_behind_the_first_connected_then_each_verb_says_what_the_broker_said(
    version: str, tail: bytes, kind: type[StompError], words: str
) -> None:
    first = connected(version, "any/1")
    for split in range(len(first), len(first + tail)):

        async def serve(stream: trio.abc.Stream, number: int, split: int = split) -> None:
            del number
            await stream.receive_some()
            await send_split(stream, first + tail, split)

        async with client_of(serve, version, reconnect=False) as client:
            with pytest.raises(kind, match=words):
                await client.send("/queue/a", b"", headers={"at": "12:30"}, receipt=True)
            with pytest.raises(kind, match=words):
                async with client.subscribe("/queue/a"):
                    raise AssertionError
            with pytest.raises(kind, match=words):
                async with client.transaction():
                    raise AssertionError


async def test_error_when_a_subscription_overflows_in_the_same_bytes_then_both_are_told_as_they_are() -> None:
    message = b"MESSAGE\nsubscription:s-1\nmessage-id:1\ndestination:/queue/a\n\nhere\0\n"

    async def serve(stream: trio.abc.Stream, number: int) -> None:
        del number
        await stream.receive_some()
        await stream.send_all(connected("1.2", "any/1"))
        await stream.receive_some()
        await stream.send_all(message * 3 + ERROR)

    async with client_of(serve, "1.2", reconnect=False) as client:
        with pytest.raises(SubscriptionOverflow):
            async with client.subscribe("/queue/a", ack="auto", prefetch=2, overflow="error") as subscription:
                await trio.sleep(1)
                await anext(subscription)
        with pytest.raises(BrokerError, match="going down"):
            await client.send("/queue/a", b"")


class _ClosedForWriting(TappedStream):
    """A link whose other end takes nothing any more, but has said something before."""

    closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            raise anyio.BrokenResourceError from BrokenPipeError(32, "Broken pipe")
        await super().send_all(data)


async def test_error_when_a_write_fails_before_it_is_read_then_the_error_is_raised() -> None:
    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect()
        await trio.sleep(1.2)
        await peer.send_bytes(ERROR)

    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)
        stream = _ClosedForWriting(peer.connect_stream())
        with pytest.raises(BrokerError, match="going down"):
            async with trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client:
                stream.closed = True
                await trio.sleep(1)
                await client.send("/queue/a", b"1", receipt=True)


async def test_write_when_it_fails_and_nothing_is_read_then_lost_within_a_second() -> None:
    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(peer.accept_connect)
        stream = _ClosedForWriting(peer.connect_stream())
        began = trio.current_time()
        with pytest.raises(ConnectionLost, match="Broken pipe"):
            async with trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client:
                stream.closed = True
                with trio.fail_after(1):
                    await client.send("/queue/a", b"1", receipt=True)
        assert trio.current_time() - began < 1
