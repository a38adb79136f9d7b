"""receive_batch() with linger: what a canceled call was waiting with stays for the next one."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.kit.loops import on_loops
from trio_stomp import Client
from trio_stomp.testing import Broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_receive_batch_when_cancelled_while_it_lingers_then_another_consumer_takes_its_messages(
    broker: Broker, client: Client
) -> None:
    taken: list[str] = []
    lingering = trio.CancelScope()
    async with client.subscribe("/queue/a") as subscription, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _linger() -> None:
            with lingering:
                await subscription.receive_batch(10, linger=60)

        await trio.testing.wait_all_tasks_blocked()

        @nursery.start_soon
        async def _take() -> None:
            async with await anext(subscription) as message:
                taken.append(message.text)

        await client.send("/queue/a", "1")
        await trio.sleep(1)
        assert taken == []
        lingering.cancel()
        await trio.sleep(1)
        assert taken == ["1"]
    assert broker.depth("/queue/a") == 0
