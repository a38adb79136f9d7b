"""Which messages are delivered, when and to whom: wildcards, expiry, priority, delay, groups, ownership."""

from collections import Counter

import anyio
import pytest

import trio_stomp
from tests.kit.loops import on_loops
from tests.testing.raw_client import RawClient, connected, with_options
from trio_stomp.testing import Broker, BrokerOptions
from trio_stomp.types import Command, Version

pytestmark = pytest.mark.anyio

OWN, RABBITMQ, ACTIVEMQ, ARTEMIS = None, "RabbitMQ/3.13", "ActiveMQ/6.1", "ActiveMQ-Artemis/2.44.0"


@pytest.fixture
def server() -> str | None:
    """The broker that is imitated: tests choose others by a parameter of this name."""
    return OWN


@pytest.fixture
def options(server: str | None) -> BrokerOptions:
    return BrokerOptions() if server is None else BrokerOptions(server=server)


# --- wildcards --------------------------------------------------------------------------------------------------------

# Subscription, topic, and which brokers match: as RabbitMQ 3.10, ActiveMQ Classic 6.1 and Artemis 2.44 do.
# `tests/interop/test_embedded_alike.py` asks them again.
WILDCARDS: list[tuple[str, str, set[str | None]]] = [
    ("a.*", "a.b", {OWN, RABBITMQ, ACTIVEMQ, ARTEMIS}),
    ("a.*", "a", set()),
    ("a.*", "a.b.c", set()),
    ("a.*.c", "a.b.c", {OWN, RABBITMQ, ACTIVEMQ, ARTEMIS}),
    ("*", "a", {OWN, RABBITMQ, ACTIVEMQ, ARTEMIS}),
    ("a.#", "a.b.c", {OWN, RABBITMQ, ARTEMIS}),
    ("a.#", "a", {OWN, RABBITMQ, ARTEMIS}),
    ("#.c", "a.b.c", {OWN, RABBITMQ, ARTEMIS}),
    ("a.#.c.#.e", "a.b.c.c.d.e", {OWN, RABBITMQ, ARTEMIS}),
    ("a.#.c", "a.b", set()),
    ("a.>", "a.b.c", {OWN, ACTIVEMQ}),
    ("a.>", "a", {OWN, ACTIVEMQ}),
    ("a.>", "b.a", set()),
    ("a*", "ab", set()),
    ("a.b", "a.b", {OWN, RABBITMQ, ACTIVEMQ, ARTEMIS}),
]


@on_loops("trio")
@pytest.mark.parametrize("server", [OWN, RABBITMQ, ACTIVEMQ, ARTEMIS])
@pytest.mark.parametrize(("pattern", "name", "matching"), WILDCARDS)
async def test_wildcard_when_broker_has_it_then_topic_matches_and_is_named(
    broker: Broker, client: RawClient, pattern: str, name: str, matching: set[str | None], server: str | None
) -> None:
    await client.subscribe(f"/topic/{pattern}")

    broker.publish(f"/topic/{name}", "x")

    if server in matching:
        message = await client.message("x")
        assert message.headers["destination"] == f"/topic/{name}"
    else:
        await client.expect_nothing()


async def test_wildcard_when_subscription_is_durable_then_gathers_and_resumes(broker: Broker) -> None:
    client = await connected(broker, client_id="me")
    await client.subscribe("/topic/a.*", durable_subscription_name="d")
    await client.confirmed(Command.UNSUBSCRIBE, id="1")
    broker.publish("/topic/a.b", "kept")
    broker.publish("/topic/b.b", "other")

    await client.subscribe("/topic/a.*", subscription_id="2", durable_subscription_name="d")

    await client.message("kept", destination="/topic/a.b")


async def test_wildcard_when_topics_have_both_kinds_of_subscription_then_each_gets_one_copy(client: RawClient) -> None:
    await client.subscribe("/topic/a.b", subscription_id="name")
    await client.subscribe("/topic/*.b", subscription_id="pattern", selector="n = 1")
    await client.send("/topic/a.b", "1", n="1")
    await client.send("/topic/a.b", "2", n="2")

    got = [(m.headers["subscription"], m.body) for m in [await client.message() for _ in range(3)]]

    assert Counter(got) == Counter([("name", b"1"), ("pattern", b"1"), ("name", b"2")])


