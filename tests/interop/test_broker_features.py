"""What brokers add to STOMP, feature by feature and broker by broker: the table of docs/brokers.md, cell by cell."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import trio

import trio_stomp
from tests.chaos.wires import Befalls, Wire
from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker, brokers_of
from trio_stomp import (
    BrokerError,
    Client,
    ConnectError,
    Message,
    OutgoingMessage,
    QueueArguments,
    StompError,
    Subscription,
)
from trio_stomp.types import ConnectOptions, Phase, ProfileName, StreamOffset, SubscribeOptions

# Longer than any of them takes to deliver what is there.
QUIET = 0.7


def on(*names: ProfileName) -> pytest.MarkDecorator:
    """Run a test with these brokers only; tests/brokers/test_dialect.py shows that the others refuse."""
    return pytest.mark.parametrize("broker", brokers_of(*names), indirect=True)


@asynccontextmanager
async def connected(broker: Broker, client_id: str | None = None) -> AsyncGenerator[Client]:
    options: ConnectOptions = {} if client_id is None else {"headers": {"client-id": client_id}}
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **options) as client:
            assert client.profile.dialect.broker == client.profile.name
            yield client


async def everything(subscription: Subscription) -> list[bytes]:
    """Take and acknowledge all that is there."""
    bodies: list[bytes] = []
    while True:
        message: Message | None = None
        with trio.move_on_after(QUIET):
            message = await anext(subscription)
        if message is None:
            return bodies
        await message.ack()
        bodies.append(message.body)


async def drained(client: Client, queue: str) -> list[bytes]:
    async with client.subscribe(queue) as subscription:
        return await everything(subscription)


# --- durable subscriptions --------------------------------------------------------------------------------------------


def durable() -> tuple[str, str, str]:
    """A client-id, a topic and the name of a subscription to it, that nobody else uses."""
    unique = uuid.uuid4().hex[:12]
    return unique, f"/topic/interop.{unique}", f"interop.{unique}"


async def test_durable_when_left_and_taken_up_again_then_messages_wait_and_delete_ends_it(broker: Broker) -> None:
    unique, topic, name = durable()
    async with connected(broker, client_id=unique) as client:
        async with client.subscribe(topic, durable=name):
            pass
        await client.send(topic, b"while away", persistent=True, receipt=True)
    async with connected(broker, client_id=unique) as client:
        async with client.subscribe(topic, durable=name) as subscription:
            assert (await anext(subscription)).body == b"while away"
            await subscription.delete()
        await client.send(topic, b"to nobody", persistent=True, receipt=True)
        async with client.subscribe(topic, durable=name) as subscription:
            assert await everything(subscription) == []
            await client.send(topic, b"anew", persistent=True, receipt=True)
            assert await everything(subscription) == [b"anew"]
            await subscription.delete()


@on("rabbitmq", "artemis")
async def test_durable_when_a_second_connection_uses_it_then_they_share_it(broker: Broker) -> None:
    unique, topic, name = durable()
    async with connected(broker, client_id=unique) as one, connected(broker, client_id=unique) as two:
        async with one.subscribe(topic, durable=name) as first:
            async with two.subscribe(topic, durable=name) as second:
                for number in range(10):
                    await one.send(topic, b"%d" % number, receipt=True)
                taken = [await everything(first), await everything(second)]
                assert sorted([*taken[0], *taken[1]]) == [b"%d" % number for number in range(10)]
                assert all(taken)
            # Artemis deletes it only once nobody else uses it: this RECEIPT comes behind the second's UNSUBSCRIBE.
            await two.send(topic, b"", receipt=True)
            await first.delete()


@on("activemq")
async def test_durable_when_a_second_subscription_uses_it_then_refused(broker: Broker) -> None:
    unique, topic, name = durable()
    async with connected(broker, client_id=unique) as client:
        async with client.subscribe(topic, durable=name) as first:
            with pytest.raises(BrokerError, match="in use"):
                async with client.subscribe(topic, durable=name, id="other"):
                    pytest.fail("two may use it")
            await first.delete()


@on("activemq", "artemis")
async def test_client_id_when_another_connection_has_it_then_as_the_broker_does(broker: Broker) -> None:
    unique = uuid.uuid4().hex
    async with connected(broker, client_id=unique):
        if broker.name == "activemq":
            with pytest.raises(ConnectError, match="already connected"):
                async with connected(broker, client_id=unique):
                    pytest.fail("both may connect")
        else:
            async with connected(broker, client_id=unique) as client:
                await client.send("/topic/interop.client-id", b"", receipt=True)


@on("artemis")
async def test_durable_when_asked_without_a_client_id_all_the_same_then_refused_by_the_broker(broker: Broker) -> None:
    async with connected(broker) as client:
        with pytest.raises(BrokerError):
            async with client.subscribe(
                "/topic/interop.durable", headers={"durable-subscription-name": uuid.uuid4().hex}
            ):
                pytest.fail("it was taken")
        with pytest.raises(StompError):
            await client.send("/topic/interop.durable", b"", receipt=True)


# --- persistence, time to live, priority, delay -----------------------------------------------------------------------


async def test_persistent_when_asked_for_then_the_broker_says_so(broker: Broker, destination: Destination) -> None:
    """That they survive a crash of the broker is shown in tests/chaos."""
    queue = destination("persistent")
    async with connected(broker) as client:
        await client.send(queue, b"kept", persistent=True, receipt=True)
        await client.send(queue, b"not", persistent=False, receipt=True)
        async with client.subscribe(queue, ack="auto") as subscription:
            kept, passing = await anext(subscription), await anext(subscription)
        assert kept.headers.get("persistent") == "true"
        assert passing.headers.get("persistent") != "true"


async def test_ttl_when_it_is_over_then_the_message_is_gone(broker: Broker, destination: Destination) -> None:
    queue = destination("ttl")
    async with connected(broker) as client:
        await client.send(queue, b"short", ttl=0.3, receipt=True)
        await client.send(queue, b"long", ttl=3600, receipt=True)
        await trio.sleep(1)
        assert await drained(client, queue) == [b"long"]


async def test_priority_when_higher_then_delivered_first(broker: Broker, destination: Destination) -> None:
    # ActiveMQ minds priorities where its policy says so, and RabbitMQ in queues that are declared with them.
    arguments = QueueArguments(max_priority=9) if broker.name == "rabbitmq" else None
    queue = destination("prio") if broker.name != "activemq" else f"/queue/prio.interop.{uuid.uuid4().hex}"
    async with connected(broker) as client:
        for priority in (1, 8, 4):
            body = b"%d" % priority
            await client.send(queue, body, priority=priority, queue_arguments=arguments, receipt=True)
        async with client.subscribe(queue, queue_arguments=arguments) as subscription:
            assert await everything(subscription) == [b"8", b"4", b"1"]


@on("activemq", "artemis")
async def test_delay_when_given_then_delivered_no_sooner(broker: Broker, destination: Destination) -> None:
    queue = destination("delay")
    async with connected(broker) as client, client.subscribe(queue) as subscription:
        start = trio.current_time()
        await client.send(queue, b"later", delay=1, receipt=True)
        await client.send(queue, b"now", receipt=True)
        assert (await anext(subscription)).body == b"now"
        assert trio.current_time() - start < 0.9
        assert (await anext(subscription)).body == b"later"
        # The broker's clock began to run before its RECEIPT came.
        assert 0.9 <= trio.current_time() - start < 3


# --- groups, duplicates -----------------------------------------------------------------------------------------------


@on("activemq", "artemis")
async def test_group_when_two_consumers_share_a_queue_then_each_group_goes_to_one(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("group")
    async with connected(broker) as one, connected(broker) as two:
        async with one.subscribe(queue, prefetch=1) as first, two.subscribe(queue, prefetch=1) as second:
            for number in range(12):
                await one.send(queue, b"a%d" % number, group="a", receipt=True)
                await one.send(queue, b"b%d" % number, group="b", receipt=True)
            taken: list[list[bytes]] = [[], []]
            async with trio.open_nursery() as nursery:

                async def take(number: int, subscription: Subscription) -> None:
                    taken[number] = await everything(subscription)

                nursery.start_soon(take, 0, first)
                nursery.start_soon(take, 1, second)
            for group in (b"a", b"b"):
                expected = [group + b"%d" % number for number in range(12)]
                holders = [[body for body in bodies if body.startswith(group)] for bodies in taken]
                assert sorted(holders) == [[], expected]


@on("artemis")
async def test_dedup_id_when_sent_twice_then_confirmed_twice_and_delivered_once(
    broker: Broker, destination: Destination
) -> None:
    queue, unique = destination("dedup"), uuid.uuid4().hex
    async with connected(broker) as client:
        await client.send(queue, b"first", dedup_id=unique, receipt=True)
        await client.send(queue, b"again", dedup_id=unique, receipt=True)
        await client.send(queue, b"other", dedup_id=f"{unique}-2", receipt=True)
        async with client.publisher() as publisher:
            publication = await publisher.send(queue, b"once more", dedup_id=unique)
        assert publication.id == unique
        assert await drained(client, queue) == [b"first", b"other"]


@on("artemis")
async def test_dedup_id_when_sent_again_in_a_transaction_then_the_commit_fails(
    broker: Broker, destination: Destination
) -> None:
    queue, unique = destination("dedup"), uuid.uuid4().hex
    async with connected(broker) as client:
        await client.send(queue, b"first", dedup_id=unique, receipt=True)
        with pytest.raises(BrokerError, match="Error committing"):
            async with client.transaction() as tx:
                await tx.send(queue, b"again", dedup_id=unique)
                await tx.send(queue, b"other")
        with pytest.raises(StompError):
            await client.send(queue, b"", receipt=True)
    async with connected(broker) as client:
        assert await drained(client, queue) == [b"first"]


# --- selectors, own messages, browsing --------------------------------------------------------------------------------


@on("activemq", "artemis")
async def test_selector_when_given_then_only_what_satisfies_it_comes(broker: Broker, destination: Destination) -> None:
    queue = destination("selector")
    async with connected(broker) as client:
        for color in ("blue", "red", "green"):
            await client.send(queue, color.encode(), headers={"color": color}, receipt=True)
        async with client.subscribe(queue, selector="color = 'red' OR color LIKE 'gr%'") as subscription:
            assert await everything(subscription) == [b"red", b"green"]
        assert await drained(client, queue) == [b"blue"]


@on("rabbitmq")
async def test_selector_when_sent_as_a_header_to_rabbitmq_then_all_messages_come(
    broker: Broker, destination: Destination
) -> None:
    """Why it is refused as an option."""
    queue = destination("selector")
    async with connected(broker) as client:
        await client.send(queue, b"blue", headers={"color": "blue"}, receipt=True)
        async with client.subscribe(queue, headers={"selector": "color = 'red'"}) as subscription:
            assert await everything(subscription) == [b"blue"]


@pytest.mark.parametrize(
    ("broker", "selector"),
    [("activemq", "size > 9"), ("artemis", "convert_string_expressions:size > 9")],
    indirect=["broker"],
)
async def test_selector_when_it_compares_numbers_then_text_counts_as_one(
    broker: Broker, destination: Destination, selector: str
) -> None:
    queue = destination("numbers")
    async with connected(broker) as client:
        for size in ("5", "10"):
            await client.send(queue, size.encode(), headers={"size": size}, receipt=True)
        async with client.subscribe(queue, selector=selector) as subscription:
            assert await everything(subscription) == [b"10"]


@on("activemq", "artemis")
async def test_group_when_a_consumer_looks_for_it_then_it_is_not_among_the_headers(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("group")
    async with connected(broker) as client:
        await client.send(queue, b"", group="g", receipt=True)
        async with client.subscribe(queue, ack="auto") as subscription:
            assert "JMSXGroupID" not in (await anext(subscription)).headers


@on("activemq", "artemis")
async def test_no_local_when_given_then_own_messages_stay_away(broker: Broker) -> None:
    topic = f"/topic/interop.{uuid.uuid4().hex}"
    async with connected(broker) as client, connected(broker) as other:
        async with client.subscribe(topic, no_local=True) as subscription:
            await client.send(topic, b"own", receipt=True)
            await other.send(topic, b"foreign", receipt=True)
            assert await everything(subscription) == [b"foreign"]


@on("activemq")
@pytest.mark.parametrize("count", [0, 5, 1500])
async def test_browse_when_messages_wait_then_all_are_shown_and_none_is_taken(
    broker: Broker, destination: Destination, count: int
) -> None:
    queue = destination("browse")
    async with connected(broker) as client:
        await client.send_many((OutgoingMessage(queue, b"%d" % number) for number in range(count)), receipt=True)
        async with client.subscribe(queue, browse=True) as browser:
            seen = [message.body async for message in browser]
        assert seen == [b"%d" % number for number in range(count)]
        async with client.subscribe(queue, prefetch=2000) as subscription:
            assert len(await everything(subscription)) == count


# --- queue arguments and streams --------------------------------------------------------------------------------------


@on("rabbitmq")
async def test_queue_arguments_when_given_then_the_queue_is_like_that(broker: Broker, destination: Destination) -> None:
    short, expiring, dead = destination("short"), destination("expiring"), destination("dead")
    buried = QueueArguments(
        message_ttl=0.2, dead_letter_exchange="", dead_letter_routing_key=dead.removeprefix("/queue/")
    )
    async with connected(broker) as client:
        # Something must have declared the queue of dead letters.
        assert await drained(client, dead) == []
        for number in range(5):
            await client.send(short, b"%d" % number, queue_arguments=QueueArguments(max_length=2), receipt=True)
        await client.send(expiring, b"expired", queue_arguments=buried, receipt=True)
        async with client.subscribe(short, queue_arguments=QueueArguments(max_length=2)) as subscription:
            assert await everything(subscription) == [b"3", b"4"]
        async with client.subscribe(dead) as subscription:
            message = await anext(subscription)
            assert (message.body, message.headers["x-first-death-reason"]) == (b"expired", "expired")
            await message.ack(receipt=True)


@on("rabbitmq")
async def test_quorum_queue_when_asked_for_then_deliveries_are_counted(
    broker: Broker, destination: Destination
) -> None:
    queue, quorum = destination("quorum"), QueueArguments(type="quorum")
    async with connected(broker) as client:
        await client.send(queue, b"1", persistent=True, queue_arguments=quorum, receipt=True)
        async with client.subscribe(queue, queue_arguments=quorum) as subscription:
            first = await anext(subscription)
            assert first.delivery_count == 1
            await first.nack()
            second = await anext(subscription)
            assert second.delivery_count == 2
            await second.ack(receipt=True)


@on("rabbitmq")
async def test_queue_arguments_when_they_differ_from_the_queue_then_refused_by_the_broker(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("argued")
    async with connected(broker) as client:
        await client.send(queue, b"", queue_arguments=QueueArguments(max_length=2), receipt=True)
    async with connected(broker) as client:
        with pytest.raises(BrokerError, match="precondition_failed"):
            await client.send(queue, b"", queue_arguments=QueueArguments(max_length=3), receipt=True)


@on("rabbitmq")
async def test_stream_when_read_from_an_offset_then_as_often_as_one_likes(
    broker: Broker, destination: Destination
) -> None:
    queue, stream = destination("stream"), QueueArguments(type="stream")

    async def read(client: Client, offset: StreamOffset) -> list[bytes]:
        async with client.subscribe(queue, queue_arguments=stream, stream_offset=offset, prefetch=50) as subscription:
            return await everything(subscription)

    async with connected(broker) as client:
        for number in range(5):
            await client.send(queue, b"%d" % number, queue_arguments=stream, receipt=True)
        everything_sent = [b"%d" % number for number in range(5)]
        assert await read(client, "first") == everything_sent
        assert await read(client, 3) == [b"3", b"4"]
        assert await read(client, datetime(2020, 1, 1, tzinfo=UTC)) == everything_sent
        assert await read(client, "next") == []
        assert (await read(client, "last"))[-1:] == [b"4"]
        async with client.subscribe(queue, queue_arguments=stream, stream_offset="next") as subscription:
            await client.send(queue, b"5", receipt=True)
            message = await anext(subscription)
            assert (message.body, message.headers["x-stream-offset"]) == (b"5", "5")
            # Not settled: leaving gives it back, which a stream does not mind.
        assert await read(client, 5) == [b"5"]


@on("rabbitmq")
async def test_stream_when_the_link_is_lost_then_it_goes_on_with_the_oldest_that_is_not_settled(
    broker: Broker, destination: Destination, wire: Wire
) -> None:
    queue, stream = destination("stream"), QueueArguments(type="stream")
    bodies: list[bytes] = []
    async with connected(broker) as client:
        for number in range(6):
            await client.send(queue, b"%d" % number, queue_arguments=stream, receipt=True)
    with trio.fail_after(30):
        async with trio_stomp.connect(wire.url, reconnect=trio_stomp.Reconnect()) as client:
            wanted: SubscribeOptions = {"queue_arguments": stream, "stream_offset": "first"}
            async with client.subscribe(queue, prefetch=50, **wanted) as subscription:
                for number in range(4):
                    message = await anext(subscription)
                    if number != 2:
                        await message.ack()
                wire.befall(Befalls.RESET)
                async for state in client.state_changes():
                    if state.phase is Phase.CONNECTED and client.statistics().reconnections:
                        break
                while len(bodies) < 4:
                    message = await anext(subscription)
                    await message.ack()
                    bodies.append(message.body)
    assert bodies == [b"2", b"3", b"4", b"5"]


# --- text and bytes ---------------------------------------------------------------------------------------------------


async def test_body_when_text_or_bytes_then_its_type_reaches_the_broker(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("bodies")
    # In 1.0 both JMS brokers give a content-length to messages of bytes alone.
    options = broker.options("1.0")
    async with connected(broker) as client:
        await client.send(queue, "text", receipt=True)
        await client.send(queue, b"bytes", receipt=True)
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **options) as client, client.subscribe(queue, ack="auto") as both:
            text, octets = await anext(both), await anext(both)
    assert (text.text, octets.body) == ("text", b"bytes")
    assert "content-length" in octets.headers
    assert ("content-length" in text.headers) is (broker.name == "rabbitmq")


# --- other extensions: the tables of docs/how-to/broker-features.md ---------------------------------------------------


@on("activemq")
async def test_virtual_topic_when_sent_to_then_the_queue_of_each_group_gets_a_copy(broker: Broker) -> None:
    name = f"interop.{uuid.uuid4().hex[:12]}"
    queues = [f"/queue/Consumer.{group}.VirtualTopic.{name}" for group in ("billing", "packing")]
    async with connected(broker) as client:
        for queue in queues:
            assert await drained(client, queue) == []
        await client.send(f"/topic/VirtualTopic.{name}", b"tea", receipt=True)
        assert [await drained(client, queue) for queue in queues] == [[b"tea"], [b"tea"]]


@on("activemq")
async def test_composite_destination_when_sent_to_then_each_gets_the_message(broker: Broker) -> None:
    first, second = (f"/queue/interop.{uuid.uuid4().hex[:12]}" for _ in range(2))
    async with connected(broker) as client:
        await client.send(f"{first},{second}", b"both", receipt=True)
        assert [await drained(client, queue) for queue in (first, second)] == [[b"both"], [b"both"]]
        # Messages that wait already may come late; see the page.
        async with client.subscribe(f"{first},{second}") as subscription:
            await client.send(first, b"1", receipt=True)
            await client.send(second, b"2", receipt=True)
            assert sorted(await everything(subscription)) == [b"1", b"2"]


@on("activemq")
async def test_consumer_when_exclusive_or_preferred_then_it_gets_all_messages(broker: Broker) -> None:
    queue = f"/queue/interop.{uuid.uuid4().hex[:12]}"
    for headers, others in (
        ({"activemq.exclusive": "true"}, {"activemq.exclusive": "true"}),
        ({"activemq.priority": "10"}, {"activemq.priority": "1"}),
    ):
        async with (
            connected(broker) as client,
            client.subscribe(queue, headers=headers) as first,
            client.subscribe(queue, headers=others) as second,
        ):
            for number in range(4):
                await client.send(queue, b"%d" % number, receipt=True)
            assert (await everything(first), await everything(second)) == ([b"0", b"1", b"2", b"3"], [])


@on("artemis")
async def test_queue_of_a_topic_when_the_topic_is_sent_to_then_each_queue_gets_a_copy(broker: Broker) -> None:
    name = f"interop.{uuid.uuid4().hex[:12]}"
    async with (
        connected(broker) as client,
        client.subscribe(f"/topic/{name}::{name}.billing") as billing,
        client.subscribe(f"/topic/{name}::{name}.packing") as packing,
    ):
        await client.send(f"/topic/{name}", b"tea", receipt=True)
        assert (await everything(billing), await everything(packing)) == ([b"tea"], [b"tea"])


@on("rabbitmq")
async def test_message_when_it_expires_in_a_queue_that_dead_letters_then_it_is_delayed(broker: Broker) -> None:
    name = f"interop.{uuid.uuid4().hex[:12]}"
    later = QueueArguments(message_ttl=1, expires=60, dead_letter_exchange="", dead_letter_routing_key=name)
    async with connected(broker) as client, client.subscribe(f"/queue/{name}") as subscription:
        await client.send(f"/queue/{name}.later", b"tea", receipt=True, queue_arguments=later)
        assert await everything(subscription) == []
        assert await everything(subscription) == [b"tea"]
