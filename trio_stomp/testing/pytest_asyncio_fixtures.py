"""The fixture of `pytest_plugin` that only pytest-asyncio can make. Imported only where that is used.

In its strict mode, pytest-asyncio runs no other async fixtures than its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest_asyncio

from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions

__all__ = ["_stomp_broker_on_asyncio"]


@pytest_asyncio.fixture
async def _stomp_broker_on_asyncio(stomp_broker_options: BrokerOptions) -> AsyncGenerator[Broker]:
    """`stomp_broker`, by pytest-asyncio."""
    async with open_broker(options=stomp_broker_options) as broker:
        yield broker
