"""What users get, as type checkers see it. Read by mypy and pyright, and never run."""

# mypy takes the __init__ that Pydantic's models are given for an explicit Any; pyright does not.
# mypy: disallow-any-explicit=False

import io
import json
import math
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, assert_type

import msgspec
import pydantic
import trio

import trio_stomp
import trio_stomp.blocking
from trio_stomp import AckMode
from trio_stomp.testing import Broker, ThreadedBroker, open_broker, run_broker_in_thread
from trio_stomp.types import HeartBeatTerms, Version


async def fetch() -> tuple[str, str]:
    await trio.lowlevel.checkpoint()
    return "guest", "guest"


async def connections(stream: trio.abc.Stream, tls: ssl.SSLContext) -> None:
    async with trio_stomp.connect("stomp://localhost") as client:
        assert_type(client, trio_stomp.Client)
    async with trio_stomp.connect_stream(stream, vhost="/", headers=[("client-id", "a")]) as client:
        assert_type(client, trio_stomp.Client)
    async with trio_stomp.connect(
        ("stomp://a", "stomp://b"),
        login="guest",
        passcode="guest",
        credentials=fetch,
        versions=["1.2", Version.V1_1],
        heart_beat=(10, 2.5),
        tls=tls,
        limits=trio_stomp.Limits(body_bytes=1),
        profile=client.profile,
        connect_timeout=1,
        timeout=2.5,
        headers={"client-id": "a"},
    ):
        pass
    options: trio_stomp.types.ConnectOptions = {"login": "guest", "tls": True, "profile": "rabbitmq"}
    async with trio_stomp.connect("stomp://localhost", **options):
        pass


async def what_was_agreed_upon(client: trio_stomp.Client) -> None:
    assert_type(client.version, Version)
    assert_type(client.server, str | None)
    assert_type(client.session_id, str | None)
    assert_type(client.profile, trio_stomp.types.Profile)
    assert_type(client.heart_beat, HeartBeatTerms)
    assert_type(client.statistics(), trio_stomp.types.Statistics)
    assert_type(client.statistics().subscriptions, tuple[trio_stomp.types.SubscriptionStatistics, ...])
    assert_type(await client.disconnect(), trio_stomp.DisconnectResult)
    await client.wait_closed()


async def time_limits(client: trio_stomp.Client, message: trio_stomp.Message[int], limit: float | None) -> None:
    await client.send("/queue/a", b"bytes", timeout=limit)
    await client.send_many([], receipt=True, timeout=1)
    assert_type((await client.request("/queue/a", b"")).value, object)
    async with client.publisher(timeout=1) as publisher:
        publication = await publisher.send("/queue/a", b"", timeout=0)
        assert_type(await publisher.send_many([], timeout=0), list[trio_stomp.Publication])
        await publication.wait(timeout=0.5)
        await publication.wait_settled(timeout=0.5)
        await publisher.wait_confirmed(timeout=math.inf)
    async with client.transaction(timeout=1) as tx:
        await tx.send("/queue/a", b"", timeout=1)
        await tx.send_many([], timeout=1)
        await tx.ack(message, timeout=1)
        await tx.nack(message, requeue=True, timeout=1)
        await tx.commit(timeout=1)
    async with client.subscribe("/queue/a", decode=int, timeout=1) as numbers:
        assert_type(await numbers.receive(), trio_stomp.Message[int])
        assert_type(await numbers.receive(timeout=1), trio_stomp.Message[int])
        assert_type(await numbers.receive_batch(10, timeout=limit), list[trio_stomp.Message[int]])
        async for each in numbers.messages(timeout=1):
            assert_type(each, trio_stomp.Message[int])
        await numbers.ack_up_to(message, timeout=1)
        await numbers.delete(timeout=1)
    await message.ack(receipt=True, timeout=1)
    await message.nack(timeout=1)
    try:
        await client.disconnect(timeout=1)
        await client.wait_closed(timeout=1)
        await client.aclose(timeout=1)
    except trio_stomp.UnconfirmedTimeout as error:
        assert_type(error.messages, tuple[trio_stomp.types.UnconfirmedMessage, ...])
    except trio_stomp.OperationTimeout as error:
        assert_type(error.messages, tuple[trio_stomp.types.UnconfirmedMessage, ...])
        assert_type(error.sent, int)
    except TimeoutError:
        pass


