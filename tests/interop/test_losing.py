"""Losing the link without a word: what is raised, what the broker delivers again, what became of transactions."""

from __future__ import annotations

import pytest
import trio

from tests.chaos.wires import Befalls, Wire
from tests.interop.bench import PATIENCE, Bench, take
from trio_stomp import BrokerError, Client, ConnectionLost, NotSupportedError, OutcomeUnknown, TransactionLost


async def test_link_when_cut_then_everybody_who_waits_or_comes_later_is_told(bench: Bench, wire: Wire) -> None:
    queue = bench.queue()
    async with bench.connect(url=wire.url) as client:
        async with client.subscribe(queue, ack=bench.modes[0]) as subscription:
            wire.befall(Befalls.RESET)
            with pytest.raises(ConnectionLost):
                await anext(subscription)
            with pytest.raises(ConnectionLost):
                await client.send(queue, "too late")
            with pytest.raises(ConnectionLost):
                await client.wait_closed()


async def test_link_when_cut_then_what_was_not_settled_is_delivered_again_in_order(bench: Bench, wire: Wire) -> None:
    queue = bench.queue()
    async with bench.connect() as other:
        bodies = await bench.fill(other, queue, 10)
        async with bench.connect(url=wire.url) as client:
            async with client.subscribe(queue, ack=bench.modes[0]) as subscription:
                first, *_ = await take(subscription, 4)
                assert not first.redelivered
                await first.ack(receipt=True)
                wire.befall(Befalls.RESET)
                with pytest.raises(ConnectionLost):
                    await client.wait_closed()
        async with other.subscribe(queue, ack=bench.modes[0]) as subscription:
            again = await take(subscription, 9)
            assert [message.text for message in again] == bodies[1:]
            # The three that a consumer had taken. Artemis was seen to mark all of them, and none of them.
            assert all(message.redelivered for message in again[:3]) or not bench.facts.says_redelivered
            await again[-1].ack(receipt=True)


async def test_transaction_when_the_link_is_cut_before_commit_then_nothing_of_it_took_effect(
    bench: Bench, wire: Wire
) -> None:
    source, target = bench.queue(), bench.queue()
    async with bench.connect() as other:
        await bench.fill(other, source, 1)
        async with bench.connect(url=wire.url) as client:
            async with client.subscribe(source, ack=bench.modes[0]) as subscription:
                (message,) = await take(subscription, 1)
                with pytest.raises(TransactionLost):
                    async with client.transaction() as transaction:
                        await transaction.send(target, "never", headers={"persistent": "true"})
                        await transaction.ack(message)
                        # So that the broker has it all.
                        await client.send(bench.queue(), "", receipt=True)
                        wire.befall(Befalls.RESET)
                        await trio.sleep(0.2)
        assert await bench.left(other, target) == []
        assert await bench.left(other, source) == ["0"]


async def test_transaction_when_the_link_falls_silent_at_commit_then_the_outcome_is_unknown(
    newest: Bench, wire: Wire
) -> None:
    async with newest.connect(url=wire.url, heart_beat=(1, 1)) as client:
        with pytest.raises(OutcomeUnknown):
            async with client.transaction() as transaction:
                await transaction.send(newest.queue(), "perhaps", headers={"persistent": "true"})
                await client.send(newest.queue(), "", receipt=True)
                wire.befall(Befalls.SILENCE)


async def refuse_in_transaction(client: Client, queue: str) -> None:
    async with client.subscribe(queue) as subscription:
        (message,) = await take(subscription, 1)
        async with client.transaction() as transaction:
            await transaction.nack(message)
        (again,) = await take(subscription, 1)
        assert again.redelivered
        await again.ack(receipt=True)


async def test_transaction_when_a_message_is_refused_in_it_then_as_the_broker_does(newest: Bench) -> None:
    queue = newest.queue()
    async with newest.connect() as client:
        await newest.fill(client, queue, 1)
        if newest.broker.name == "rabbitmq":
            await refuse_in_transaction(client, queue)
        else:
            with pytest.raises(NotSupportedError):
                await refuse_in_transaction(client, queue)
    async with newest.connect() as client:
        assert await newest.left(client, queue) == ([] if newest.broker.name == "rabbitmq" else ["0"])


async def test_subscribe_when_the_selector_is_bad_then_refused_by_who_knows_selectors(newest: Bench) -> None:
    async with newest.connect() as client:
        # Where the broker would ignore it, it is refused here.
        with pytest.raises(BrokerError if newest.facts.selects else NotSupportedError):
            async with client.subscribe(newest.queue(), selector="= = ="):
                pytest.fail("the broker took a bad selector")


async def test_loss_when_the_broker_closes_then_connection_lost(newest: Bench) -> None:
    with trio.fail_after(PATIENCE), pytest.raises((ConnectionLost, BrokerError)):
        async with newest.connect(heart_beat=(0, 0)) as client:
            # A frame that the broker cannot read ends the session at each of them.
            client._session.connection.outbox.append(b"NONSENSE\nk\n\n\0SEND\nk\n\n\0")
            await client.wait_closed()
