"""Sending, acknowledging, refusing, transacting: the same scenarios at each broker and in each version."""

from __future__ import annotations

import pytest
import trio

from tests.interop.bench import Bench, take
from tests.interop.broker_facts import Nacked
from trio_stomp import Client, NotSupportedError
from trio_stomp.types import AckName, Settlement

PERSISTENT = {"persistent": "true"}


async def left_for_another(bench: Bench, queue: str) -> list[str]:
    """What another connection finds in a queue, and takes out of it."""
    async with bench.connect() as other:
        return await bench.left(other, queue)


async def test_body_when_ten_mebibytes_or_the_most_then_it_arrives(newest: Bench) -> None:
    queue = newest.queue()
    # What is left of a frame for its body.
    body = (bytes(range(256)) * (40 * 1024))[: newest.facts.frame_bytes and newest.facts.frame_bytes - 1024]
    async with newest.connect() as client:
        await client.send(queue, body, receipt=True)
        async with client.subscribe(queue) as subscription:
            (message,) = await take(subscription, 1)
            assert message.body == body
            await message.ack(receipt=True)


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
async def test_ack_modes_when_settled_then_nothing_is_left(bench: Bench, ack: AckName) -> None:
    queue = bench.queue()
    async with bench.connect() as client:
        if bench.version == "1.0" and ack == "client-individual":
            with pytest.raises(NotSupportedError):
                async with client.subscribe(queue, ack=ack):
                    pytest.fail("1.0 has no such mode")
            return
        bodies = await bench.fill(client, queue, 10)
        async with client.subscribe(queue, ack=ack) as subscription:
            messages = await take(subscription, 10)
            assert [message.text for message in messages] == bodies
            if ack == "client":
                await messages[-1].ack(receipt=True)
            if ack == "client-individual":
                for message in reversed(messages):
                    await message.ack(receipt=True)
    left = await left_for_another(bench, queue)
    # Artemis settles an automatic message just after it has sent it: the last one comes again if the client has left
    # before that.
    comes_again = bodies[-1:] if ack == "auto" and bench.facts.profile == "artemis" else []
    assert left in ([], comes_again)


@pytest.mark.parametrize("persistent", [True, False])
async def test_nack_when_refused_then_as_the_broker_does(bench: Bench, persistent: bool) -> None:
    queue = bench.queue()
    expected = bench.facts.nacked_persistent if persistent else bench.facts.nacked_transient
    async with bench.connect() as client:
        await client.send(queue, b"1", headers=PERSISTENT if persistent else {}, receipt=True)
        async with client.subscribe(queue, ack=bench.modes[0]) as subscription:
            (message,) = await take(subscription, 1)
            if bench.version == "1.0" or expected is Nacked.REFUSED_HERE:
                with pytest.raises(NotSupportedError):
                    await message.nack()
                await message.ack(receipt=True)
            else:
                await message.nack(receipt=True)
                if expected is Nacked.REQUEUED:
                    (again,) = await take(subscription, 1)
                    assert again.redelivered
                    await again.ack(receipt=True)
    assert await left_for_another(bench, queue) == []


@pytest.mark.parametrize("commits", [True, False])
async def test_transaction_when_committed_then_send_and_ack_take_effect_together_and_else_neither(
    bench: Bench, commits: bool
) -> None:
    source, target = bench.queue(), bench.queue()
    async with bench.connect() as client:
        await client.send(source, "1", headers=PERSISTENT, receipt=True)
        async with client.subscribe(source, ack=bench.modes[0]) as subscription:
            (message,) = await take(subscription, 1)
            async with client.transaction() as transaction:
                await transaction.send(target, "2", headers=PERSISTENT)
                await transaction.ack(message)
                assert await left_for_another(bench, target) == []
                if not commits:
                    transaction.abort()
            assert message.settlement is (Settlement.ACKED if commits else Settlement.UNSETTLED)
            if not commits:
                await message.ack(receipt=True)
    assert await left_for_another(bench, target) == (["2"] if commits else [])
    assert await left_for_another(bench, source) == []


async def test_many_messages_when_sent_and_acked_then_all_in_order(newest: Bench) -> None:
    queue = newest.queue()
    count = 20_000

    async def send(client: Client) -> None:
        for number in range(count):
            await client.send(queue, b"%d" % number)
        await client.send(queue, b"end", receipt=True)

    with trio.fail_after(60):
        async with newest.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            async with client.subscribe(queue, prefetch=500) as subscription:
                for body in (*(b"%d" % number for number in range(count)), b"end"):
                    async with await anext(subscription) as message:
                        assert message.body == body
        assert await left_for_another(newest, queue) == []
