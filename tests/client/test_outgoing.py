"""What users give to be sent: the bytes that each way of sending makes of it."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.tapped_stream import TappedStream
from trio_stomp import Client, Hooks, LocalProtocolError, OutgoingMessage
from trio_stomp.testing import BrokerOptions, open_broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]

RABBITMQ, ACTIVEMQ = "RabbitMQ/3.13", "ActiveMQ/6.1"
PLAIN = b"SEND\ndestination:/queue/a\ncontent-type:a/b\nk:v\ncontent-length:1\n\nx\0"
TEXT = "content-type:text/plain;charset=utf-8"
LATIN, UPPER = "text/plain;charset=iso-8859-1", "text/plain;charset=UTF-8"
# Hooks see headers one by one, so such a message is encoded in another way.
BOTH_WAYS = pytest.mark.parametrize("hooks", [(), (Hooks(),)], ids=["without hooks", "with hooks"])


@asynccontextmanager
async def talking(
    version: str = "1.2", server: str = RABBITMQ, hooks: Sequence[Hooks] = ()
) -> AsyncGenerator[tuple[TappedStream, Client]]:
    """A client of a broker that says it is `server`, and its stream."""
    async with open_broker(listen=False, options=BrokerOptions(server=server)) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream, heart_beat=(0, 0), hooks=hooks, versions=[version]) as client:
            yield stream, client


async def written(stream: TappedStream) -> bytes:
    """All bytes so far, but for CONNECT."""
    await trio.testing.wait_all_tasks_blocked()
    return bytes(stream.sent).partition(b"\0")[2]


async def sent(body: object, server: str = RABBITMQ, hooks: Sequence[Hooks] = (), **options: object) -> bytes:
    """What a client of this broker writes for one message to ``/queue/a``."""
    async with talking(server=server, hooks=hooks) as (stream, client):
        await client.send("/queue/a", body, **options)  # type: ignore[arg-type]  # as each test says
        return await written(stream)


def frame(headers: str, body: bytes) -> bytes:
    return f"SEND\ndestination:/queue/a\n{headers}\n\n".encode() + body + b"\0"


@BOTH_WAYS
@pytest.mark.parametrize(
    ("server", "body", "options", "headers", "encoded"),
    [
        (RABBITMQ, b"\0\xff", {}, "content-length:2", b"\0\xff"),
        (RABBITMQ, "č", {"headers": {"k": "v"}}, f"{TEXT}\nk:v\ncontent-length:2", b"\xc4\x8d"),
        (RABBITMQ, "č", {"content_type": "a/b"}, "content-type:a/b\ncontent-length:2", b"\xc4\x8d"),
        (RABBITMQ, "é", {"content_type": LATIN}, f"content-type:{LATIN}\ncontent-length:1", b"\xe9"),
        (RABBITMQ, b"x", {"headers": [("a", "1"), ("a", "2")]}, "a:1\na:2\ncontent-length:1", b"x"),
        (RABBITMQ, b"x", {"headers": MappingProxyType({"b": "1", "a": "2"})}, "b:1\na:2\ncontent-length:1", b"x"),
        (RABBITMQ, b"x", {"persistent": True, "priority": 3}, "persistent:true\npriority:3\ncontent-length:1", b"x"),
        (RABBITMQ, b"x", {"headers": {}, "persistent": True}, "persistent:true\ncontent-length:1", b"x"),
        (RABBITMQ, b"x", {"headers": {"k": "v"}, "ttl": 2}, "k:v\nexpiration:2000\ncontent-length:1", b"x"),
        # JMS brokers take a message without a length for text, which is UTF-8 there.
        (ACTIVEMQ, "č", {}, TEXT, b"\xc4\x8d"),
        (ACTIVEMQ, "č", {"content_type": "a/b", "headers": {"k": "v"}}, "content-type:a/b\nk:v", b"\xc4\x8d"),
        (ACTIVEMQ, "č", {"content_type": UPPER}, f"content-type:{UPPER}", b"\xc4\x8d"),
        (ACTIVEMQ, "é", {"content_type": LATIN}, f"content-type:{LATIN}\ncontent-length:1", b"\xe9"),
        (ACTIVEMQ, b"x", {"content_type": "a/b"}, "content-type:a/b\ncontent-length:1", b"x"),
    ],
)
async def test_outgoing_when_sent_then_its_type_comes_first_and_its_options_and_length_last(
    server: str,
    body: bytes | str,
    options: dict[str, object],
    headers: str,
    encoded: bytes,
    hooks: Sequence[Hooks],
) -> None:
    """Rows 1x-CTYPE-1, 1x-CTYPE-8, 10-CTYPE-9."""
    assert await sent(body, server, hooks, **options) == frame(headers, encoded)


@BOTH_WAYS
@pytest.mark.parametrize("kind", [dict, list])
async def test_outgoing_when_the_type_is_a_header_then_it_comes_first_and_the_headers_of_the_program_stay(
    kind: type[dict[str, str] | list[tuple[str, str]]], hooks: Sequence[Hooks]
) -> None:
    given = [("k", "v"), ("content-type", "a/b")]
    headers = kind(given)
    assert await sent("x", hooks=hooks, headers=headers) == PLAIN
    assert headers == kind(given)


async def test_outgoing_when_bytearray_then_a_copy_is_taken() -> None:
    body = bytearray(b"abc")
    async with talking() as (stream, client):
        await client.send("/queue/a", body)  # type: ignore[arg-type]  # sent too, though no annotation says so
        body[0] = 0
        assert await written(stream) == frame("content-length:3", b"abc")


async def test_outgoing_when_time_to_live_ends_at_a_time_then_it_is_counted_from_now() -> None:
    before = time.time()
    (expires,) = re.findall(rb"\nexpires:(\d+)\n", await sent(b"", ACTIVEMQ, ttl=60))
    assert (before + 59.9) * 1000 < int(expires) < (time.time() + 60.1) * 1000


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"a": 1}, Path("film")])
async def test_outgoing_when_body_is_neither_then_error_says_what_to_do(client: Client, body: object) -> None:
    message = OutgoingMessage("/queue/a", body)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(LocalProtocolError, match=r"must be bytes or str, got a .*pass json= .* take files too"):
        await client.send_many([message])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"headers": {"a": 5}}, "name and value must be str, got a value of type int; use str()"),
        ({"headers": [(1, "a")]}, "header 1: name and value must be str, got a name of type int; use str()"),
        ({"headers": {"a": None}}, "name and value must be str, got a value of type NoneType; leave the header out"),
        ({"headers": {"a": b"5"}}, "name and value must be str, got a value of type bytes; use .decode()"),
        ({"headers": {"receipt": "r"}}, "is set by the call itself: use receipt=True"),
        ({"headers": [("transaction", "t")]}, "is set by the call itself: use the methods of client.transaction()"),
        ({"headers": {"destination": "/queue/b"}}, "is set by an argument of the call"),
        ({"headers": {"content-length": "7"}}, "content-length is '7', but the body has 2 bytes"),
        ({"headers": {"": "v"}}, "empty name"),
        ({"headers": {"a": "v\0"}}, "cannot carry"),
        ({"headers": {"a": "\ud800"}}, "lone surrogate"),
        ({"content_type": "no type"}, "MIME type"),
        ({"content_type": ""}, "MIME type"),
        ({"content_type": "text/plain;charset=punycode"}, "; send bytes instead"),
        ({"content_type": "text/plain;a=" + "b" * 2000}, "; send bytes instead"),
        ({"content_type": LATIN}, "cannot be written in iso8859-1, which its content-type names"),
        ({"content_type": "a/b", "headers": {"content-type": "a/b"}}, "the content-type is given twice"),
        ({"persistent": True, "headers": {"persistent": "false"}}, "the header 'persistent' is given twice"),
    ],
)
async def test_outgoing_when_it_cannot_be_sent_then_error_says_why_and_nothing_is_sent(
    options: Mapping[str, object], why: str
) -> None:
    """Row 12-CTYPE-2."""
    async with talking() as (stream, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        for receipt in (False, True):
            with pytest.raises(LocalProtocolError, match=re.escape(why)):
                await client.send("/queue/a", "č", receipt=receipt, **options)  # type: ignore[arg-type]  # what is refused
        assert await written(stream) == PLAIN


@pytest.mark.parametrize("content_type", [None, "a/b", "text/plain;charset=utf-8", "text/plain;charset=utf-16"])
async def test_outgoing_when_its_text_has_a_lone_surrogate_then_error_and_nothing_is_sent(
    content_type: str | None,
) -> None:
    async with talking() as (stream, client):
        for headers in ({"k": "v"}, [("k", "v")]):  # of which one is plain
            for receipt in (False, True):
                with pytest.raises(LocalProtocolError, match="surrogate"):
                    await client.send("/queue/a", "\ud800", headers=headers, content_type=content_type, receipt=receipt)
        assert await written(stream) == b""


# --- each way of sending ----------------------------------------------------------------------------------------------


@BOTH_WAYS
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_message_when_it_is_plain_then_it_is_the_same_whichever_way_it_goes(
    version: str, hooks: Sequence[Hooks]
) -> None:
    async with talking(version, hooks=hooks) as (stream, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        await client.send("/queue/a", b"x", headers=[("k", "v")], content_type="a/b")
        await client.send_many([OutgoingMessage("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")])
        assert await written(stream) == PLAIN * 3


@pytest.mark.parametrize(("version", "value"), [("1.0", "v:\\"), ("1.1", r"v\c\\"), ("1.2", r"v\c\\")])
async def test_message_when_it_needs_escapes_then_it_gets_those_of_the_version(version: str, value: str) -> None:
    async with talking(version, "peer/1") as (stream, client):
        await client.send("/queue/a", b"", headers={"k": "v:\\"})
        assert await written(stream) == frame(f"k:{value}\ncontent-length:0", b"")


async def test_message_when_it_is_of_a_transaction_then_it_names_that() -> None:
    async with talking(server="peer/1") as (stream, client):
        with pytest.raises(LookupError):
            async with client.transaction() as tx:
                await tx.send("/queue/a", b"x", headers={"k": "v"})
                await tx.send("/queue/a", b"x", headers={"k": "v:"})
                raise LookupError
        assert await written(stream) == (
            b"BEGIN\ntransaction:tx-1\n\n\0"
            b"SEND\ndestination:/queue/a\nk:v\ntransaction:tx-1\ncontent-length:1\n\nx\0"
            b"SEND\ndestination:/queue/a\ntransaction:tx-1\nk:v\\c\ncontent-length:1\n\nx\0"
            b"ABORT\ntransaction:tx-1\n\n\0"
        )
