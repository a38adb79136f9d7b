"""A subscription for the length of a block: it is left however the block ends, and its failure is not lost."""

from __future__ import annotations

import pytest
import trio.testing

from trio_stomp import Client, SubscriptionOverflow
from trio_stomp.testing import Broker


async def test_block_when_it_ends_then_the_broker_has_no_subscription_any_more(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async with client.subscribe("/queue/a"):
        assert broker.consumers("/queue/a") == 1

    await broker.wait_until(lambda: broker.consumers("/queue/a") == 0)


async def test_block_when_it_raises_then_the_subscription_is_left_and_the_error_goes_its_way(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    error = KeyError("mine")

    with pytest.raises(KeyError) as raised:
        async with client.subscribe("/queue/a"):
            raise error

    assert raised.value is error
    await broker.wait_until(lambda: broker.consumers("/queue/a") == 0)


async def test_block_when_its_subscription_failed_and_nobody_iterated_then_leaving_raises_it(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(SubscriptionOverflow, match="more than 1 messages waited"):
        async with client.subscribe("/topic/t", ack="auto", prefetch=1, overflow="error"):
            for _ in range(3):
                await client.send("/topic/t", b"", receipt=True)
