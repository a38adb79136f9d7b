"""The proof that a rerun asks for: only a message that nobody consumes, and that is in delivery all the same."""

from __future__ import annotations

import trio

import trio_stomp
from tests.interop.bench import Bench, take
from tests.interop.held import counters, held
from trio_stomp.testing import BrokerOptions, open_broker


async def test_held_when_a_message_waits_or_has_its_consumer_then_the_broker_does_not_hold_it(newest: Bench) -> None:
    if newest.broker.name != "artemis":
        return
    waits, taken, emptied = newest.queue(), newest.queue(), newest.queue()
    async with newest.connect() as client:
        for queue in (waits, taken, emptied):
            await client.send(queue, "x", receipt=True)
        assert await newest.left(client, emptied) == ["x"]
        async with client.subscribe(taken) as subscription:
            (message,) = await take(subscription, 1)
            seen = await counters(client, taken)
            assert (seen["MessageCount"], seen["DeliveringCount"], seen["ConsumerCount"]) == (1, 1, 1)
            assert await held(newest.broker.url(), [waits, taken, emptied, newest.queue()]) == {}
            await message.ack(receipt=True)
        assert await newest.left(client, waits) == ["x"]


async def test_held_when_it_is_in_delivery_to_nobody_then_that_is_the_broker() -> None:
    """The fault comes once in some hundred cuts: its counters, as they were seen, from a broker that plays Artemis."""
    counted = {"MessageCount": 1, "DeliveringCount": 1, "ConsumerCount": 0}

    async def answer(client: trio_stomp.Client) -> None:
        async with client.subscribe("activemq.management") as requests:
            async for request in requests:
                assert request.headers["_AMQ_ResourceName"] == "queue.interop.1"
                headers = {
                    "correlation-id": request.headers["correlation-id"],
                    "_AMQ_OperationSucceeded": "true",
                }
                value = counted[request.headers["_AMQ_Attribute"]]
                await client.send(request.headers["reply-to"], f"[{value}]", headers=headers)
                await request.ack()

    async with (
        open_broker(options=BrokerOptions(bare_queues=True)) as broker,
        trio_stomp.connect(broker.url) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(answer, client)
        assert await held(broker.url, ["/queue/interop.1"]) == {"/queue/interop.1": counted}
        nursery.cancel_scope.cancel()
