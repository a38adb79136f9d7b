"""Consumers that do not keep up, and those who must not suffer from them."""

from __future__ import annotations

import pytest
import trio

from tests.interop.bench import Bench, take, whatever_comes

MANY = 3000
# Together far more than the buffers of the sockets hold.
BODY = "x" * 2000


async def pour(bench: Bench, queue: str) -> None:
    async with bench.connect() as client:
        for number in range(MANY):
            await client.send(queue, f"{number} {BODY}")


def numbers(bodies: list[str]) -> list[int]:
    return [int(body.partition(" ")[0]) for body in bodies]


async def test_overflow_when_wait_then_the_reader_is_held_and_all_come_in_order_and_receipts_too(newest: Bench) -> None:
    queue, other = newest.queue(), newest.queue()
    await pour(newest, queue)
    async with newest.connect() as client:
        async with client.subscribe(queue, ack="auto", prefetch=10) as subscription:
            await trio.sleep(0.3)
            held = subscription.statistics().buffered
            assert client.statistics().reads_paused >= 1
            bodies: list[str] = []
            while len(bodies) < MANY:
                bodies += [message.text for message in await take(subscription, 300)]
                await client.send(other, "", receipt=True)
        assert held < MANY
        assert numbers(bodies) == list(range(MANY))


@pytest.mark.parametrize("idle_first", [True, False])
async def test_prefetch_when_one_then_a_slow_consumer_holds_one_message_and_starves_nobody(
    bench: Bench, idle_first: bool
) -> None:
    queue = bench.queue()
    async with bench.pair() as (one, other):
        if not idle_first:
            await bench.fill(one, queue, 20)
        async with one.subscribe(queue, ack=bench.modes[0], prefetch=1) as slow:
            if idle_first:
                await bench.fill(one, queue, 20)
            (held,) = await take(slow, 1)
            async with other.subscribe(queue, ack=bench.modes[0], prefetch=1) as quick:
                taken: list[str] = []
                for _ in range(19):
                    (message,) = await take(quick, 1)
                    taken.append(message.text)
                    await message.ack()
                assert held.text not in taken
                assert await whatever_comes(quick) == []
            await held.ack(receipt=True)


async def test_prefetch_when_given_then_the_broker_sends_no_more_where_it_counts_messages(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.connect() as client:
        for number in range(200):
            await client.send(queue, f"{number} {BODY}")
        async with client.subscribe(queue, ack=bench.modes[0], prefetch=20) as subscription:
            await trio.sleep(0.4)
            buffered = subscription.statistics().buffered
            # Artemis counts bytes: 20 messages are given room for 20 KiB, and what is larger comes in smaller numbers.
            assert buffered == 20 or (client.profile.name == "ActiveMQ Artemis" and 1 <= buffered <= 25)


async def test_receipts_when_many_are_awaited_at_once_then_each_comes(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.connect() as client:
        async with trio.open_nursery() as nursery:
            for number in range(200):
                headers = {"persistent": "true"} if number % 2 else {}

                async def send(body: str = str(number), headers: dict[str, str] = headers) -> None:
                    await client.send(queue, body, headers=headers, receipt=True)

                nursery.start_soon(send)
        assert client.statistics().receipts_pending == 0
        assert sorted(map(int, await bench.left(client, queue))) == list(range(200))
