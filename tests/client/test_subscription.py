"""Subscriptions: taking messages, settling several at once, giving back what is left."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import Client, ConnectionLost
from trio_stomp.testing import Broker


async def fill(client: Client, destination: str, count: int) -> None:
    for number in range(count):
        await client.send(destination, b"%d" % number)


async def test_iteration_when_messages_wait_then_in_order(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await fill(client, "/queue/a", 300)
    taken: list[bytes] = []
    async with client.subscribe("/queue/a", prefetch=7) as subscription:
        async for message in subscription:
            async with message:
                taken.append(message.body)
            if len(taken) == 300:
                break
    assert taken == [b"%d" % number for number in range(300)]


async def test_iteration_when_two_tasks_share_it_then_each_message_goes_to_one(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    taken: list[bytes] = []

    async def work(subscription: trio_stomp.Subscription) -> None:
        async for message in subscription:
            async with message:
                taken.append(message.body)
                await trio.lowlevel.checkpoint()

    async with client.subscribe("/queue/a", prefetch=10) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(work, subscription)
        nursery.start_soon(work, subscription)
        await fill(client, "/queue/a", 100)
        while len(taken) < 100:  # noqa: ASYNC110  # virtual time: no event tells of the last one
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert sorted(taken) == sorted(b"%d" % number for number in range(100))


async def test_iteration_when_the_subscription_is_left_then_it_stops(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async with client.subscribe("/queue/a") as subscription:
        pass
    assert [message async for message in subscription] == []
    assert await subscription.receive_batch(10) == []


async def test_receive_batch_when_more_come_then_no_more_than_asked(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await fill(client, "/queue/a", 10)
    async with client.subscribe("/queue/a") as subscription:
        assert len(await subscription.receive_batch(4, linger=1)) == 4
        assert len(await subscription.receive_batch(100, linger=1)) == 6


async def test_receive_batch_when_few_come_then_it_lingers_no_longer_than_told(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        start = trio.current_time()
        assert len(await subscription.receive_batch(10, linger=2)) == 1
        assert trio.current_time() - start == pytest.approx(2, abs=0.5)


async def test_subscription_when_the_link_is_lost_then_iteration_raises(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a") as subscription:
            await anext(subscription)
            broker.drop_connections()
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionLost):
                await anext(subscription)


async def test_subscription_when_auto_and_the_link_is_lost_then_what_came_is_handed_out_first(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            await broker.wait_until(lambda: broker.depth("/queue/a") == 0)
            await trio.testing.wait_all_tasks_blocked()
            broker.drop_connections()
            await trio.testing.wait_all_tasks_blocked()
            assert [(await anext(subscription)).body for _ in range(3)] == [b"0", b"1", b"2"]
            with pytest.raises(ConnectionLost):
                await anext(subscription)


async def test_drop_oldest_when_consumers_are_slow_then_the_newest_are_there(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async with client.subscribe("/topic/t", ack="auto", prefetch=3, overflow="drop-oldest") as subscription:
        await fill(client, "/topic/t", 10)
        await client.send("/queue/b", b"", receipt=True)
        await trio.testing.wait_all_tasks_blocked()
        assert [(await anext(subscription)).body for _ in range(3)] == [b"7", b"8", b"9"]
        assert subscription.statistics().dropped == 7