# --- time to live, delay, priority ------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [OWN, RABBITMQ])
async def test_ttl_when_it_is_over_then_message_is_gone(broker: Broker) -> None:
    for name in ("/queue/a", "/topic/t"):
        client = await connected(broker)
        await client.subscribe(name, "client", prefetch_count="1")
        for body in ("held", "expires"):
            broker.publish(name, body, [("expiration", "5000")])
        broker.publish(name, "stays")
        held = await client.message("held")
        await anyio.sleep(4.9)
        assert broker.depth(name) == 2

        await anyio.sleep(0.2)

        assert broker.depth(name) == 1
        await client.acknowledge(held)
        await client.message("stays")


@pytest.mark.parametrize("server", [OWN, ACTIVEMQ, ARTEMIS])
async def test_expires_when_in_the_past_then_message_is_not_delivered(broker: Broker, client: RawClient) -> None:
    broker.publish("/queue/a", "gone", [("expires", "1000")])
    broker.publish("/queue/a", "never", [("expires", "0")])
    broker.publish("/queue/a", "later", [("expires", str(1 << 42))])
    await client.subscribe("/queue/a")

    assert await client.bodies(2) == ["never", "later"]


async def test_ttl_when_message_comes_back_after_it_then_is_gone(broker: Broker, client: RawClient) -> None:
    broker.publish("/queue/a", "x", [("expiration", "1000")])
    await client.subscribe("/queue/a", "client")
    message = await client.message("x")
    await anyio.sleep(2)

    await client.acknowledge(message, Command.NACK)

    await client.expect_nothing()
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("server", [OWN, ACTIVEMQ, ARTEMIS])
@pytest.mark.parametrize("name", ["/queue/a", "/topic/a"])
async def test_delay_when_not_over_then_message_waits(client: RawClient, name: str) -> None:
    await client.subscribe(name)
    started = anyio.current_time()
    for body, milliseconds in (("late", 15_000), ("early", 10_000), ("now", 0)):
        headers = [("destination", name), ("AMQ_SCHEDULED_DELAY", str(milliseconds))]
        await client.write(Command.SEND, headers, body.encode())

    came: list[tuple[str, int]] = []
    for _ in range(3):
        message = await client.message()
        came.append((message.body.decode(), round(anyio.current_time() - started)))
        assert message.body == b"now" or "AMQ_SCHEDULED_DELAY" not in message.headers

    assert came == [("now", 0), ("early", 10), ("late", 15)]


async def test_delay_when_in_a_transaction_then_counts_from_commit(client: RawClient) -> None:
    await client.subscribe("/queue/a")
    await client.write(Command.BEGIN, transaction="t")
    await client.write(Command.SEND, [("AMQ_SCHEDULED_DELAY", "10000")], b"x", destination="/queue/a", transaction="t")
    await client.confirmed(Command.COMMIT, transaction="t")
    started = anyio.current_time()

    await client.message("x")

    assert anyio.current_time() - started == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize("server", [OWN, ACTIVEMQ, ARTEMIS])
async def test_priority_when_higher_then_delivered_first_and_kept_after_redelivery(
    broker: Broker, client: RawClient
) -> None:
    for body, priority in (("a", "4"), ("b", "9"), ("c", "0"), ("d", ""), ("e", "9"), ("f", "99")):
        broker.publish("/queue/a", body, [("priority", priority)] if priority else [])
    await client.subscribe("/queue/a", "client")
    assert await client.bodies(6) == ["b", "e", "f", "a", "d", "c"]
    await client.confirmed(Command.UNSUBSCRIBE, id="1")

    assert [message.body for message in broker.messages("/queue/a")] == [b"b", b"e", b"f", b"a", b"d", b"c"]


@pytest.mark.parametrize("header", ["priority", "expires", "expiration", "AMQ_SCHEDULED_DELAY"])
@pytest.mark.parametrize("value", ["high", "-1", "9" * 30])
async def test_header_when_no_number_then_send_is_refused(client: RawClient, header: str, value: str) -> None:
    await client.write(Command.SEND, [("destination", "/queue/a"), (header, value)])

    error = await client.refused("header refused")

    assert header in error.body.decode()


@pytest.mark.parametrize("server", [RABBITMQ])
async def test_rabbitmq_when_headers_are_of_others_then_passes_them_on(client: RawClient) -> None:
    await client.subscribe("/queue/a")
    headers = [("destination", "/queue/a"), ("priority", "high"), ("AMQ_SCHEDULED_DELAY", "60000")]
    await client.write(Command.SEND, headers, b"x")

    await client.message("x", priority="high")


