"""Brokers without receipts, transactions or acknowledgments: refused at once, in place of waiting for ever."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

import trio_stomp
from trio_stomp import Client, NotSupportedError, OutgoingMessage, StompError
from trio_stomp.testing import Broker


@pytest.fixture
async def narrow(broker: Broker) -> AsyncGenerator[Client]:
    """A client that takes the broker for Spring's."""
    async with trio_stomp.connect_stream(broker.connect_stream(), profile="spring") as client:
        yield client


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_subscribe_when_nothing_can_be_acknowledged_then_the_error_names_auto(
    narrow: Client, ack: trio_stomp.types.AckName
) -> None:
    with pytest.raises(NotSupportedError, match=f"use ack='auto', not '{ack}'"):
        async with narrow.subscribe("/topic/a", ack=ack):
            raise AssertionError


async def test_subscribe_when_in_auto_mode_then_messages_come(narrow: Client) -> None:
    async with narrow.subscribe("/topic/a", ack="auto") as messages:
        await narrow.send("/topic/a", "hello")
        assert (await anext(messages)).text == "hello"


async def test_send_when_nothing_is_confirmed_then_refused_and_not_sent(narrow: Client, broker: Broker) -> None:
    with pytest.raises(NotSupportedError, match="sends no RECEIPT"):
        await narrow.send("/queue/a", b"x", receipt=True)
    with pytest.raises(StompError, match="sends no RECEIPT"):
        await narrow.send_many([OutgoingMessage("/queue/a", b"x")], receipt=True)
    async with narrow.publisher() as publisher:
        with pytest.raises(NotSupportedError, match="sends no RECEIPT"):
            await publisher.send("/queue/a", b"x")
    await narrow.send("/queue/a", b"y")
    await broker.wait_until(lambda: broker.depth("/queue/a") > 0)
    assert [message.body for message in broker.messages("/queue/a")] == [b"y"]


async def test_transaction_when_there_are_none_then_refused(narrow: Client) -> None:
    with pytest.raises(NotSupportedError, match="has no transactions"):
        async with narrow.transaction():
            raise AssertionError
    with pytest.raises(NotSupportedError, match="has no transactions"):
        await narrow.run_transaction(lambda transaction: transaction.send("/queue/a", b"x"))
