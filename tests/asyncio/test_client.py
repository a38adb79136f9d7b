"""The client on asyncio: its verbs."""

from __future__ import annotations

import asyncio

import pytest

import trio_stomp.asyncio
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import (
    ConnectError,
    ConnectionClosed,
    ConnectionLost,
    OutgoingMessage,
)
from trio_stomp.asyncio import Client, Message
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import Phase, Settlement, TransactionState, Version

QUEUE = "/queue/a"


def bodies(broker: ThreadedBroker, queue: str = QUEUE) -> list[bytes]:
    return broker.call(lambda inner: [message.body for message in inner.messages(queue)])


def depth(broker: ThreadedBroker, queue: str = QUEUE) -> int:
    return broker.call(lambda inner: inner.depth(queue))


def phase(client: Client) -> Phase:
    return client.state.phase


def settlement(message: Message) -> Settlement:
    return message.settlement


async def lose(broker: ThreadedBroker, client: Client) -> None:
    broker.call(Broker.drop_connections)
    with pytest.raises(ConnectionLost):
        await client.wait_closed()


# --- connecting -------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_client_when_connected_then_shows_what_was_agreed_upon(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        assert client.version is Version.V1_2
        assert (client.server or "").startswith("trio-stomp-testing")
        assert client.session
        assert client.profile.name == "trio_stomp.testing"
        assert client.heart_beat.client_sends_ms
        assert phase(client) is Phase.CONNECTED
        assert client.statistics().frames_sent == 0
    assert phase(client) is Phase.CLOSED
    assert client.statistics().frames_sent == 1


@on_asyncio
async def test_connect_when_the_broker_is_not_there_then_connect_error_and_no_thread_is_left() -> None:
    with pytest.raises(ConnectError):
        async with trio_stomp.asyncio.connect("stomp://127.0.0.1:1"):
            pytest.fail("connected")


@on_asyncio
async def test_connect_when_the_body_raises_then_that_same_exception_and_closed_at_once(broker: ThreadedBroker) -> None:
    error = ValueError("mine")
    opened: list[Client] = []
    with pytest.raises(ValueError, match="mine") as caught:
        async with trio_stomp.asyncio.connect(broker.url) as client:
            opened.append(client)
            raise error
    assert caught.value is error
    assert phase(opened[0]) is Phase.CLOSED
    with pytest.raises(ConnectionClosed):
        await opened[0].send(QUEUE, b"1")


@on_asyncio
async def test_open_when_closed_then_disconnected_and_a_second_close_does_nothing(broker: ThreadedBroker) -> None:
    client = await trio_stomp.asyncio.open(broker.url)
    await client.send(QUEUE, b"1")
    await client.aclose()
    await client.aclose()
    assert phase(client) is Phase.CLOSED
    assert bodies(broker) == [b"1"]


@on_asyncio
async def test_open_when_closed_by_another_task_then_the_same(broker: ThreadedBroker) -> None:
    client = await asyncio.create_task(trio_stomp.asyncio.open(broker.url))
    await asyncio.create_task(client.aclose())
    assert phase(client) is Phase.CLOSED


# --- sending ----------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_send_when_not_confirmed_then_in_the_order_of_the_calls(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        await client.send(QUEUE, b"1")
        # What is not plain keeps its place.
        await client.send(QUEUE, b"2", headers={"a": "line\nend"})
        await client.send(QUEUE, "3", headers={"a": "b"})
        await client.send_many([OutgoingMessage(QUEUE, "4"), OutgoingMessage(QUEUE, "ü")])
        await client.send(QUEUE, b"6", receipt=True)
        assert bodies(broker) == [b"1", b"2", b"3", b"4", "ü".encode(), b"6"]


# --- receiving --------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_subscription_when_iterated_then_each_message_can_be_acknowledged(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        for number in range(300):
            await client.send(QUEUE, b"%d" % number)
        taken: list[bytes] = []
        async with client.subscribe(QUEUE, prefetch=50) as subscription:
            async for message in subscription:
                taken.append(message.body)
                await message.ack()
                assert message.settlement is Settlement.ACKED
                if len(taken) == 300:
                    break
        assert taken == [b"%d" % number for number in range(300)]
        await client.send("/queue/after", b"", receipt=True)
        assert depth(broker) == 0


# --- transactions -----------------------------------------------------------------------------------------------------


@on_asyncio
async def test_transaction_when_its_block_ends_then_all_of_it_takes_effect(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        message = await anext(subscription)
        async with client.transaction() as transaction:
            await transaction.send("/queue/b", b"2")
            await transaction.ack(message)
            assert settlement(message) is Settlement.IN_TRANSACTION
            assert depth(broker, "/queue/b") == 0
        assert transaction.state is TransactionState.COMMITTED
        assert settlement(message) is Settlement.ACKED
        assert bodies(broker, "/queue/b") == [b"2"]
