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
from trio.testing import memory_stream_pair

import trio_stomp
from trio_stomp import Client, Hooks, LocalProtocolError, NotSupportedError, OutgoingMessage
from trio_stomp.testing import BrokerOptions, open_broker

RABBITMQ, ACTIVEMQ = "RabbitMQ/3.13", "ActiveMQ/6.1"
PLAIN = b"SEND\ndestination:/queue/a\ncontent-type:a/b\nk:v\ncontent-length:1\n\nx\0"
TEXT = "content-type:text/plain;charset=utf-8"
LATIN = "text/plain;charset=iso-8859-1"
# Hooks see headers one by one, so such a message is encoded in another way.
BOTH_WAYS = pytest.mark.parametrize("hooks", [(), (Hooks(),)], ids=["without hooks", "with hooks"])


class Listener:
    """A peer that keeps what it hears after CONNECT, and answers what asks for a receipt: last things first."""

    def __init__(self, stream: trio.abc.Stream, version: str, server: str) -> None:
        self._stream = stream
        self._hello = f"CONNECTED\nversion:{version}\nserver:{server}\n\n\0".encode()
        self.heard = b""

    async def serve(self) -> None:
        await self._stream.receive_some()
        await self._stream.send_all(self._hello)
        async for data in self._stream:
            self.heard += data
            ids = re.findall(rb"\nreceipt:(\S+)", data)
            await self._stream.send_all(b"".join(b"RECEIPT\nreceipt-id:%b\n\n\0" % id_ for id_ in reversed(ids)))

    async def sent(self) -> bytes:
        """All bytes so far."""
        await trio.testing.wait_all_tasks_blocked()
        return self.heard


@asynccontextmanager
async def talking(
    version: str = "1.2", server: str = RABBITMQ, hooks: Sequence[Hooks] = ()
) -> AsyncGenerator[tuple[Listener, Client]]:
    """A peer that says it is `server`, and a client connected to it."""
    ours, theirs = memory_stream_pair()
    listener = Listener(theirs, version, server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve)  # noqa: ASYNC113  # memory streams hold what is written before it runs
        async with trio_stomp.connect_stream(ours, heart_beat=(0, 0), hooks=hooks) as client:
            yield listener, client


async def sent(body: object, server: str = RABBITMQ, hooks: Sequence[Hooks] = (), **options: object) -> bytes:
    """What a client of this broker writes for one message to ``/queue/a``."""
    async with talking(server=server, hooks=hooks) as (listener, client):
        await client.send("/queue/a", body, **options)  # type: ignore[arg-type]  # as each test says
        return await listener.sent()


def frame(headers: str, body: bytes) -> bytes:
    return f"SEND\ndestination:/queue/a\n{headers}\n\n".encode() + body + b"\0"


