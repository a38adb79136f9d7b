"""Settling messages: one, all up to one, and never those of another subscription."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import Client, LocalProtocolError, Settlement
from trio_stomp.protocol import Command
from trio_stomp.testing import Broker, BrokerOptions, open_broker


async def fill(client: Client, destination: str, count: int) -> None:
    for number in range(count):
        await client.send(destination, b"%d" % number)


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