async def sends(client: trio_stomp.Client) -> None:
    await client.send("/queue/a", b"bytes")
    await client.send("/queue/a", "text", headers={"a": "b"}, content_type="text/plain", receipt=True)
    await client.send("/queue/a", "text", headers=[("a", "b"), ("a", "c")])
    headers: Mapping[str, str] = trio_stomp.types.Headers([("a", "b")])
    await client.send("/queue/a", "text", headers=headers)


async def what_brokers_add(client: trio_stomp.Client, server: trio_stomp.types.ProfileName) -> None:
    quorum = trio_stomp.QueueArguments(type="quorum", max_length=10)
    await client.send("/queue/a", b"", persistent=True, ttl=60, priority=5, delay=1.5, group="g", dedup_id="d")
    options: trio_stomp.types.SendOptions = {"persistent": True, "ttl": None, "queue_arguments": quorum}
    await client.send("/queue/a", b"", receipt=True, **options)
    assert_type((await client.request("/queue/a", b"", timeout=1, **options)).value, object)
    assert_type((await client.request("/queue/a", b"", timeout=1, decode=int, **options)).value, int)
    await client.send_many([trio_stomp.OutgoingMessage("/queue/a", b"", ttl=60)])
    async with client.publisher() as publisher, client.transaction() as tx:
        assert_type(await publisher.send("/queue/a", b"", **options), trio_stomp.Publication)
        await tx.send("/queue/a", b"", **options)
    async with client.subscribe("/queue/a", selector="a = 1", durable=None, browse=True, no_local=True) as seen:
        await seen.delete()
    offset: trio_stomp.types.StreamOffset = datetime.now(UTC)
    wanted: trio_stomp.types.SubscribeOptions = {"stream_offset": offset, "queue_arguments": quorum}
    mode: trio_stomp.types.AckName = "client"
    beyond: trio_stomp.types.OverflowName = "error"
    client.subscribe("/queue/a", ack=mode, overflow=beyond, **wanted)
    client.subscribe("/queue/a", ack=AckMode.CLIENT, overflow=trio_stomp.types.Overflow.WAIT, stream_offset=12)
    trio_stomp.connect("stomp://localhost", profile=server)


async def subscriptions(client: trio_stomp.Client) -> None:
    assert_type(client.subscribe("/queue/a"), AbstractAsyncContextManager[trio_stomp.Subscription, bool | None])
    async with client.subscribe("/queue/a", ack="auto", prefetch=1, overflow="drop-oldest") as orders:
        assert_type(orders, trio_stomp.Subscription)
        assert_type(orders.ack_mode, AckMode)
        assert_type(orders.statistics(), trio_stomp.types.SubscriptionStatistics)
        async for message in orders:
            assert_type(message, trio_stomp.Message)
        assert_type(await anext(orders), trio_stomp.Message)
        batch = await orders.receive_batch(10, linger=0.1)
        assert_type(batch, list[trio_stomp.Message])
        await orders.ack_up_to(batch[-1])


class Order(pydantic.BaseModel):
    number: int


class Parcel(msgspec.Struct):
    number: int


def read_number(body: bytes) -> int:
    return int(body)


async def handle_order(message: trio_stomp.Message[Order]) -> None:
    assert_type(message.value, Order)
    await trio.lowlevel.checkpoint()


async def handle_any(message: trio_stomp.Message) -> None:
    assert_type(message.value, object)
    await trio.lowlevel.checkpoint()


async def values(client: trio_stomp.Client, order: trio_stomp.Message) -> None:
    message = trio_stomp.OutgoingMessage("/queue/a", json=Order(number=1), encode=Order.model_dump_json, ttl=60)
    assert_type(message.body, bytes | str)
    await client.send(message, receipt=True)
    await client.send("/queue/a", json={"number": 1}, encode=msgspec.json.encode)
    async with client.publisher() as publisher, client.transaction() as tx:
        assert_type(await publisher.send(message), trio_stomp.Publication)
        await tx.send("/queue/a", json=[1])
    assert_type(await client.request(message, timeout=1), trio_stomp.Message)
    assert_type(order.json(), object)
    assert_type(order.json(Order), Order)
    assert_type(order.json(read_number), int)
    await order.reply(json=[1], receipt=True)


