"""Arguments of the wrong type, as programs without a type checker pass them: refused at the call, on both loops."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client.clients import client_of, pieces_of
from trio_stomp import Client, LocalProtocolError, OutgoingMessage, Subscription

pytestmark = pytest.mark.anyio

QUEUE = "/queue/orders"
TUPLE = (QUEUE, "x")
NO_MESSAGE = r"each message must be an OutgoingMessage, got \('/queue/orders', 'x'\): use OutgoingMessage\(destination"


@asynccontextmanager
async def connected(server: str = "trio-stomp-testing/1") -> AsyncGenerator[tuple[Client, Subscription]]:
    async with client_of(server) as (client, _), client.subscribe(QUEUE) as subscription:
        yield client, subscription


async def in_publisher(client: Client, **options: object) -> None:
    async with client.publisher(**options) as publisher:  # type: ignore[arg-type]  # what is refused
        await publisher.send_many([TUPLE])  # type: ignore[list-item]  # what is refused


async def in_transaction(client: Client) -> None:
    async with client.transaction() as transaction:
        await transaction.send_many([TUPLE])  # type: ignore[list-item]  # what is refused


async def subscribed(client: Client, destination: object) -> None:
    async with client.subscribe(destination):  # type: ignore[arg-type]  # what is refused
        raise AssertionError


async def settled(client: Client, verb: str, **options: object) -> None:
    async with client.subscribe("/queue/settled") as subscription:
        await client.send("/queue/settled", b"", headers={"reply-to": QUEUE})
        message = await anext(subscription)
        arguments = (b"",) if verb == "reply" else ()
        await getattr(message, verb)(*arguments, **options)


async def unused(_transaction: object) -> None:  # noqa: ASYNC124  # never called
    raise AssertionError


# What is done with a client, and what is said of it.
WRONG: dict[str, tuple[Callable[[Client], Awaitable[object]], str]] = {
    "message, no destination": (lambda client: client.send(OutgoingMessage(None, b"")), "destination must be .* None"),  # type: ignore[arg-type]  # wrong on purpose
    "subscribe, no destination": (
        lambda client: subscribed(client, None),
        "^destination must be a str such as '/queue/orders', got None$",
    ),
    "subscribe, empty": (lambda client: subscribed(client, ""), "destination must be .*, got ''"),
    "subscribe, list": (lambda client: subscribed(client, [QUEUE]), r"destination must be .*, got \['/queue/orders'\]"),
    "request, reply_to": (
        lambda client: client.request(QUEUE, b"", timeout=1, reply_to=5),  # type: ignore[arg-type]  # wrong on purpose
        "reply_to must be a str such as '/queue/orders', got 5",
    ),
    "request, empty reply_to": (
        lambda client: client.request(QUEUE, b"", timeout=1, reply_to=""),
        "reply_to must name a destination",
    ),
    "request, timeout": (lambda client: client.request(QUEUE, b"", timeout=0), "timeout must be more than 0"),
    "request, decode": (
        lambda client: client.request(QUEUE, b"", timeout=1, decode=3),  # type: ignore[arg-type]  # wrong on purpose
        "decode must be a function of bytes",
    ),
    "send_many": (lambda client: client.send_many([TUPLE]), NO_MESSAGE),  # type: ignore[list-item]  # wrong on purpose
    "send_many, confirmed": (lambda client: client.send_many([TUPLE], receipt=True), NO_MESSAGE),  # type: ignore[list-item]  # wrong on purpose
    "send_many, a text": (lambda client: client.send_many(QUEUE), "must be an OutgoingMessage, got '/'"),  # type: ignore[arg-type]  # wrong on purpose
    "send_many of a publisher": (in_publisher, NO_MESSAGE),
    "send_many of a transaction": (in_transaction, NO_MESSAGE),
    "publisher, window": (
        lambda client: in_publisher(client, max_in_flight="5"),
        "max_in_flight must be an int of at least 1, got '5'",
    ),
    "publisher, bytes": (
        lambda client: in_publisher(client, max_in_flight_bytes=0),
        "max_in_flight_bytes must be an int of at least 1, got 0",
    ),
    "send, receipt": (
        lambda client: client.send(QUEUE, b"", receipt="r-1"),  # type: ignore[arg-type]  # wrong on purpose
        "^receipt must be True or False, got 'r-1'$",
    ),
    "send a file, receipt": (
        lambda client: client.send(QUEUE, Path(__file__), receipt="r-1"),  # type: ignore[arg-type]  # wrong on purpose
        "receipt must be True or False, got 'r-1'",
    ),
    "send a file, empty destination": (lambda client: client.send("", Path(__file__)), "destination must be .* got ''"),
    "send a file, destination": (lambda client: client.send(None, Path(__file__)), "destination must be .* got None"),  # type: ignore[arg-type]  # wrong on purpose
    "send, length": (
        lambda client: client.send(QUEUE, pieces_of(b"1"), content_length="1"),  # type: ignore[arg-type]  # wrong on purpose
        "needs content_length=, .*; got '1'",
    ),
    "send_many, receipt": (
        lambda client: client.send_many([], receipt="r-1"),  # type: ignore[arg-type]  # wrong on purpose
        "receipt must be True or False, got 'r-1'",
    ),
    "ack, receipt": (lambda client: settled(client, "ack", receipt="r-1"), "receipt must be True or False, got 'r-1'"),
    "nack, receipt": (lambda client: settled(client, "nack", receipt=1), "receipt must be True or False, got 1"),
    "nack, requeue": (
        lambda client: settled(client, "nack", requeue="false"),
        "requeue must be True or False, got 'false'",
    ),
    "reply, receipt": (lambda client: settled(client, "reply", receipt="r"), "receipt must be True or False, got 'r'"),
    "reply, persistent": (
        lambda client: settled(client, "reply", persistent="no"),
        "persistent must be True or False, got 'no'",
    ),
    "run_transaction": (
        lambda client: client.run_transaction(unused, attempts="3"),  # type: ignore[arg-type]  # wrong on purpose
        "attempts must be an int of at least 1, got '3'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_call_when_an_argument_is_of_the_wrong_type_then_it_says_what_was_expected_and_nothing_is_sent(
    name: str,
) -> None:
    call, words = WRONG[name]
    async with connected() as (client, subscription):
        with pytest.raises(LocalProtocolError, match=words):
            await call(client)
        await client.send(QUEUE, b"next", receipt=True)
        assert (await anext(subscription)).body == b"next"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_messages": "5"}, "max_messages must be an int of at least 1, got '5'"),
        ({"max_messages": 0}, "max_messages must be an int of at least 1, got 0"),
        ({"max_messages": 1, "linger": "1"}, "linger must be a number of seconds, 0 or more, got '1'"),
    ],
)
async def test_receive_batch_when_an_argument_is_wrong_then_refused_and_the_message_stays(
    options: dict[str, object], words: str
) -> None:
    async with connected() as (client, subscription):
        await client.send(QUEUE, b"1", receipt=True)
        with pytest.raises(LocalProtocolError, match=words):
            await subscription.receive_batch(**options)  # type: ignore[arg-type]  # what is refused
        assert [message.body for message in await subscription.receive_batch(5)] == [b"1"]


@pytest.mark.parametrize("offset", [5.5, True, -1, b"first"])
async def test_stream_offset_when_it_is_no_place_then_refused_at_the_call(offset: object) -> None:
    async with connected("RabbitMQ/4.1.4") as (client, _):
        with pytest.raises(LocalProtocolError, match="stream_offset must be 'first', 'last', 'next', the number"):
            client.subscribe("/amq/queue/s", stream_offset=offset)  # type: ignore[arg-type]  # what is refused


PREFETCH_HEADERS = {
    "trio-stomp-testing/1": "prefetch-count",
    "RabbitMQ/4.1.4": "prefetch-count",
    "ActiveMQ/6.1": "activemq.prefetchSize",
    "ActiveMQ-Artemis/2.44.0": "consumer-window-size",
}


@pytest.mark.parametrize("server", PREFETCH_HEADERS)
async def test_subscribe_when_headers_hold_the_prefetch_then_refused_because_the_first_of_two_would_count(
    server: str,
) -> None:
    header = PREFETCH_HEADERS[server]
    async with connected(server) as (client, _):
        with pytest.raises(LocalProtocolError, match=f"^header '{header}' is set by the call itself: use prefetch=$"):
            client.subscribe("/queue/other", headers={header: "1"})
        # There the client asks for no prefetch.
        async with client.subscribe("/queue/other", headers={header: "1"}, ack="auto"):
            pass


async def test_subscribe_when_headers_hold_what_an_option_sets_then_refused() -> None:
    async with connected("ActiveMQ/6.1") as (client, _):
        with pytest.raises(LocalProtocolError, match="the header 'selector' is given twice: in headers= and by an opt"):
            client.subscribe("/queue/other", selector="a = 1", headers={"selector": "a = 2"})
        async with client.subscribe("/queue/other", headers={"selector": "a = 2"}):
            pass


@pytest.mark.parametrize("options", [{"browse": None}, {"no_local": 0}, {"id": None}])
async def test_subscribe_when_an_option_is_false_in_another_way_then_it_means_the_default(
    options: dict[str, object],
) -> None:
    async with connected() as (client, _), client.subscribe("/queue/other", **options):  # type: ignore[arg-type]  # typed otherwise
        pass
