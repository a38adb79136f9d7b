"""Subscriptions: taking messages, settling several at once, giving back what is left."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import BrokerError, Client, ConnectionLost, LocalProtocolError, Settlement, SubscriptionOverflow
from trio_stomp.protocol import Command
from trio_stomp.testing import Broker, BrokerOptions, open_broker


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


async def test_prefetch_when_set_then_no_more_are_under_way(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    await fill(client, "/queue/a", 20)
    async with client.subscribe("/queue/a", prefetch=5) as subscription:
        first = await anext(subscription)
        await trio.testing.wait_all_tasks_blocked()
        assert broker.unacknowledged("/queue/a") == 5
        assert subscription.statistics().buffered == 4
        await first.ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 5


async def test_leaving_when_messages_are_not_settled_then_they_go_back_in_order(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-UNSUB-1."""
    await fill(client, "/queue/a", 6)
    async with client.subscribe("/queue/a", prefetch=5) as subscription:
        await (await anext(subscription)).ack()
        await anext(subscription)
    await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
    assert [frame.body for frame in broker.messages("/queue/a")] == [b"1", b"2", b"3", b"4", b"5"]


async def test_leaving_when_rabbitmq_then_given_back_in_a_transaction_around_unsubscribe(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.10.8")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
    ):
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", prefetch=3) as subscription:
            await anext(subscription)
            await trio.testing.wait_all_tasks_blocked()
        await client.send("/queue/other", b"", receipt=True)
        received = broker.statistics().received
        assert received[Command.NACK] == 3
        assert received[Command.BEGIN] == received[Command.COMMIT] == received[Command.UNSUBSCRIBE] == 1
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.depth("/queue/a") == 3


async def test_client_mode_when_acked_then_all_earlier_ones_are_too(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-SUB-11."""
    await fill(client, "/queue/a", 4)
    async with client.subscribe("/queue/a", ack="client") as subscription:
        messages = [await anext(subscription) for _ in range(4)]
        await messages[2].ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 1
        assert [message.settlement for message in messages] == [Settlement.ACKED] * 3 + [Settlement.OPEN]
        assert broker.statistics().received[Command.ACK] == 1


async def test_client_mode_when_nacked_then_all_earlier_ones_are_too(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 11-NACK-3, 12-NACK-3."""
    await fill(client, "/queue/a", 3)
    async with client.subscribe("/queue/a", ack="client") as subscription:
        messages = [await anext(subscription) for _ in range(3)]
        await messages[1].nack(receipt=True)
        assert [message.settlement for message in messages] == [Settlement.NACKED] * 2 + [Settlement.OPEN]
        again = {(await anext(subscription)).body for _ in range(2)}
        assert again == {b"0", b"1"}


async def test_client_mode_when_rabbitmq_then_single_acks_spare_other_subscriptions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.10.8")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
    ):
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", ack="client") as subscription:
            assert subscription.ack_mode == "client"
            messages = [await anext(subscription) for _ in range(3)]
            await messages[1].ack(receipt=True)
            assert broker.statistics().received[Command.ACK] == 2
            assert broker.unacknowledged("/queue/a") == 1


async def test_individual_mode_when_a_later_one_is_acked_then_earlier_ones_stay_open(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-SUB-13."""
    await fill(client, "/queue/a", 3)
    async with client.subscribe("/queue/a") as subscription:
        messages = [await anext(subscription) for _ in range(3)]
        await messages[2].ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 2
        assert messages[0].settlement is Settlement.OPEN


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_ack_up_to_when_called_then_all_open_ones_up_to_it_are_settled(
    client: Client, broker: Broker, ack: str, autojump_clock: trio.testing.MockClock
) -> None:
    await fill(client, "/queue/a", 5)
    async with client.subscribe("/queue/a", ack=ack) as subscription:
        messages = await subscription.receive_batch(5, linger=1)
        await messages[1].ack()
        await subscription.ack_up_to(messages[3])
        await client.send("/queue/b", b"", receipt=True)
        assert broker.unacknowledged("/queue/a") == 1
        assert [message.settlement for message in messages] == [Settlement.ACKED] * 4 + [Settlement.OPEN]
        with pytest.raises(LocalProtocolError, match="it is settled"):
            await subscription.ack_up_to(messages[0])


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


async def test_subscription_when_refused_then_broker_error(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-SUB-4."""
    with pytest.raises(BrokerError):
        async with client.subscribe("/queue/a", selector="nonsense ("):
            raise AssertionError


async def test_subscription_when_it_overflowed_unseen_then_leaving_raises(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(SubscriptionOverflow, match="prefetch, which is 2"):
        async with client.subscribe("/queue/a", ack="auto", prefetch=2, overflow="error"):
            await fill(client, "/queue/a", 10)
            await client.send("/queue/b", b"", receipt=True)
            await trio.testing.wait_all_tasks_blocked()
    await client.send("/queue/b", b"the connection goes on", receipt=True)


async def test_drop_oldest_when_consumers_are_slow_then_the_newest_are_there(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async with client.subscribe("/topic/t", ack="auto", prefetch=3, overflow="drop-oldest") as subscription:
        await fill(client, "/topic/t", 10)
        await client.send("/queue/b", b"", receipt=True)
        await trio.testing.wait_all_tasks_blocked()
        assert [(await anext(subscription)).body for _ in range(3)] == [b"7", b"8", b"9"]
        assert subscription.statistics().dropped == 7
