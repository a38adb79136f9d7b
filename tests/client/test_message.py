"""A message: what it says, and how it is settled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of
from tests.kit.loops import on_loops
from trio_stomp import (
    Client,
    ConnectionLost,
    LocalProtocolError,
    Message,
    NotSupportedError,
    OutgoingMessage,
    StaleMessage,
)
from trio_stomp.testing import Broker
from trio_stomp.types import AckName, Command, Settlement

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@asynccontextmanager
async def taken(client: Client, ack: AckName = "client-individual") -> AsyncGenerator[Message]:
    """A message of a queue, in the block of its subscription."""
    await client.send("/queue/a", b"1", receipt=True)
    async with client.subscribe("/queue/a", ack=ack) as subscription:
        yield await anext(subscription)


async def test_message_when_taken_then_it_tells_what_it_is(client: Client) -> None:
    await client.send("/queue/a", b'{"a": [1]}', content_type="application/json")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        assert message.body == b'{"a": [1]}'
        assert message.json() == {"a": [1]}
        assert message.destination == "/queue/a"
        assert message.id
        assert message.content_type == "application/json"
        assert message.redelivered is False
        assert message.subscription is subscription


async def test_ack_when_confirmed_then_the_broker_has_forgotten_it(client: Client, broker: Broker) -> None:
    """Rows 1x-SUB-9, 12-ACK-1: the embedded broker's ack header differs from its message-id."""
    async with taken(client) as message:
        assert broker.unacknowledged("/queue/a") == 1
        await message.ack(receipt=True)
        assert message.settlement is Settlement.ACKED
        assert broker.unacknowledged("/queue/a") == 0


async def test_ack_when_settled_already_then_refused_here(client: Client) -> None:
    async with taken(client) as message:
        await message.ack()
        for settle in (message.ack, message.nack):
            with pytest.raises(LocalProtocolError, match="it is settled"):
                await settle()


async def test_ack_when_auto_mode_then_refused_here(client: Client) -> None:
    """Row 1x-SUB-8."""
    async with taken(client, ack="auto") as message:
        async with message:
            assert message.settlement is Settlement.AUTO
        for settle in (message.ack, message.nack):
            with pytest.raises(LocalProtocolError, match=r"its subscription is in auto mode, which needs no ACK$"):
                await settle()


async def test_ack_when_the_subscription_is_left_then_stale(client: Client, broker: Broker) -> None:
    async with taken(client) as message:
        pass
    with pytest.raises(StaleMessage, match="redelivers it"):
        await message.ack()
    # Leaving a block of its own is no error: the work is done, and is going to be done again.
    async with message:
        pass
    await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
    assert broker.depth("/queue/a") == 1


async def test_ack_when_the_link_is_gone_then_connection_lost(broker: Broker, client: Client) -> None:
    async with taken(client) as message:
        broker.drop_connections()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost):
            await message.ack()


async def test_block_when_it_ends_well_then_acked_and_when_it_raises_then_nacked(client: Client) -> None:
    """Rows 12-SUB-12, 1x-NACK-4."""
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        with pytest.raises(ValueError, match="bad body"):
            async with message:
                raise ValueError("bad body")  # a stand-in for a handler's error
        assert message.settlement is Settlement.NACKED
        async with await anext(subscription) as again:
            assert again.redelivered
        assert again.settlement is Settlement.ACKED


async def test_block_when_the_body_has_settled_it_then_left_alone(client: Client, broker: Broker) -> None:
    async with taken(client) as message:
        async with message:
            await message.ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 0


async def test_block_when_cancelled_then_unsettled_because_nothing_is_wrong_with_the_message(
    client: Client, broker: Broker
) -> None:
    async with taken(client) as message:
        with trio.move_on_after(1):
            async with message:
                await trio.sleep_forever()
        assert message.settlement is Settlement.UNSETTLED
        assert broker.unacknowledged("/queue/a") == 1


async def test_nack_when_the_broker_would_drop_the_message_then_not_supported(caplog: pytest.LogCaptureFixture) -> None:
    async with client_of("ActiveMQ-Artemis/2") as (client, broker):
        async with taken(client) as message:
            with pytest.raises(NotSupportedError, match=r"Artemis would drop the message"):
                await message.nack()
            with pytest.raises(ValueError, match="handler"):
                async with message:
                    raise ValueError("handler")  # a stand-in for a handler's error
            assert message.settlement is Settlement.UNSETTLED
            assert "stays unsettled" in caplog.text
        await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
        assert broker.depth("/queue/a") == 1


async def test_nack_when_1_0_then_not_supported(broker: Broker) -> None:
    """Row 10-NACK-2."""
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client:
        async with taken(client, ack="client") as message:
            with pytest.raises(NotSupportedError, match=r"1\.0 has no NACK"):
                await message.nack()


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_block_when_there_are_many_then_each_is_acknowledged_once_and_plainly(
    client: Client, broker: Broker, ack: AckName
) -> None:
    """Also where the ACK has to wait for its turn."""
    async with client.subscribe("/queue/a", ack=ack, prefetch=1000) as subscription:
        await client.send_many(OutgoingMessage("/queue/a", b"") for _ in range(200))
        await trio.testing.wait_all_tasks_blocked()
        answered = client.statistics().receipts_received
        for _ in range(200):
            async with await anext(subscription) as message:
                pass
            assert message.settlement is Settlement.ACKED
        assert client.statistics().receipts_received == answered
        await client.send("/queue/b", b"", receipt=True)
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.statistics().received[Command.ACK] == 200
        assert Command.NACK not in broker.statistics().received


async def test_settlement_when_assigned_then_refused(client: Client) -> None:
    async with taken(client) as message:
        with pytest.raises(AttributeError):
            message.settlement = Settlement.ACKED  # type: ignore[misc]  # what a program without type checker would do
