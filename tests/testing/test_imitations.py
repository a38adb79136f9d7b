"""Our client, with its profile for a broker, against the embedded broker that imitates it: all that it allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

import trio_stomp
from trio_stomp.brokers import GENERIC, profile_for
from trio_stomp.testing import Broker, BrokerOptions, open_broker

SERVERS = (
    None,
    BrokerOptions().server,
    "RabbitMQ/3.10.8",
    "RabbitMQ/4.3.6",
    "ActiveMQ/6.1.8",
    "ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine",
)
AckName = Literal["auto", "client", "client-individual"]
# STOMP 1.0 has no client-individual.
WAYS: tuple[tuple[str, AckName], ...] = (
    ("1.0", "auto"),
    ("1.0", "client"),
    ("1.1", "auto"),
    ("1.1", "client"),
    ("1.1", "client-individual"),
    ("1.2", "auto"),
    ("1.2", "client"),
    ("1.2", "client-individual"),
)
# Where a NACK brings a message back.
_REQUEUING = {"RabbitMQ", "trio_stomp.testing", GENERIC.name}
Case = Callable[[Broker, trio_stomp.Client, AckName], Awaitable[None]]


async def _settled(broker: Broker, client: trio_stomp.Client, name: str = "/queue/a") -> tuple[int, int]:
    """How many messages wait and how many are unacknowledged, once the broker has executed all frames."""
    await client.send("/queue/last", b"", receipt=True)
    return broker.depth(name), broker.unacknowledged(name)


async def _acks(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    for number in range(4):
        await client.send("/queue/a", str(number), receipt=True)
    async with client.subscribe("/queue/a", ack=ack) as orders:
        messages = [await anext(orders) for _ in range(4)]
        if ack == "client":
            await orders.ack_up_to(messages[-1])
        elif ack == "client-individual":
            for message in reversed(messages):
                await message.ack()
    assert await _settled(broker, client) == (0, 0)


async def _nacks(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    if ack == "auto":
        return
    for persistence, requeue in product(([], [("persistent", "true")]), (None, True, False)):
        await client.send("/queue/a", b"", receipt=True, headers=persistence)
        async with client.subscribe("/queue/a", ack=ack) as orders:
            message = await anext(orders)
            try:
                await message.nack(requeue=requeue)
            except trio_stomp.NotSupportedError:
                await message.ack()
                continue
            if requeue is not False and client.profile.name in _REQUEUING:
                message = await anext(orders)
                assert message.redelivered
                await message.ack()
        assert await _settled(broker, client) == (0, 0)


async def _leaving(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    for number in range(4):
        await client.send("/queue/a", str(number), receipt=True)
    async with client.subscribe("/queue/a", ack=ack, prefetch=2) as orders:
        await anext(orders)
    assert await _settled(broker, client) == (0 if ack == "auto" else 4, 0)
    async with client.subscribe("/queue/a", ack="auto") as orders:
        for number in range(broker.depth("/queue/a")):
            assert (await anext(orders)).text == str(number)


async def _transactions(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    await client.send("/queue/a", b"1", receipt=True)
    await client.send("/queue/a", b"2", receipt=True)
    async with client.subscribe("/queue/a", ack=ack) as orders:
        message = await anext(orders)
        async with client.transaction() as transaction:
            await transaction.send("/queue/out", b"")
            if ack != "auto":
                await transaction.ack(message)
        message = await anext(orders)
        with pytest.raises(KeyError):
            async with client.transaction() as transaction:
                await transaction.send("/queue/out", b"")
                if ack != "auto":
                    await transaction.ack(message)
                raise KeyError
        if ack != "auto":
            await message.ack()
    assert await _settled(broker, client) == (0, 0)
    assert broker.depth("/queue/out") == 1


async def _nack_in_transaction(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    if ack == "auto" or client.profile.name not in _REQUEUING:
        return
    await client.send("/queue/a", b"", receipt=True)
    async with client.subscribe("/queue/a", ack=ack) as orders:
        async with client.transaction() as transaction:
            await transaction.nack(await anext(orders))
        message = await anext(orders)
        await message.ack()
    assert await _settled(broker, client) == (0, 0)


async def _durable(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    async def take(orders: trio_stomp.Subscription[object], text: str) -> None:
        message = await anext(orders)
        assert message.text == text
        if ack != "auto":
            await message.ack()

    async with client.subscribe("/topic/t", ack=ack, durable="d") as orders:
        await client.send("/topic/t", "1", receipt=True)
        await take(orders, "1")
    await client.send("/topic/t", "2", receipt=True)
    async with client.subscribe("/topic/t", ack=ack, durable="d") as orders:
        await take(orders, "2")
        await orders.delete()
    await client.send("/topic/t", "lost", receipt=True)
    async with client.subscribe("/topic/t", ack=ack, durable="d") as orders:
        await client.send("/topic/t", "3", receipt=True)
        await take(orders, "3")
        await orders.delete()


async def _requests(_broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    async def serve() -> None:
        async with client.subscribe("/queue/double", ack=ack) as requests:
            async for request in requests:
                headers = [("correlation-id", request.headers["correlation-id"])]
                await client.send(request.headers["reply-to"], request.text * 2, headers=headers)
                if ack != "auto":
                    await request.ack()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        for text in "abc":
            reply = await client.request("/queue/double", text, timeout=5)
            assert reply.text == text * 2
        nursery.cancel_scope.cancel()


async def _no_local(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    async with client.subscribe("/topic/t", ack=ack, no_local=True) as orders:
        await client.send("/topic/t", "own", receipt=True)
        broker.publish("/topic/t", "another's")
        message = await anext(orders)
        assert message.text == "another's"
        if ack != "auto":
            await message.ack()


async def _browsing(broker: Broker, client: trio_stomp.Client, ack: AckName) -> None:
    await client.send("/queue/a", b"1", receipt=True)
    async with client.subscribe("/queue/a", ack=ack, browse=True) as orders:
        assert [message.text async for message in orders] == ["1"]
    assert broker.depth("/queue/a") == 1


CASES: dict[str, Case] = {
    case.__name__.strip("_"): case
    for case in (
        _acks,
        _nacks,
        _leaving,
        _transactions,
        _nack_in_transaction,
        _durable,
        _requests,
        _no_local,
        _browsing,
    )
}


@pytest.mark.parametrize(("version", "ack"), WAYS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", CASES)
async def test_client_when_a_broker_is_imitated_then_its_profile_works(
    name: str, server: str | None, version: str, ack: AckName, autojump_clock: MockClock
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server=server)) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=[version], headers={"client-id": "c"}) as client,
    ):
        assert client.profile == profile_for(server)
        try:
            await CASES[name](broker, client, ack)
        except trio_stomp.NotSupportedError:
            assert version == "1.0" or name in {"durable", "no_local", "browsing"}
