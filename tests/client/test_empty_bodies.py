"""The header ``content-length``: JMS brokers take a message with it for bytes, be it empty, and any other for text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import memory_stream_pair

import trio_stomp
from tests.kit.peer import Peer, PeerOptions
from trio_stomp import Client, Hooks, OutgoingMessage
from trio_stomp.types import Command

Send = Callable[[Client, "bytes | str"], Awaitable[object]]


@asynccontextmanager
async def talking(
    server: str, version: str = "1.2", hooks: tuple[Hooks, ...] = ()
) -> AsyncGenerator[tuple[Peer, Client]]:
    ours, theirs = memory_stream_pair()
    peer = Peer(theirs, PeerOptions(server=server))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)  # noqa: ASYNC113  # memory streams hold what is written before it runs
        async with trio_stomp.connect_stream(ours, heart_beat=(0, 0), hooks=hooks, versions=[version]) as client:
            yield peer, client


async def plainly(client: Client, body: bytes | str) -> None:
    await client.send("/queue/a", body)


async def with_escapes(client: Client, body: bytes | str) -> None:
    await client.send("/queue/a", body, headers={"k": "a\\b"})


async def with_content_type(client: Client, body: bytes | str) -> None:
    await client.send("/queue/a", body, content_type="text/plain" if isinstance(body, str) else "a/b")


async def confirmed(client: Client, body: bytes | str) -> None:
    await client.send("/queue/a", body, receipt=True)


async def confirmed_with_escapes(client: Client, body: bytes | str) -> None:
    await client.send("/queue/a", body, receipt=True, headers={"k": "a\\b"})


async def many(client: Client, body: bytes | str) -> None:
    await client.send_many([OutgoingMessage("/queue/a", body)])


async def published(client: Client, body: bytes | str) -> None:
    async with client.publisher() as publisher:
        await publisher.send("/queue/a", body)


async def many_published(client: Client, body: bytes | str) -> None:
    await client.send_many([OutgoingMessage("/queue/a", body)], receipt=True)


async def in_transaction(client: Client, body: bytes | str) -> None:
    async with client.transaction() as transaction:
        await transaction.send("/queue/a", body)


async def as_request(client: Client, body: bytes | str) -> None:
    with pytest.raises(trio_stomp.RequestTimeout):
        await client.request("/queue/a", body, timeout=1)


WAYS = [
    plainly,
    with_escapes,
    with_content_type,
    confirmed,
    confirmed_with_escapes,
    many,
    published,
    many_published,
    in_transaction,
    as_request,
]


@pytest.mark.parametrize("hooks", [(), (Hooks(),)], ids=["plain", "hooks"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("server", ["ActiveMQ/6.1.8", "ActiveMQ-Artemis/2.44", "RabbitMQ/3.13", "other/1"])
@pytest.mark.parametrize("send", WAYS)
async def test_body_when_empty_then_bytes_have_a_length_and_text_has_none(
    send: Send, server: str, version: str, hooks: tuple[Hooks, ...], autojump_clock: trio.testing.MockClock
) -> None:
    if version == "1.0" and send in {with_escapes, confirmed_with_escapes}:
        pytest.skip("1.0 has no escapes")
    async with talking(server, version, hooks) as (peer, client):
        await send(client, b"")
        await send(client, "")
        await peer.wait_for(Command.SEND, 2)
    lengths = [frame.headers.get("content-length") for frame in peer.of(Command.SEND)]
    assert lengths == ["0", None]


@pytest.mark.parametrize(
    ("headers", "body", "is_text"),
    [
        ({}, b"", True),
        ({"content-length": "0"}, b"", False),
        ({}, b"a", True),
        ({"content-length": "1"}, b"a", False),
        ({"content-length": "1", "content-type": "text/plain"}, b"a", True),
        ({"content-length": "1", "content-type": "application/json"}, b"a", False),
        ({"content-type": "application/json"}, b"a", True),
        ({"content-type": "text/plain;charset=latin-1"}, b"a", False),
        ({}, b"\xff", False),
    ],
)
async def test_dead_letter_when_sent_then_it_is_a_text_message_where_jms_would_say_so(
    headers: dict[str, str], body: bytes, autojump_clock: trio.testing.MockClock, *, is_text: bool
) -> None:
    async def fail(_message: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError

    async with talking("ActiveMQ/6.1.8") as (peer, client), client.subscribe("/q", id="s") as subscription:
        await peer.wait_for(Command.SUBSCRIBE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: subscription.work(fail, retry=trio_stomp.Retry(attempts=1), dead_letter="/dead"))
            sent = peer.ledger.deliver("s", body)
            own = {"subscription": "s", "message-id": sent.message_id, "ack": sent.ack_id, "destination": "/q"}
            lines = [f"{name}:{value}" for name, value in {**own, **headers}.items()]
            peer.put("\n".join(["MESSAGE", *lines, "", ""]).encode() + body + b"\0")
            frame = await peer.wait_for(Command.SEND)
            await peer.wait_for(Command.COMMIT)
            nursery.cancel_scope.cancel()
    assert frame.body == body
    assert frame.headers.get("content-length") == (None if is_text else str(len(body)))
