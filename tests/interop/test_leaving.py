"""Leaving a subscription while its queue is busy: what was on its way goes back, and the connection lives on."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio

from tests.interop.bench import Bench, take, whatever_comes
from trio_stomp import DisconnectResult, Message, NotSupportedError

# Longer than any of the brokers takes to put messages back; then order can be told.
SETTLED = 0.5
# Far less than any heart-beat, and enough for a loaded machine.
PROMPTLY = 3.0


def locks_what_is_left(bench: Bench) -> bool:
    """Whether what was delivered stays locked until the connection ends: in 1.0 RabbitMQ is sent no NACK to free it."""
    return bench.broker.name == "rabbitmq" and bench.version == "1.0"


@pytest.mark.parametrize("prefetch", [1, 4, 10])
async def test_leaving_when_messages_were_acked_just_before_then_all_others_go_to_the_next_consumer_in_order(
    bench: Bench, prefetch: int
) -> None:
    queue = bench.queue()
    async with bench.pair() as (client, other):
        bodies = await bench.fill(client, queue, 40)
        async with client.subscribe(queue, ack=bench.modes[0], prefetch=prefetch) as subscription:
            for _ in range(prefetch):
                # The credit that each ACK gives back makes the broker send one more, which meets the UNSUBSCRIBE.
                await (await anext(subscription)).ack()
        if locks_what_is_left(bench):
            assert await client.disconnect() is DisconnectResult.RECEIPT
        await trio.sleep(SETTLED)
        async with other.subscribe(queue, ack=bench.modes[0], prefetch=100) as rest:
            assert [message.text for message in await take(rest, 40 - prefetch)] == bodies[prefetch:]


async def test_leaving_when_another_consumer_waits_then_it_gets_the_rest_promptly(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.pair() as (client, other), AsyncExitStack() as later:
        bodies = await bench.fill(client, queue, 30)
        async with client.subscribe(queue, ack=bench.modes[0], prefetch=30) as subscription:
            await (await take(subscription, 1))[0].ack(receipt=True)
            await trio.sleep(SETTLED)
            # All of them are held by the first one now, or are on their way to it.
            rest = await later.enter_async_context(other.subscribe(queue, ack=bench.modes[0], prefetch=100))
            assert await whatever_comes(rest) == []
        if locks_what_is_left(bench):
            assert await client.disconnect() is DisconnectResult.RECEIPT
        with trio.fail_after(PROMPTLY):
            taken = [(await anext(rest)).text for _ in range(29)]
        assert sorted(taken) == sorted(bodies[1:])


async def test_leaving_when_its_transaction_is_open_then_what_that_has_acknowledged_does_not_come_again(
    bench: Bench,
) -> None:
    queue = bench.queue()
    async with bench.pair() as (client, other):
        bodies = await bench.fill(client, queue, 3)
        async with client.transaction() as transaction, client.subscribe(queue, ack=bench.modes[0]) as subscription:
            await transaction.ack(await anext(subscription))
            # The subscription is left before COMMIT.
        if locks_what_is_left(bench):
            assert await client.disconnect() is DisconnectResult.RECEIPT
        await trio.sleep(SETTLED)
        async with other.subscribe(queue, ack=bench.modes[0], prefetch=100) as rest:
            assert [message.text for message in await take(rest, 2)] == bodies[1:]
            assert await whatever_comes(rest) == []


async def test_leaving_when_repeated_on_one_connection_then_no_message_is_lost(bench: Bench) -> None:
    queue = bench.queue()
    taken: list[str] = []
    if locks_what_is_left(bench):
        async with bench.connect() as client:
            async with client.subscribe(queue, ack="client"):
                pass
            with pytest.raises(NotSupportedError, match="one such subscription for each connection"):
                async with client.subscribe(queue, ack="client"):
                    pytest.fail("its ACK could reach what the one before has left locked")
        return
    async with bench.pair() as (client, other):
        bodies = await bench.fill(client, queue, 60)
        for _ in range(25):
            async with client.subscribe(queue, ack=bench.modes[0], prefetch=5) as subscription:
                message = await anext(subscription)
                await message.ack()
                taken.append(message.text)
        async with other.subscribe(queue, ack=bench.modes[0]) as rest:
            taken += [message.text for message in await take(rest, 35)]
            assert await whatever_comes(rest) == []
        assert sorted(taken) == sorted(bodies)
        await client.send(queue, "the connection lives", receipt=True)


async def test_leaving_in_auto_mode_when_more_is_on_its_way_then_the_connection_lives(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.connect() as client:
        await bench.fill(client, queue, 500)
        async with client.subscribe(queue, ack="auto", prefetch=10) as subscription:
            await take(subscription, 1)
        # What was on its way is lost, as auto mode has it; what was not is for the next one.
        await bench.left(client, queue)
        await client.send(queue, "the connection lives", receipt=True)


async def test_client_mode_when_1_0_and_acks_cross_then_one_subscription_for_a_connection(bench: Bench) -> None:
    one, other = bench.queue(), bench.queue()
    async with bench.connect() as client:
        await bench.fill(client, one, 3)
        await bench.fill(client, other, 2)
        async with client.subscribe(one, ack="client") as first:
            taken = await take(first, 3)
            if locks_what_is_left(bench):
                with pytest.raises(NotSupportedError, match="one such subscription for each connection"):
                    async with client.subscribe(other, ack="client"):
                        pytest.fail("its ACK would reach over the other subscription")
            else:
                async with client.subscribe(other, ack="client") as second:
                    await (await take(second, 2))[1].ack(receipt=True)
            await taken[1].ack(receipt=True)
    async with bench.connect() as client:
        assert await bench.left(client, one) == ["2"]
        assert await bench.left(client, other) == (["0", "1"] if locks_what_is_left(bench) else [])


async def test_client_mode_when_the_second_of_three_is_acked_then_only_the_third_is_left(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.connect() as client:
        await bench.fill(client, queue, 3)
        async with client.subscribe(queue, ack="client") as subscription:
            await (await take(subscription, 3))[1].ack(receipt=True)
    async with bench.connect() as client:
        assert await bench.left(client, queue) == ["2"]


async def test_client_individual_when_the_second_of_three_is_acked_then_the_others_are_left(newest: Bench) -> None:
    queue = newest.queue()
    async with newest.connect() as client:
        await newest.fill(client, queue, 3)
        async with client.subscribe(queue) as subscription:
            await (await take(subscription, 3))[1].ack(receipt=True)
    async with newest.connect() as client:
        assert await newest.left(client, queue) == ["0", "2"]


async def test_handling_when_it_raises_then_the_message_is_not_lost(newest: Bench) -> None:
    queue = newest.queue("dlq-src.")

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("this message cannot be handled")

    async with newest.connect() as client:
        await client.send(queue, "poison", headers={"persistent": "true"}, receipt=True)
        async with client.subscribe(queue) as subscription:
            (message,) = await take(subscription, 1)
            with pytest.raises(ValueError, match="cannot be handled"):
                async with message:
                    await handle(message)
    async with newest.connect() as client:
        found = await newest.left(client, queue) or await newest.left(client, "/queue/dlq")
        assert "poison" in found
