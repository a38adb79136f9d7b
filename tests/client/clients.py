"""Clients of brokers of a certain kind, over memory streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

import trio_stomp
from trio_stomp import Client
from trio_stomp.testing import Broker, BrokerOptions, ScriptedPeer, open_broker, open_scripted_peer

__all__ = ["client_of", "client_talking_to"]


@asynccontextmanager
async def client_of(
    server: str, versions: Sequence[str] = ("1.0", "1.1", "1.2")
) -> AsyncGenerator[tuple[Client, Broker]]:
    """A client of an embedded broker that says it is `server`, such as ``RabbitMQ/4.1``."""
    async with (
        open_broker(listen=False, options=BrokerOptions(server=server)) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=versions) as client,
    ):
        yield client, broker


@asynccontextmanager
async def client_talking_to(
    serve: Callable[[ScriptedPeer], Awaitable[None]], outbox_bytes: int = 1_000_000
) -> AsyncGenerator[Client]:
    """A client of a peer that does what `serve` says."""
    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)  # noqa: ASYNC113  # it waits for the client anyway
        async with trio_stomp.connect_stream(
            peer.connect_stream(), outbox_bytes=outbox_bytes, heart_beat=(0, 0)
        ) as client:
            yield client
