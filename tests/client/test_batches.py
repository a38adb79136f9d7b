"""receive_batch() with linger: what a canceled call was waiting with stays for the next one."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.kit.loops import on_loops
from trio_stomp import Client
from trio_stomp.testing import Broker
from trio_stomp.types import AckName

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
async def test_receive_batch_when_cancelled_while_it_lingers_then_no_message_is_lost(
    client: Client, ack: AckName
) -> None:
    async with client.subscribe("/queue/a", ack=ack) as subscription:
        for number in range(3):
            await client.send("/queue/a", str(number))
            with trio.move_on_after(1):
                await subscription.receive_batch(10, linger=5)
        assert subscription.statistics().delivered == 0
        batch = await subscription.receive_batch(10, linger=1)
        assert [message.text for message in batch] == ["0", "1", "2"]


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
