"""An embedded broker without sockets and a client of raw frames, in whichever loop the test runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import Broker, BrokerOptions, open_broker
from trio_stomp.types import Version


@pytest.fixture
def options() -> BrokerOptions:
    """The settings of `broker`: tests choose others by a parameter of this name."""
    return BrokerOptions()


@pytest.fixture
async def broker(options: BrokerOptions) -> AsyncGenerator[Broker]:
    async with open_broker(listen=False, options=options) as opened:
        yield opened


@pytest.fixture
def version() -> Version:
    """The version that `client` is connected with: tests choose others by a parameter of this name."""
    return Version.V1_2


@pytest.fixture
async def stranger(broker: Broker, version: Version) -> RawClient:
    """A client of `broker` that has not sent CONNECT yet."""
    return RawClient(broker.connect_stream(), version=version)


@pytest.fixture
async def client(broker: Broker, version: Version) -> RawClient:
    """Connected to `broker`."""
    return await connected(broker, version=version)
