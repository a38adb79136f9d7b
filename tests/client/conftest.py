"""An embedded broker without sockets, and a client of it, on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import trio_stomp
from tests.kit.reconnecting import Host
from trio_stomp import Client
from trio_stomp.testing import Broker, open_broker


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
