"""Clients of brokers of a certain kind, over memory streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Unpack

import anyio

import trio_stomp
from trio_stomp import Client
from trio_stomp.testing import Broker, BrokerOptions, ScriptedPeer, open_broker, open_scripted_peer
from trio_stomp.types import ConnectOptions

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
    serve: Callable[[ScriptedPeer], Coroutine[object, object, None]], **options: Unpack[ConnectOptions]
) -> AsyncGenerator[Client]:
    """A client of a peer that does what `serve` says; without heart-beats, unless they are asked for."""
    options.setdefault("heart_beat", (0, 0))
    async with open_scripted_peer() as peer, anyio.create_task_group() as group:
        group.start_soon(serve, peer)  # noqa: ASYNC113  # it waits for the client anyway
        async with trio_stomp.connect_stream(peer.connect_stream(), **options) as client:  # type: ignore[misc]  # those it has
            yield client
