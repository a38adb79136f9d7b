"""How far a subscription has come in a stream, and where it goes on after a loss."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import Message, NotSupported, Settlement
from trio_stomp.session.subscription_state import StreamPosition
from trio_stomp.testing import BrokerOptions, open_broker


async def taken(count: int) -> list[Message]:
    """Messages with the offsets 10, 11, ..., each open."""
    async with (
        open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.10.8")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a") as subscription,
    ):
        for number in range(count):
            await client.send("/queue/a", b"", headers={"x-stream-offset": str(10 + number)})
        return [await anext(subscription) for _ in range(count)]


def test_position_when_nothing_was_taken_then_where_its_user_asked_to_begin() -> None:
    assert StreamPosition("next").resume() == "next"


async def test_position_when_messages_are_open_then_it_goes_on_with_the_oldest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    position, messages = StreamPosition("first"), await taken(4)
    for message in messages:
        position.took(message)
    assert position.resume() == 10
    messages[0]._settlement = Settlement.ACKED
    messages[2]._settlement = Settlement.ACKED
    assert position.resume() == 11
    messages[1]._settlement = Settlement.IN_TRANSACTION
    assert position.resume() == 11
    messages[1]._settlement = Settlement.ACKED
    assert position.resume() == 13


async def test_position_when_all_is_settled_then_it_goes_on_behind(autojump_clock: trio.testing.MockClock) -> None:
    position, messages = StreamPosition(0), await taken(2)
    for message in messages:
        position.took(message)
        message._settlement = Settlement.ACKED
    assert position.resume() == 12


async def test_position_when_a_message_has_no_offset_then_nothing_changes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a") as subscription,
    ):
        await client.send("/queue/a", b"")
        position = StreamPosition("first")
        position.took(await anext(subscription))
        assert position.resume() == "first"


async def test_nack_when_the_message_is_of_a_stream_then_refused_here(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.10.8")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", stream_offset="first") as subscription,
    ):
        await client.send("/queue/a", b"", headers={"x-stream-offset": "0"})
        message = await anext(subscription)
        with pytest.raises(NotSupported, match="RabbitMQ has no NACK"):
            await message.nack()
        await message.ack(receipt=True)
