"""Sending, acknowledging, refusing, transacting: the same scenarios at each broker and in each version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

import trio_stomp
from tests.interop.broker_facts import Broker, Nacked
from trio_stomp import Client, NotSupportedError
from trio_stomp.types import AckName, Settlement

Destination = Callable[[str], str]

PERSISTENT = {"persistent": "true"}


def individual(version: str) -> AckName:
    """The ack mode that settles least: 1.0 has no client-individual."""
    return "client" if version == "1.0" else "client-individual"


async def is_empty(broker: Broker, queue: str) -> bool:
    """Whether a queue has nothing for a new consumer within half a second."""
    async with trio_stomp.connect(broker.url()) as client, client.subscribe(queue, ack="auto") as subscription:
        with trio.move_on_after(0.5):
            await anext(subscription)
            return False
        return True


async def take(client: Client, queue: str, ack: AckName = "client-individual") -> trio_stomp.Message:
    """Take and settle one message."""
    async with client.subscribe(queue, ack=ack) as subscription, await anext(subscription) as message:
        pass
    return message


async def test_bodies_when_binary_or_text_then_they_arrive_unchanged(
    broker: Broker, version: str, destination: Destination
) -> None:
    queue = destination("bodies")
    sent: list[bytes | str] = [bytes(range(256)), b"\0", b"", "čaj 😀", "", b"plain"]
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            for body in sent:
                await client.send(queue, body, receipt=True)
            async with client.subscribe(queue, ack=individual(version)) as subscription:
                for body in sent:
                    async with await anext(subscription) as message:
                        assert (message.text if isinstance(body, str) else message.body) == body


async def test_headers_when_they_need_escapes_then_they_arrive_unchanged(
    broker: Broker, version: str, destination: Destination
) -> None:
    queue = destination("headers")
    headers = {"colon": "a:b:c", "utf8": "čaj 😀", "blank": "", "inner": "a  b"}
    if version != "1.0":
        headers |= {"escapes": "line\nbreak \\ back", "spaces": " both "}
        if broker.facts.header_names is not None:
            headers[broker.facts.header_names] = "name"
    if version == "1.2":
        headers["cr"] = "a\rb"
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            await client.send(queue, b"x", headers=headers, receipt=True)
            message = await take(client, queue, individual(version))
            assert {name: message.headers.get(name) for name in headers} == headers


async def test_body_when_ten_mebibytes_or_the_most_then_it_arrives(broker: Broker, destination: Destination) -> None:
    queue = destination("large")
    # What is left of a frame for its body.
    body = (bytes(range(256)) * (40 * 1024))[: broker.facts.frame_bytes and broker.facts.frame_bytes - 1024]
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(queue, body, receipt=True)
            assert (await take(client, queue)).body == body


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
async def test_ack_modes_when_settled_then_nothing_is_left(
    broker: Broker, version: str, ack: AckName, destination: Destination
) -> None:
    queue = destination("modes")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            if version == "1.0" and ack == "client-individual":
                with pytest.raises(NotSupportedError):
                    async with client.subscribe(queue, ack=ack):
                        raise AssertionError
                return
            for number in range(10):
                await client.send(queue, b"%d" % number)
            async with client.subscribe(queue, ack=ack) as subscription:
                messages = [await anext(subscription) for _ in range(10)]
                assert [message.body for message in messages] == [b"%d" % number for number in range(10)]
                if ack == "client":
                    await messages[-1].ack(receipt=True)
                if ack == "client-individual":
                    for message in reversed(messages):
                        await message.ack(receipt=True)
        assert await is_empty(broker, queue)


async def test_client_mode_when_acked_then_another_subscription_of_the_connection_is_spared(
    broker: Broker, destination: Destination
) -> None:
    first, second = destination("first"), destination("second")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(first, b"1", receipt=True)
            await client.send(second, b"2", receipt=True)
            async with client.subscribe(first, ack="client") as a, client.subscribe(second, ack="client") as b:
                message = await anext(a)
                other = await anext(b)
                await other.ack(receipt=True)
                assert message.settlement is Settlement.UNSETTLED
        async with trio_stomp.connect(broker.url()) as client:
            assert (await take(client, first)).body == b"1"
        assert await is_empty(broker, second)


async def test_loss_when_messages_are_not_settled_then_they_come_again(
    broker: Broker, version: str, destination: Destination
) -> None:
    queue = destination("loss")
    with trio.fail_after(30):
        with trio.CancelScope() as scope:
            async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
                await client.send(queue, b"1", receipt=True)
                async with client.subscribe(queue, ack=individual(version)) as subscription:
                    assert not (await anext(subscription)).redelivered
                    # Cancelled: the link is closed without a word.
                    scope.cancel()
                    await trio.sleep_forever()
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            again = await take(client, queue, individual(version))
            assert again.body == b"1"
            assert again.redelivered or not broker.facts.says_redelivered


async def test_leaving_when_messages_are_buffered_then_another_consumer_gets_them_in_order(
    broker: Broker, version: str, destination: Destination
) -> None:
    queue = destination("leaving")
    with trio.fail_after(30):
        async with (
            trio_stomp.connect(broker.url(), **broker.options(version)) as client,
            trio_stomp.connect(broker.url()) as other,
        ):
            for number in range(20):
                await client.send(queue, b"%d" % number, receipt=True)
            async with client.subscribe(queue, ack=individual(version), prefetch=50) as subscription:
                first = await anext(subscription)
                await first.ack(receipt=True)
                await anext(subscription)
                # What crosses UNSUBSCRIBE on its way is given back too, but later.
                while subscription.statistics().buffered < 18:  # noqa: ASYNC110  # the broker is another process
                    await trio.sleep(0.01)
            # When this is confirmed, the broker has taken back what was given back before.
            await client.send(queue, b"20", receipt=True)
            if broker.name == "rabbitmq" and version == "1.0":
                # 1.0 has no NACK to give them back with: they stay locked until this connection ends.
                await client.disconnect()
            async with other.subscribe(queue) as rest:
                bodies: list[bytes] = []
                while len(bodies) < 20:
                    async with await anext(rest) as message:
                        bodies.append(message.body)
            assert bodies == [b"%d" % number for number in range(1, 21)]


@pytest.mark.parametrize("persistent", [True, False])
async def test_nack_when_refused_then_as_the_broker_does(
    broker: Broker, version: str, destination: Destination, persistent: bool
) -> None:
    queue = destination("nack")
    facts = broker.facts
    expected = facts.nacked_persistent if persistent else facts.nacked_transient
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            await client.send(queue, b"1", headers=PERSISTENT if persistent else {}, receipt=True)
            async with client.subscribe(queue, ack=individual(version)) as subscription:
                message = await anext(subscription)
                if version == "1.0" or expected is Nacked.REFUSED_HERE:
                    with pytest.raises(NotSupportedError):
                        await message.nack()
                    await message.ack(receipt=True)
                    return
                await message.nack(receipt=True)
                if expected is Nacked.REQUEUED:
                    again = await anext(subscription)
                    assert again.redelivered
                    await again.ack(receipt=True)
        assert await is_empty(broker, queue)


async def test_nack_when_the_queue_has_dead_letters_then_it_lands_there(
    broker: Broker, destination: Destination
) -> None:
    if broker.facts.nacked_persistent is Nacked.REFUSED_HERE:
        pytest.skip("Artemis never dead-letters on NACK: the client refuses it, as the test above shows")
    unique = destination("dead").rsplit("/", 1)[1]
    queue = f"/queue/dlq-src.{unique}"
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(queue, unique.encode(), headers=PERSISTENT, receipt=True)
            async with client.subscribe(queue) as subscription:
                extra = {"requeue": "false"} if broker.name == "rabbitmq" else {}
                await (await anext(subscription)).nack(headers=extra, receipt=True)
            async with client.subscribe("/queue/dlq") as dead:
                async for message in dead:
                    await message.ack()
                    if message.body == unique.encode():
                        break


async def test_transaction_when_committed_then_send_and_ack_take_effect_together(
    broker: Broker, version: str, destination: Destination
) -> None:
    source, target = destination("in"), destination("out")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            await client.send(source, b"1", headers=PERSISTENT, receipt=True)
            async with client.subscribe(source, ack=individual(version)) as subscription:
                message = await anext(subscription)
                async with client.transaction() as transaction:
                    await transaction.send(target, b"2", headers=PERSISTENT)
                    await transaction.ack(message)
                    assert await is_empty(broker, target)
                assert message.settlement is Settlement.ACKED
        async with trio_stomp.connect(broker.url()) as client:
            assert (await take(client, target)).body == b"2"
        assert await is_empty(broker, source)


async def test_transaction_when_aborted_then_nothing_of_it_is_seen(
    broker: Broker, version: str, destination: Destination
) -> None:
    source, target = destination("in"), destination("out")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            await client.send(source, b"1", headers=PERSISTENT, receipt=True)
            async with client.subscribe(source, ack=individual(version)) as subscription:
                message = await anext(subscription)
                async with client.transaction() as transaction:
                    await transaction.send(target, b"2")
                    await transaction.ack(message)
                    transaction.abort()
                assert message.settlement is Settlement.UNSETTLED
                await message.ack(receipt=True)
        assert await is_empty(broker, source)
        assert await is_empty(broker, target)


async def test_many_messages_when_sent_and_acked_then_all_in_order(broker: Broker, destination: Destination) -> None:
    queue = destination("many")
    count = 20_000

    async def send(client: Client) -> None:
        for number in range(count):
            await client.send(queue, b"%d" % number)
        await client.send(queue, b"end", receipt=True)

    with trio.fail_after(60):
        async with trio_stomp.connect(broker.url()) as client, trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            async with client.subscribe(queue, prefetch=500) as subscription:
                for number in range(count):
                    async with await anext(subscription) as message:
                        assert message.body == b"%d" % number
                async with await anext(subscription) as message:
                    assert message.body == b"end"
        assert await is_empty(broker, queue)


async def test_consumers_when_two_compete_then_neither_starves_and_nothing_is_doubled(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("competing")
    taken: dict[str, list[bytes]] = {"a": [], "b": []}

    async def consume(name: str, client: Client, scope: trio.CancelScope) -> None:
        async with client.subscribe(queue, prefetch=1) as subscription:
            async for message in subscription:
                async with message:
                    taken[name].append(message.body)
                    # Real work, so that the other one has its turn.
                    await trio.sleep(0.005)
                if len(taken["a"]) + len(taken["b"]) == 60:
                    scope.cancel()

    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as one, trio_stomp.connect(broker.url()) as two:
            for number in range(60):
                await one.send(queue, b"%d" % number, receipt=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume, "a", one, nursery.cancel_scope)
                nursery.start_soon(consume, "b", two, nursery.cancel_scope)
    assert sorted(taken["a"] + taken["b"]) == sorted(b"%d" % number for number in range(60))
    assert min(len(taken["a"]), len(taken["b"])) >= 10


async def test_ack_when_the_sender_forged_an_ack_header_then_the_right_message_is_settled(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("forged")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(queue, b"1", headers={"ack": "forged"}, receipt=True)
            async with client.subscribe(queue) as subscription:
                await (await anext(subscription)).ack(receipt=True)
        assert await is_empty(broker, queue)