async def test_client_when_it_uses_the_options_then_embedded_broker_obeys(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", "expires", ttl=1)
        await client.send("/queue/a", "plain")
        await client.send("/queue/a", "first", priority=9, group="g")
        await client.send("/queue/a", "late", delay=30, receipt=True)
        await anyio.sleep(2)
        started = anyio.current_time()
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            got = [(await anext(subscription)).text for _ in range(3)]
        waited = anyio.current_time() - started

    assert got == ["first", "plain", "late"]
    assert waited == pytest.approx(28, abs=1)


# --- message groups ---------------------------------------------------------------------------------------------------


async def test_group_when_two_consume_then_each_group_stays_with_one_until_it_leaves(broker: Broker) -> None:
    consumers = [await connected(broker) for _ in range(2)]
    for consumer in consumers:
        await consumer.subscribe("/queue/a", "client-individual", prefetch_count="1")
    owner: dict[str, int] = {}
    for number in range(12):
        broker.publish("/queue/a", str(number), [("JMSXGroupID", "gh"[number % 2])])
    for _ in range(12):
        for index, consumer in enumerate(consumers):
            with anyio.move_on_after(0.01):
                message = await consumer.message()
                assert owner.setdefault(message.headers["JMSXGroupID"], index) == index
                await consumer.acknowledge(message)
    assert owner == {"g": 0, "h": 1}
    assert broker.depth("/queue/a") == 0

    await consumers[0].stream.aclose()
    await broker.wait_until(lambda: broker.consumers("/queue/a") == 1)
    broker.publish("/queue/a", "heir", [("JMSXGroupID", "g")])
    await consumers[1].message("heir")


async def test_group_when_its_consumer_is_busy_then_others_are_not_held_up(broker: Broker) -> None:
    busy, free = await connected(broker), await connected(broker)
    for consumer in (busy, free):
        await consumer.subscribe("/queue/a", "client", prefetch_count="1")
    broker.publish("/queue/a", "g1", [("JMSXGroupID", "g")])
    first = await busy.message("g1")
    broker.publish("/queue/a", "g2", [("JMSXGroupID", "g")])
    broker.publish("/queue/a", "plain")

    await free.message("plain")
    await busy.acknowledge(first)
    await busy.message("g2")


# --- temporary destinations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("headers", [{}, {"browser": "true"}])
async def test_temporary_destination_when_of_another_session_then_may_be_sent_to_and_not_subscribed_to(
    broker: Broker, kind: str, headers: dict[str, str]
) -> None:
    owner, other = await connected(broker), await connected(broker)
    await owner.subscribe(f"/temp-{kind}/r")
    await owner.subscribe("/queue/look", subscription_id="look")
    reply_to = [("destination", "/queue/look"), ("x", "1"), ("reply-to", f"/temp-{kind}/r"), ("x", "2")]
    await owner.write(Command.SEND, reply_to)
    message = await owner.message()
    assert message.headers.get_all("x") == ("1", "2")
    name = message.headers["reply-to"]
    await other.send(name, "hello")
    await owner.message("hello", destination=f"/temp-{kind}/r", subscription="1")

    await other.write(Command.SUBSCRIBE, id="1", destination=name, **headers)

    error = await other.refused("access refused")
    assert "another connection" in error.body.decode()
    await owner.leave(broker)
    late = await connected(broker)
    await late.send(name, "late")
    await late.refused("no such destination")


# --- as the real ones take it -----------------------------------------------------------------------------------------


async def test_unsubscribe_when_by_destination_then_ends_a_subscription_that_has_an_id(broker: Broker) -> None:
    client = await connected(broker, version=Version.V1_0)
    await client.subscribe("/queue/a", subscription_id="1")
    await client.subscribe("/queue/b", subscription_id="2")

    await client.confirmed(Command.UNSUBSCRIBE, destination="/queue/a")

    assert (broker.consumers("/queue/a"), broker.consumers("/queue/b")) == (0, 1)
    await client.write(Command.UNSUBSCRIBE, destination="/queue/a")
    await client.refused("no such subscription")


@with_options(BrokerOptions(heart_beat=(0, 0)))
async def test_frames_when_written_then_each_ends_with_nul_and_end_of_line(client: RawClient) -> None:
    """As RabbitMQ, ActiveMQ and Artemis write them: php-stomp 2.0.3 loses frames without."""
    await client.subscribe("/queue/a")
    large = b"x" * 100_000
    for body in (b"one", b"", b"\0", large):
        await client.send("/queue/a", body, receipt="r")
    for _ in range(8):
        await client.read()
    await client.write(Command.ACK, id="wrong")
    await client.expect(Command.ERROR)

    data = bytes(client.data)
    assert data.startswith(b"CONNECTED\n")
    assert data.endswith(b"\0\n")
    starts = (b"MESSAGE\n", b"RECEIPT\n", b"ERROR\n")
    assert [data.count(b"\0\n" + start) for start in starts] == [4, 5, 1]
    assert b"\ncontent-length:100000\n\n" + large + b"\0\n" in data
    assert b"\ncontent-length:1\n\n\0\0\n" in data


# --- one thing at a time ----------------------------------------------------------------------------------------------


async def test_connected_when_several_connect_then_each_session_has_a_name_of_its_own(broker: Broker) -> None:
    sessions = [(await RawClient(broker.connect_stream()).connect()).headers["session"] for _ in range(3)]

    assert len(set(sessions)) == 3


@with_options(BrokerOptions(errors_leave_open=True, max_queue_length=1))
async def test_receipt_when_frame_takes_effect_then_follows_what_it_causes_and_never_precedes_a_refusal(
    broker: Broker, client: RawClient
) -> None:
    """Rows 12-RCPT-3, 11-ERR-2."""
    await client.confirmed(Command.SEND, destination="/queue/a")
    assert broker.depth("/queue/a") == 1

    refusals = [
        (Command.SEND, {"destination": "/queue/a"}),
        (Command.ACK, {"id": "1.1"}),
        (Command.COMMIT, {"transaction": "none"}),
        (Command.UNSUBSCRIBE, {"id": "none"}),
        (Command.SUBSCRIBE, {"id": "1", "destination": "nowhere"}),
    ]
    for command, headers in refusals:
        await client.write(command, receipt="r", **headers)
        await client.expect(Command.ERROR, receipt_id="r")
    await client.expect_nothing()


SPELLED = ["/queue/a", "/queue/a ", " /queue/a", "/queue/a\t", "/queue/a b:c", "/queue/\u00e9", "/queue/a/b", "orders"]


@with_options(BrokerOptions(bare_queues=True))
async def test_send_when_a_destination_has_odd_characters_then_they_are_part_of_its_name(
    broker: Broker, client: RawClient
) -> None:
    """Row all-SEND-2."""
    for number, name in enumerate(SPELLED):
        await client.send(name, str(number), receipt="r")
        await client.expect(Command.RECEIPT)

    for number, name in enumerate(SPELLED):
        assert [message.body for message in broker.messages(name)] == [b"%d" % number]


@pytest.mark.parametrize("version", [Version.V1_0])  # where UNSUBSCRIBE may name the destination
@pytest.mark.parametrize("server", [RABBITMQ, ACTIVEMQ])
async def test_destination_when_it_has_no_prefix_then_it_is_a_queue_as_on_the_broker_that_is_imitated(
    broker: Broker, client: RawClient
) -> None:
    await client.send("orders", "1")
    await client.send("/queue/orders", "2", receipt="r")
    await client.expect(Command.RECEIPT)
    broker.publish("orders", "3")

    assert [message.body for message in broker.messages("/queue/orders")] == [b"1", b"2", b"3"]
    assert broker.depth("orders") == 3
    await client.subscribe("orders")
    for body in "123":
        await client.message(body, destination="/queue/orders")
    assert broker.consumers("orders") == 1
    await client.confirmed(Command.UNSUBSCRIBE, destination="orders")
    assert broker.consumers("orders") == 0
    await client.send("orders/tea", receipt="r")
    await client.refused("no such destination")


@pytest.mark.parametrize("server", [ARTEMIS])
async def test_destination_when_it_has_no_prefix_then_it_is_an_address_for_clients_and_for_the_test(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("orders")
    broker.publish("orders", "1")
    await client.send("orders", "2", destination_type="MULTICAST")
    for body in "12":
        await client.message(body, destination="orders")
    assert broker.consumers("orders") == broker.consumers("/topic/orders") == 1
    await client.send("orders", "3", destination_type="ANYCAST", receipt="r")
    await client.expect(Command.RECEIPT)
    assert (broker.depth("orders"), broker.depth("/queue/orders")) == (0, 1)


@with_options(BrokerOptions(server=RABBITMQ, bare_queues=False))
async def test_destination_when_it_has_no_prefix_and_the_options_forbid_it_then_refused(client: RawClient) -> None:
    await client.send("orders")
    await client.refused("no such destination")


async def test_destination_when_it_has_no_prefix_then_one_line_of_the_error_says_what_to_do(broker: Broker) -> None:
    with pytest.raises(trio_stomp.BrokerError) as caught:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            await client.send("orders", "tea", receipt=True)

    assert str(caught.value) == (
        "no such destination: a destination starts with one of /queue/, /topic/, /temp-queue/, /temp-topic/, got "
        "'orders'; BrokerOptions(bare_queues=True) takes it for a queue"
    )
    assert b"\n-----\nSEND [" in caught.value.body
