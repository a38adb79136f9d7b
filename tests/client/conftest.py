"""Brokers without sockets, and a client of one, on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

import trio_stomp
from tests.kit.peer import Peer
from tests.kit.reconnecting import Host, PeerHost
from trio_stomp import Client
from trio_stomp.testing import Broker, open_broker
from trio_stomp.types import Command, Frame


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker that is reached over memory streams.

    pytest-trio takes the clock from the arguments of the test itself: tests that use it ask for autojump_clock too.
    """
    async with open_broker(listen=False) as opened:
        yield opened


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Client]:
    """A connected client of `broker`."""
    async with trio_stomp.connect_stream(broker.connect_stream()) as connected:
        yield connected


@pytest.fixture
def host(broker: Broker) -> Host:
    """`broker`, as a host that may go down."""
    return Host(broker)


@pytest.fixture
async def refusing() -> AsyncIterator[PeerHost]:
    """A broker that closes, with an ERROR, at each SEND to /queue/closed, and delivers all others to subscriptions."""

    def prepare(peer: Peer, _number: int) -> None:
        def send(frame: Frame) -> None:
            if frame.headers["destination"] == "/queue/closed":
                peer.error("access refused")
                peer.hang_up()
                return
            peer.confirm(frame)
            for subscribed in peer.of(Command.SUBSCRIBE):
                peer.deliver(subscribed.headers["id"], frame.body)

        peer.on[Command.SEND] = send

    async with anyio.create_task_group() as group:
        yield PeerHost(group, prepare)
        group.cancel_scope.cancel()
