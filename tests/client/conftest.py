"""An embedded broker without sockets, and a client of it, on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio.testing

import trio_stomp
from trio_stomp import Client
from trio_stomp.testing import Broker, open_broker


@pytest.fixture
async def broker(autojump_clock: trio.testing.MockClock) -> AsyncIterator[Broker]:
    """A broker that is reached over memory streams."""
    del autojump_clock
    async with open_broker(listen=False) as opened:
        yield opened


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Client]:
    """A connected client of `broker`."""
    async with trio_stomp.connect_stream(broker.connect_stream(), login="guest", passcode="guest") as connected:
        yield connected