@BOTH_WAYS
async def test_outgoing_when_text_then_utf8_and_its_type_is_named(
    hooks: Sequence[Hooks], autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-CTYPE-1, 1x-CTYPE-8."""
    expected = frame(f"{TEXT}\nk:v\ncontent-length:2", b"\xc4\x8d")
    assert await sent("č", hooks=hooks, headers={"k": "v"}) == expected


@BOTH_WAYS
async def test_outgoing_when_text_to_a_jms_broker_then_no_content_length(
    hooks: Sequence[Hooks], autojump_clock: trio.testing.MockClock
) -> None:
    """Row 10-CTYPE-9."""
    assert await sent("č", ACTIVEMQ, hooks) == frame(TEXT, b"\xc4\x8d")
    assert await sent("č", ACTIVEMQ, hooks, content_type="a/b") == frame("content-type:a/b", b"\xc4\x8d")
    upper = "text/plain;charset=UTF-8"
    assert await sent("č", ACTIVEMQ, hooks, content_type=upper) == frame(f"content-type:{upper}", b"\xc4\x8d")
    assert await sent(b"x", ACTIVEMQ, hooks) == frame("content-length:1", b"x")


@BOTH_WAYS
@pytest.mark.parametrize(
    ("body", "options", "headers", "written"),
    [
        (b"\0\xff", {}, "content-length:2", b"\0\xff"),
        ("{}", {"content_type": "a/b", "headers": {"k": "v"}}, "content-type:a/b\nk:v\ncontent-length:2", b"{}"),
        ("é", {"content_type": LATIN}, f"content-type:{LATIN}\ncontent-length:1", b"\xe9"),
        (b"x", {"headers": [("a", "1"), ("a", "2")]}, "a:1\na:2\ncontent-length:1", b"x"),
        (b"x", {"headers": MappingProxyType({"b": "1", "a": "2"})}, "b:1\na:2\ncontent-length:1", b"x"),
        (b"x", {"persistent": True, "priority": 3}, "persistent:true\npriority:3\ncontent-length:1", b"x"),
        (b"x", {"headers": {}, "persistent": True}, "persistent:true\ncontent-length:1", b"x"),
        (b"x", {"headers": {"k": "v"}, "ttl": 2}, "k:v\nexpiration:2000\ncontent-length:1", b"x"),
    ],
)
async def test_outgoing_when_sent_then_its_type_comes_first_and_its_options_last(
    body: bytes | str,
    options: dict[str, object],
    headers: str,
    written: bytes,
    hooks: Sequence[Hooks],
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert await sent(body, RABBITMQ, hooks, **options) == frame(headers, written)


@pytest.mark.parametrize("server", [RABBITMQ, ACTIVEMQ])
@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain;charset=UTF-8"])
@pytest.mark.parametrize("body", [b"a", "č"])
async def test_outgoing_when_encoded_in_either_way_then_it_is_the_same_message(
    server: str, content_type: str | None, body: bytes | str, autojump_clock: trio.testing.MockClock
) -> None:
    plain = await sent(body, server, headers={"k": "v"}, content_type=content_type)
    assert plain == await sent(body, server, [Hooks()], headers={"k": "v"}, content_type=content_type)


@BOTH_WAYS
@pytest.mark.parametrize("kind", [dict, list])
async def test_outgoing_when_the_type_is_a_header_then_it_comes_first_and_the_headers_of_the_program_stay(
    kind: type[dict[str, str] | list[tuple[str, str]]],
    hooks: Sequence[Hooks],
    autojump_clock: trio.testing.MockClock,
) -> None:
    given = [("k", "v"), ("content-type", "a/b")]
    headers = kind(given)
    assert await sent("x", hooks=hooks, headers=headers) == PLAIN
    assert headers == kind(given)


async def test_outgoing_when_bytearray_then_a_copy_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    body = bytearray(b"abc")
    async with talking() as (listener, client):
        await client.send("/queue/a", body)  # type: ignore[arg-type]  # sent too, though no annotation says so
        body[0] = 0
        assert await listener.sent() == frame("content-length:3", b"abc")


async def test_outgoing_when_text_is_not_utf8_then_a_jms_broker_gets_it_as_bytes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    expected = frame(f"content-type:{LATIN}\ncontent-length:1", b"\xe9")
    assert await sent("é", ACTIVEMQ, content_type=LATIN) == expected


async def test_outgoing_when_the_link_carries_text_alone_then_bytes_must_be_utf8() -> None:
    pytest.importorskip("wsproto")
    options = BrokerOptions(server=ACTIVEMQ)
    async with open_broker(websocket=True, options=options) as broker, trio_stomp.connect(broker.url) as client:
        refused = "over a WebSocket ActiveMQ Classic drops bodies that are not UTF-8"
        with pytest.raises(NotSupportedError, match=refused):
            await client.send("/queue/a", b"\xff")
        with pytest.raises(NotSupportedError, match=refused):
            await client.send("/queue/a", "é", content_type=LATIN)
        await client.send("/queue/a", "č".encode(), receipt=True)
        assert [message.body for message in broker.messages("/queue/a")] == [b"\xc4\x8d"]


async def test_outgoing_when_time_to_live_ends_at_a_time_then_it_is_counted_from_now(
    autojump_clock: trio.testing.MockClock,
) -> None:
    before = time.time()
    (expires,) = re.findall(rb"\nexpires:(\d+)\n", await sent(b"", ACTIVEMQ, ttl=60))
    assert (before + 59.9) * 1000 < int(expires) < (time.time() + 60.1) * 1000


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["json", "", "/json", "application/", "a b/c"])
async def test_outgoing_when_content_type_is_no_mime_type_then_error(
    client: Client, content_type: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 12-CTYPE-2."""
    with pytest.raises(LocalProtocolError, match="MIME type"):
        await client.send("/queue/a", b"", content_type=content_type)


@pytest.mark.parametrize("body", [1, {"a": 1}, ["x"], Path("film")])
async def test_outgoing_when_body_is_neither_then_error_says_what_to_do(
    client: Client, body: object, autojump_clock: trio.testing.MockClock
) -> None:
    message = OutgoingMessage("/queue/a", body)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(LocalProtocolError, match=r"must be bytes or str, got a .*pass json= .* take files too"):
        await client.send_many([message])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"headers": {"a": 5}}, "name and value must be str, got a value of type int; use str()"),
        ({"headers": [(1, "a")]}, "name and value must be str"),
        ({"headers": {"receipt": "r"}}, "is set by the call itself: use receipt=True"),
        ({"headers": [("transaction", "t")]}, "is set by the call itself: use the methods of client.transaction()"),
        ({"headers": {"destination": "/queue/b"}}, "is set by an argument of the call"),
        ({"headers": {"content-length": "7"}}, "content-length is '7', but the body has 2 bytes"),
        ({"headers": {"": "v"}}, "empty name"),
        ({"headers": {"a": "v\0"}}, "cannot carry"),
        ({"headers": {"a": "\ud800"}}, "lone surrogate"),
        ({"content_type": "no type"}, "MIME type"),
        ({"content_type": LATIN}, "cannot be written in iso8859-1, which its content-type names"),
        ({"content_type": "a/b", "headers": {"content-type": "a/b"}}, "the content-type is given twice"),
        ({"persistent": True, "headers": {"persistent": "false"}}, "the header 'persistent' is given twice"),
    ],
)
async def test_outgoing_when_it_cannot_be_sent_then_error_says_why_and_nothing_is_sent(
    options: Mapping[str, object], why: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking() as (listener, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        with pytest.raises(LocalProtocolError, match=re.escape(why)):
            await client.send("/queue/a", "č", **options)  # type: ignore[arg-type]  # what is refused
        assert await listener.sent() == PLAIN


@pytest.mark.parametrize("content_type", [None, "a/b", "text/plain;charset=utf-8", "text/plain;charset=utf-16"])
async def test_outgoing_when_its_text_has_a_lone_surrogate_then_error_and_nothing_is_sent(
    content_type: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking() as (listener, client):
        for headers in ({"k": "v"}, [("k", "v")]):  # of which one is plain
            for receipt in (False, True):
                with pytest.raises(LocalProtocolError, match="surrogate"):
                    await client.send("/queue/a", "\ud800", headers=headers, content_type=content_type, receipt=receipt)
        assert await listener.sent() == b""


# --- each way of sending ----------------------------------------------------------------------------------------------


@BOTH_WAYS
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_message_when_it_is_plain_then_it_is_the_same_whichever_way_it_goes(
    version: str, hooks: Sequence[Hooks], autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(version, hooks=hooks) as (listener, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        await client.send("/queue/a", b"x", headers=[("k", "v")], content_type="a/b")
        await client.send_many([OutgoingMessage("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")])
        assert await listener.sent() == PLAIN * 3


@pytest.mark.parametrize(("version", "value"), [("1.0", "v:\\"), ("1.1", r"v\c\\"), ("1.2", r"v\c\\")])
async def test_message_when_it_needs_escapes_then_it_gets_those_of_the_version(
    version: str, value: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(version, "peer/1") as (listener, client):
        await client.send("/queue/a", b"", headers={"k": "v:\\"})
        assert await listener.sent() == frame(f"k:{value}\ncontent-length:0", b"")


async def test_message_when_it_is_of_a_transaction_then_it_names_that(autojump_clock: trio.testing.MockClock) -> None:
    async with talking(server="peer/1") as (listener, client):
        with pytest.raises(LookupError):
            async with client.transaction() as tx:
                await tx.send("/queue/a", b"x", headers={"k": "v"})
                await tx.send("/queue/a", b"x", headers={"k": "v:"})
                raise LookupError
        assert await listener.sent() == (
            b"BEGIN\ntransaction:tx-1\n\n\0"
            b"SEND\ndestination:/queue/a\nk:v\ntransaction:tx-1\ncontent-length:1\n\nx\0"
            b"SEND\ndestination:/queue/a\ntransaction:tx-1\nk:v\\c\ncontent-length:1\n\nx\0"
            b"ABORT\ntransaction:tx-1\n\n\0"
        )
