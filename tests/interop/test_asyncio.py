"""The client on asyncio at the real brokers: many messages, cancellation, workers."""

from __future__ import annotations

import asyncio

import trio_stomp
from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import Client, Message

COUNT = 500


@on_asyncio
async def test_messages_when_sent_and_acknowledged_without_waiting_then_none_is_left(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("asyncio")
    async with trio_stomp.connect(broker.url()) as client:
        for number in range(COUNT):
            await client.send(queue, b"%d" % number)
        await client.send(queue, b"last", receipt=True)
        taken: list[bytes] = []
        async with client.subscribe(queue) as subscription:
            async for message in subscription:
                async with message:
                    taken.append(message.body)
                if message.body == b"last":
                    break
        assert taken == [*(b"%d" % number for number in range(COUNT)), b"last"]

        # All were acknowledged: what comes next is what is sent next.
        await client.send(queue, b"new", receipt=True)
        async with client.subscribe(queue) as subscription, await anext(subscription) as message:
            assert message.body == b"new"


@on_asyncio
async def test_consumers_when_canceled_now_and_then_then_no_message_is_lost_or_handled_twice(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("asyncio-cancel")
    taken: list[int] = []

    async def consume(client: Client) -> None:
        async with client.subscribe(queue, prefetch=10) as subscription:
            async for message in subscription:
                async with message:
                    number = int(message.body)
                # Acknowledged, as nothing can cancel the block.
                taken.append(number)

    async with trio_stomp.connect(broker.url()) as client:
        async with client.publisher() as publisher:
            for number in range(COUNT):
                await publisher.send(queue, b"%d" % number)
        while len(taken) < COUNT:
            before = len(taken)
            task = asyncio.create_task(consume(client))
            async with asyncio.timeout(30):
                while len(taken) < min(COUNT, before + 50):  # noqa: ASYNC110  # at no moment of its own
                    await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    assert sorted(taken) == list(range(COUNT))


@on_asyncio
async def test_work_when_stopped_then_every_message_is_handled_once(broker: Broker, destination: Destination) -> None:
    queue = destination("asyncio-work")
    handled: list[int] = []

    async with trio_stomp.connect(broker.url()) as client:
        async with client.publisher() as publisher:
            for number in range(100):
                await publisher.send(queue, b"%d" % number)
        for _ in range(2):
            half = asyncio.Event()
            wanted = 50 if not handled else 100

            async def handle(message: Message, wanted: int = wanted, half: asyncio.Event = half) -> None:
                await asyncio.sleep(0)
                handled.append(int(message.body))
                if len(handled) >= wanted:
                    half.set()

            async with client.subscribe(queue, prefetch=10) as subscription, asyncio.TaskGroup() as tasks:
                pool = tasks.create_task(subscription.work(handle, workers=4))
                await half.wait()
                pool.cancel()
    assert sorted(handled) == list(range(100))
