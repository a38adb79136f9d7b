"""How work() ends: not before its last handler has ended."""

from __future__ import annotations

import pytest
import trio

from tests.kit.loops import on_loops
from trio_stomp import Client, Message

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_work_when_a_cancelled_handler_cleans_up_then_it_returns_after_that(client: Client) -> None:
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
