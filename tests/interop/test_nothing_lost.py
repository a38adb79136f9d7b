"""What must not be lost, at real brokers: reconnection, confirmed publishing, workers, requests, refused messages."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.chaos.wires import Befalls, Wire
from tests.interop.bench import PATIENCE, Bench, take, whatever_comes
from trio_stomp import (
    BrokerError,
    Client,
    DeliveryStatus,
    Message,
    NotSupportedError,
    Reconnect,
    Retry,
    UnconfirmedError,
)

PERSISTENT = {"persistent": "true"}
AT_ONCE = Reconnect(first_delay=0.05, max_delay=0.5)


async def serve_doubles(client: Client, queue: str) -> None:
    async with client.subscribe(queue) as requests:
        async for request in requests:
            async with request:
                correlation = {"correlation-id": request.headers["correlation-id"]}
                await client.send(request.headers["reply-to"], str(2 * int(request.text)), headers=correlation)


# --- reconnection -----------------------------------------------------------------------------------------------------


async def test_publisher_when_the_link_is_cut_then_all_arrive_in_order_and_the_subscription_goes_on(
    newest: Bench, wire: Wire
) -> None:
    queue = newest.queue()
    handled: list[int] = []

    async def consume(client: Client) -> None:
        async with client.subscribe(queue) as subscription:
            async for message in subscription:
                async with message:
                    handled.append(int(message.text))
                if len(set(handled)) == 400:
                    return

    with trio.fail_after(60):
        async with newest.connect(url=wire.url, reconnect=AT_ONCE) as client, trio.open_nursery() as nursery:
            nursery.start_soon(consume, client)
            async with client.publisher(max_in_flight=50) as publisher:
                for number in range(400):
                    if number in (100, 250):
                        wire.befall(Befalls.RESET)
                    await publisher.send(queue, str(number), headers=PERSISTENT)
            assert publisher.confirmed == 400
            assert client.statistics().reconnections == 2
    assert set(handled) == set(range(400))


async def test_link_when_it_falls_silent_then_the_heart_beat_finds_out_and_the_next_one_is_used(
    newest: Bench, wire: Wire
) -> None:
    queue = newest.queue()
    with trio.fail_after(60):
        async with newest.connect(url=wire.url, reconnect=AT_ONCE, heart_beat=(1, 1)) as client:
            async with client.subscribe(queue) as subscription:
                wire.befall(Befalls.SILENCE)
                async for state in client.state_changes():
                    if isinstance(state.cause, trio_stomp.HeartBeatTimeout):
                        break
                await client.send(queue, "again", receipt=True)
                (message,) = await take(subscription, 1)
                assert message.text == "again"
                await message.ack()


async def test_rabbitmq_when_it_refuses_without_a_name_then_the_right_one_is_found_and_the_rest_goes_on(
    newest: Bench,
) -> None:
    if newest.broker.name != "rabbitmq":
        pytest.skip("only RabbitMQ's ERRORs name nothing")
    queue = newest.queue()
    with trio.fail_after(60):
        async with newest.connect(reconnect=AT_ONCE) as client:
            with pytest.raises(UnconfirmedError) as caught:
                async with client.publisher() as publisher:
                    for number in range(10):
                        destination = "/exchange/there-is-none/x" if number == 4 else queue
                        await publisher.send(destination, str(number), headers=PERSISTENT)
            (refused,) = caught.value.messages
            assert (refused.destination, refused.delivery) == ("/exchange/there-is-none/x", DeliveryStatus.REJECTED)
            with pytest.raises(BrokerError, match="there-is-none"):
                async with client.subscribe("/exchange/there-is-none/x"):
                    raise AssertionError
            found = await newest.left(client, queue)
            assert list(dict.fromkeys(found)) == [str(number) for number in range(10) if number != 4]


# --- stable ids -------------------------------------------------------------------------------------------------------


async def test_stable_id_when_a_message_comes_again_then_it_is_the_same(newest: Bench) -> None:
    queue = newest.queue()
    with trio.fail_after(PATIENCE * 3):
        async with newest.connect() as client:
            async with client.publisher() as publisher:
                publication = await publisher.send(queue, "x", headers=PERSISTENT)
            for _ in range(2):
                async with client.subscribe(queue) as subscription:
                    (message,) = await take(subscription, 1)
                    assert message.stable_id == publication.id
            async with client.subscribe(queue) as subscription:
                (message,) = await take(subscription, 1)
                await message.ack(receipt=True)


async def test_stable_id_when_sent_twice_then_artemis_drops_the_second_and_confirms_it(newest: Bench) -> None:
    queue = newest.queue()
    with trio.fail_after(PATIENCE * 3):
        async with newest.connect() as client:
            for body in ("first", "second"):
                pairs = dict(client.profile.stable_id(f"{queue}-1"))
                await client.send(queue, body, headers={**PERSISTENT, **pairs}, receipt=True)
            left = await newest.left(client, queue)
    assert left == (["first"] if newest.broker.name == "artemis" else ["first", "second"])


# --- refusing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requeue", [True, False])
async def test_nack_when_it_says_what_is_meant_then_that_happens_or_it_is_refused_here(
    newest: Bench, requeue: bool
) -> None:
    queue, dead_letters = newest.queue("dlq-src."), "/queue/dlq"
    can = {"rabbitmq": (True, False), "activemq": (False,), "artemis": ()}[newest.broker.name]
    with trio.fail_after(PATIENCE * 3):
        async with newest.connect() as client, client.subscribe(queue, prefetch=1) as subscription:
            await client.send(queue, queue, headers=PERSISTENT, receipt=True)
            (message,) = await take(subscription, 1)
            if requeue not in can:
                with pytest.raises(NotSupportedError):
                    await message.nack(requeue=requeue)
                await message.ack(receipt=True)
                return
            await message.nack(requeue=requeue, receipt=True)
            if requeue:
                (again,) = await take(subscription, 1)
                assert again.redelivered
                await again.ack(receipt=True)
                return
            assert await whatever_comes(subscription) == []
            async with client.subscribe(dead_letters) as dead:
                async for letter in dead:
                    await letter.ack()
                    if letter.text == queue:
                        return


# --- workers ----------------------------------------------------------------------------------------------------------


async def test_work_when_a_message_is_poison_then_it_is_put_aside_in_one_transaction(newest: Bench) -> None:
    queue, dead_letters = newest.queue(), newest.queue()
    handled: list[str] = []

    async def handle(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message.text == "3":
            raise ValueError("three is too many")
        handled.append(message.text)
        if len(handled) == 9:
            done.set()

    done = trio.Event()
    with trio.fail_after(PATIENCE * 3):
        async with newest.connect() as client:
            async with client.publisher() as publisher:
                for number in range(10):
                    await publisher.send(queue, str(number), headers={**PERSISTENT, "shop": "7"})
            async with newest.connect() as reader, reader.subscribe(dead_letters) as dead:
                async with client.subscribe(queue) as subscription, trio.open_nursery() as nursery:

                    async def work() -> None:
                        retry = Retry(attempts=2, first_delay=0.01)
                        await subscription.work(handle, workers=3, retry=retry, dead_letter=dead_letters)

                    nursery.start_soon(work)
                    (letter,) = await take(dead, 1)
                    await letter.ack()
                    await done.wait()
                    nursery.cancel_scope.cancel()
            assert letter.text == "3"
            assert letter.headers["shop"] == "7"
            assert letter.headers["x-error-message"] == "three is too many"
            assert letter.headers["x-attempts"] == "2"
            assert await newest.left(client, queue) == []


# --- requests ---------------------------------------------------------------------------------------------------------


async def test_request_when_many_are_in_flight_then_each_gets_its_reply(bench: Bench) -> None:
    queue, replies = bench.queue(), dict[int, str]()

    async def ask(client: Client, number: int) -> None:
        replies[number] = (await client.request(queue, str(number), timeout=PATIENCE)).text

    async with bench.pair() as (asker, server), trio.open_nursery() as nursery:
        if bench.version == "1.0":
            nursery.start_soon(serve_with_client_acks, server, queue)
        else:
            nursery.start_soon(serve_doubles, server, queue)
        async with trio.open_nursery() as asking:
            for number in range(30):
                asking.start_soon(ask, asker, number)
        nursery.cancel_scope.cancel()
    assert replies == {number: str(2 * number) for number in range(30)}


async def serve_with_client_acks(client: Client, queue: str) -> None:
    async with client.subscribe(queue, ack="client") as requests:
        async for request in requests:
            correlation = {"correlation-id": request.headers["correlation-id"]}
            await client.send(request.headers["reply-to"], str(2 * int(request.text)), headers=correlation)
            await request.ack()


async def test_request_when_the_link_is_cut_then_it_fails_clearly_and_the_next_is_answered(
    newest: Bench, wire: Wire
) -> None:
    queue = newest.queue()
    with trio.fail_after(60):
        async with newest.connect(url=wire.url, reconnect=AT_ONCE) as client, newest.connect() as server:
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    with pytest.raises(trio_stomp.OutcomeUnknown, match="may have been handled"):
                        await client.request(newest.queue(), "1", timeout=30)

                nursery.start_soon(ask)
                await trio.sleep(0.5)
                wire.befall(Befalls.RESET)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve_doubles, server, queue)
                assert (await client.request(queue, "21", timeout=PATIENCE)).text == "42"
                nursery.cancel_scope.cancel()
