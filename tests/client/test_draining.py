"""How work() ends: within drain_timeout, and not before its last handler has ended."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_stomp import Client, Message
from trio_stomp.testing import Broker


async def test_drain_when_a_handler_ends_in_time_then_its_message_is_acknowledged_and_nothing_waits_longer(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async def handle(_message: Message) -> None:
        await trio.sleep(3)

    await client.send("/queue/a", "1", receipt=True)
    async with client.subscribe("/queue/a") as subscription:
        began = trio.current_time()
        with trio.move_on_after(1):
            await subscription.work(handle, drain_timeout=60)
        assert trio.current_time() - began == pytest.approx(3)
    await trio.testing.wait_all_tasks_blocked()
    assert broker.depth("/queue/a") == 0


async def test_work_when_a_cancelled_handler_cleans_up_then_it_returns_after_that(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    ended: list[float] = []

    async def handle(_message: Message) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(20)
            ended.append(trio.current_time())

    await client.send("/queue/a", "1", receipt=True)
    async with client.subscribe("/queue/a") as subscription:
        began = trio.current_time()
        with trio.move_on_after(1):
            await subscription.work(handle, drain_timeout=2)
        assert [each - began for each in ended] == pytest.approx([23])
        assert trio.current_time() == ended[0]
