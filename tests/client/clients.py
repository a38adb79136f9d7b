"""Clients of brokers of a certain kind, over memory streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Unpack

import anyio
import anyio.lowlevel
import trio
import trio.testing

import trio_stomp
from tests.kit.peer import Peer, PeerOptions
from trio_stomp import Client, Message, Subscription
from trio_stomp.testing import Broker, BrokerOptions, DropLink, ScriptedPeer, open_broker, open_scripted_peer
from trio_stomp.types import ConnectOptions

__all__ = ["client_of", "client_of_peer", "client_talking_to", "delivered", "fill", "lose_after", "pieces_of"]


async def fill(client: Client, destination: str, count: int) -> None:
    """Send `count` messages with the bodies 0, 1, 2 and so on."""
    for number in range(count):
        await client.send(destination, b"%d" % number)


async def delivered(peer: Peer, subscription: Subscription, body: bytes = b"1") -> Message:
    """Let a peer deliver a message, and receive it."""
    peer.deliver(subscription.id, body)
    return await anext(subscription)


async def lose_after(seconds: float, broker: Broker) -> None:
    """Lose the connections of a broker after a while."""
    await anyio.sleep(seconds)
    broker.faults.now(DropLink())


async def pieces_of(*pieces: bytes) -> AsyncGenerator[bytes]:  # noqa: ASYNC900  # what a program sends
    """A body that is given in pieces."""
    for piece in pieces:
        await anyio.lowlevel.checkpoint()
        yield piece


@asynccontextmanager
async def client_of(
    server: str | None, versions: Sequence[str] = ("1.0", "1.1", "1.2"), headers: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[Client, Broker]]:
    """A client of an embedded broker that says it is `server`, such as ``RabbitMQ/4.1``."""
    async with (
        open_broker(listen=False, options=BrokerOptions(server=server)) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=versions, headers=headers) as client,
    ):
        yield client, broker


@asynccontextmanager
async def client_of_peer(
    peer_options: PeerOptions | None = None, **options: Unpack[ConnectOptions]
) -> AsyncGenerator[tuple[Client, Peer]]:
    """A client of a peer that the test tells what to do; without heart-beats, unless they are asked for."""
    options.setdefault("heart_beat", (0, 0))
    options.setdefault("disconnect_timeout", 1)
    ours, theirs = trio.testing.memory_stream_pair()
    peer = Peer(theirs, peer_options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)  # noqa: ASYNC113  # what comes before it runs waits in the stream
        async with trio_stomp.connect_stream(ours, **options) as client:  # type: ignore[misc]  # those it has
            yield client, peer


@asynccontextmanager
async def client_talking_to(
    serve: Callable[[ScriptedPeer], Coroutine[object, object, None]], **options: Unpack[ConnectOptions]
) -> AsyncGenerator[Client]:
    """A client of a peer that does what `serve` says; without heart-beats, unless they are asked for."""
    options.setdefault("heart_beat", (0, 0))
    async with open_scripted_peer() as peer, anyio.create_task_group() as group:
        group.start_soon(serve, peer)  # noqa: ASYNC113  # it waits for the client anyway
        async with trio_stomp.connect_stream(peer.connect_stream(), **options) as client:  # type: ignore[misc]  # those it has
            yield client