@asynccontextmanager
async def timed(message: trio_stomp.Message[Order]) -> AsyncGenerator[None]:
    assert_type(message.value, Order)
    yield


async def around(orders: trio_stomp.Subscription[Order]) -> None:
    await orders.work(handle_order, around=[timed])


async def environment() -> None:
    options = trio_stomp.options_from_environment()
    assert_type(options, trio_stomp.types.EnvironmentOptions)
    async with trio_stomp.connect(**options, versions=["1.2"]) as client:
        assert_type(client, trio_stomp.Client)
    with trio_stomp.blocking.connect(**options) as blocking:
        assert_type(blocking, trio_stomp.blocking.Client)


async def bodies(client: trio_stomp.Client) -> None:
    async with client.subscribe("/queue/a") as plain:
        assert_type((await anext(plain)).value, object)
    async with client.subscribe("/queue/a", decode=Order) as orders:
        assert_type(orders, trio_stomp.Subscription[Order])
        assert_type((await anext(orders)).value, Order)
        await orders.work(handle_order, key=lambda message: message.value.number)
        await orders.work(handle_any, dead_letter=lambda message: message.destination)
    async with client.subscribe("/queue/a", decode=pydantic.TypeAdapter(list[int])) as lists:
        assert_type((await anext(lists)).value, list[int])
    async with client.subscribe("/queue/a", decode=msgspec.json.Decoder(Parcel)) as parcels:
        assert_type((await parcels.receive_batch(2))[0].value, Parcel)
    async with client.subscribe("/queue/a", decode=read_number) as numbers:
        assert_type((await anext(numbers)).value, int)
    async with client.subscribe("/queue/a", decode=lambda body: body.hex()) as texts:
        assert_type((await anext(texts)).value, str)
    async with client.subscribe("/queue/a", decode=json.loads) as values:
        await values.work(handle_any)


async def without_a_block() -> None:
    options: trio_stomp.types.ConnectOptions = {"login": "guest", "credentials": fetch}
    client = await trio_stomp.open("stomp://localhost", **options)
    assert_type(client, trio_stomp.Client)
    await client.aclose()
    async with await trio_stomp.open("stomp://localhost", heart_beat=(10, 2.5), tls=True) as client:
        assert_type(client, trio_stomp.Client)
        async for state in client.state_changes():
            assert_type(state, trio_stomp.types.ConnectionState)


async def messages(message: trio_stomp.Message) -> None:
    async with message as same:
        assert_type(same, trio_stomp.Message)
    assert_type(message.body, bytes)
    assert_type(message.text, str)
    assert_type(message.json(), object)
    assert_type(message.id, str)
    assert_type(message.destination, str)
    assert_type(message.content_type, str | None)
    assert_type(message.redelivered, bool)
    assert_type(message.headers, trio_stomp.types.Headers)
    assert_type(message.headers["a"], str)
    assert_type(message.headers.get("a"), str | None)
    assert_type(message.headers.get_all("a"), tuple[str, ...])
    assert_type(message.settlement, trio_stomp.types.Settlement)
    assert_type(message.subscription.destination, str)
    await message.ack(receipt=True)
    await message.nack(headers={"requeue": "false"})


async def transactions(client: trio_stomp.Client, message: trio_stomp.Message) -> None:
    async with client.transaction() as tx:
        assert_type(tx, trio_stomp.Transaction)
        await tx.send("/queue/a", "text", headers={"a": "b"}, content_type="text/plain")
        await tx.ack(message)
        await tx.nack(message)
        await tx.commit()
        tx.abort()
    assert_type(tx.state, trio_stomp.types.TransactionState)
    assert_type(tx.id, str)


async def errors() -> None:
    try:
        await trio.lowlevel.checkpoint()
    except trio_stomp.ConnectError as error:
        assert_type(error.failures, tuple[trio_stomp.types.ConnectFailure, ...])
        assert_type(error.failures[0].cause, BaseException | None)
    except trio_stomp.BrokerError as error:
        assert_type(error.message, str)
        assert_type(error.headers, Mapping[str, str])
        assert_type(error.body, bytes)
        assert_type(error.receipt_id, str | None)


async def brokers_for_tests() -> None:
    async with open_broker() as broker:
        assert_type(broker, Broker)
        assert_type(broker.url, str)
        assert_type(broker.depth("/queue/a"), int)
        assert_type(broker.messages("/queue/a")[0].body, bytes)
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            assert_type(client, trio_stomp.Client)
    with run_broker_in_thread() as threaded:
        assert_type(threaded, ThreadedBroker)
        assert_type(threaded.call(lambda inner: inner.depth("/queue/a")), int)
        threaded.call(Broker.stop_listening)


async def large_bodies(client: trio_stomp.Client, message: trio_stomp.Message, path: Path, file: BinaryIO) -> None:
    assert_type(message.is_spooled, bool)
    assert_type(message.body_size, int)
    assert_type(message.open_body(), BinaryIO)
    async for chunk in message.chunks():
        assert_type(chunk, bytes)
    async with client.subscribe("/queue/a", spool_threshold_bytes=1_000_000):
        pass
    await client.send("/queue/a", path)
    await client.send("/queue/a", file)
    await client.send("/queue/a", io.BytesIO())
    with tempfile.TemporaryFile() as temporary, path.open("rb") as buffered:
        await client.send("/queue/a", temporary)
        await client.send("/queue/a", buffered)
    await client.send("/queue/a", message.chunks(), content_length=message.body_size)
    async with client.transaction() as transaction:
        await transaction.send("/queue/a", path)


def synchronous_code(client: trio_stomp.blocking.Client, text: str) -> None:
    assert_type(trio_stomp.blocking.open(text, after_fork="reopen", timeout=5), trio_stomp.blocking.Client)
    with trio_stomp.blocking.connect([text], credentials=lambda: ("guest", "guest"), timeout=None) as connected:
        assert_type(connected, trio_stomp.blocking.Client)
    assert_type(client.send("/queue/a", text, headers={"a": "b"}, persistent=True, ttl=5, timeout=1), None)
    client.send_many([trio_stomp.OutgoingMessage("/queue/a", b"")], receipt=True, timeout=1)
    assert_type(client.state.healthy, bool)
    assert_type(client.version, Version)
    assert_type(client.server, str | None)
    assert_type(client.disconnect(timeout=1), trio_stomp.DisconnectResult)
    client.wait_closed(timeout=1)
    client.close(timeout=1)
    with client.subscribe("/queue/a", decode=read_number, timeout=1) as numbers:
        assert_type(numbers, trio_stomp.blocking.Subscription[int])
        for message in numbers:
            assert_type(message, trio_stomp.blocking.Message[int])
            assert_type(message.value, int)
            assert_type(message.body, bytes)
            assert_type(message.content_type, str | None)
            with message:
                message.ack(receipt=True, timeout=1)
        assert_type(numbers.receive(timeout=1), trio_stomp.blocking.Message[int])
        assert_type(numbers.receive_batch(5, linger=0.1, timeout=1), list[trio_stomp.blocking.Message[int]])
        for message in numbers.messages(timeout=1):
            numbers.ack_up_to(message, timeout=1)
        numbers.work(lambda taken: taken.ack(), timeout=1)
        numbers.delete(timeout=1)
    with client.transaction(timeout=1) as transaction:
        assert_type(transaction, trio_stomp.blocking.Transaction)
        transaction.send("/queue/a", b"", headers=[("a", "b")], timeout=1)
        transaction.commit(timeout=1)
        assert_type(transaction.state, trio_stomp.types.TransactionState)
    publishing: AbstractContextManager[trio_stomp.blocking.Publisher] = client.publisher(5, timeout=1)
    with publishing as publisher:
        publication = publisher.send("/queue/a", text, priority=5, timeout=1)
        assert_type(publication, trio_stomp.blocking.Publication)
        publication.wait(timeout=1)
        publisher.wait_confirmed(timeout=1)
        assert_type(publisher.confirmed, int)
    assert_type(client.run_transaction(lambda opened: opened.id, timeout=1), str)
    assert_type(client.request("/queue/a", text, decode=read_number, timeout=1).value, int)
