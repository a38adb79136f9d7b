"""Sends that return at once: the bytes that each way of sending produces."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import memory_stream_pair

import trio_stomp
from trio_stomp import Client, Hooks, LocalProtocolError, NotSupportedError, OutgoingMessage

PLAIN = b"SEND\ndestination:/queue/a\ncontent-type:a/b\nk:v\ncontent-length:1\n\nx\0"


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
    version: str = "1.2", server: str = "peer/1", hooks: Sequence[Hooks] = ()
) -> AsyncGenerator[tuple[Listener, Client]]:
    """A peer that says it is `server`, and a client connected to it."""
    ours, theirs = memory_stream_pair()
    listener = Listener(theirs, version, server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve)  # noqa: ASYNC113  # memory streams hold what is written before it runs
        async with trio_stomp.connect_stream(ours, heart_beat=(0, 0), hooks=hooks) as client:
            yield listener, client


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_message_when_it_is_plain_then_it_is_the_same_whichever_way_it_goes(
    version: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(version) as (listener, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        await client.send("/queue/a", b"x", headers=[("k", "v")], content_type="a/b")
        await client.send_many([OutgoingMessage("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")])
        assert await listener.sent() == PLAIN * 3
    async with talking(version, hooks=[Hooks()]) as (listener, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        assert await listener.sent() == PLAIN


async def test_message_when_it_needs_escapes_then_it_gets_those_of_the_version(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for version, given in (("1.0", b"v:\\"), ("1.1", b"v\\c\\\\"), ("1.2", b"v\\c\\\\")):
        async with talking(version) as (listener, client):
            await client.send("/queue/a", b"", headers={"k": "v:\\"})
            assert await listener.sent() == b"SEND\ndestination:/queue/a\nk:" + given + b"\ncontent-length:0\n\n\0"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"a": 5}, "name and value must be str, got a value of type int"),
        ({"receipt": "r"}, "is set by the call itself"),
        ({"transaction": "t"}, "is set by the call itself"),
        ({"destination": "/queue/b"}, "is set by an argument of the call"),
        ({"content-length": "7"}, "content-length is '7', but the body has 1 bytes"),
        ({"": "v"}, "empty name"),
        ({"a": "v\0"}, "cannot carry"),
        ({"a": "\ud800"}, "lone surrogate"),
    ],
)
async def test_message_when_its_headers_cannot_be_sent_then_error_says_why_and_nothing_is_sent(
    headers: dict[str, str], why: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking() as (listener, client):
        await client.send("/queue/a", b"x", headers={"k": "v"}, content_type="a/b")
        with pytest.raises(LocalProtocolError, match=why):
            await client.send("/queue/a", b"x", headers=headers)
        with pytest.raises(LocalProtocolError, match="MIME type"):
            await client.send("/queue/a", b"x", content_type="no type")
        assert await listener.sent() == PLAIN


@pytest.mark.parametrize("content_type", [None, "a/b", "text/plain;charset=utf-8", "text/plain;charset=utf-16"])
async def test_message_when_its_text_has_a_lone_surrogate_then_error_and_nothing_is_sent(
    content_type: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking() as (listener, client):
        for headers in ({"k": "v"}, [("k", "v")]):  # of which one is plain
            with pytest.raises(LocalProtocolError, match="surrogate"):
                await client.send("/queue/a", "a\ud800", headers=headers, content_type=content_type)
        with pytest.raises(LocalProtocolError, match="surrogate"):
            await client.send("/queue/a", "a\ud800", content_type=content_type, receipt=True)
        assert await listener.sent() == b""


async def test_message_when_it_is_of_a_transaction_then_it_names_that(autojump_clock: trio.testing.MockClock) -> None:
    async with talking() as (listener, client):
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


async def test_commit_when_a_message_of_it_was_refused_here_then_its_receipt_is_not_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Behind RabbitMQ, where each message of a transaction has a RECEIPT of its own."""
    async with talking(server="RabbitMQ/3.10.8") as (listener, client):
        with trio.fail_after(5):
            async with client.transaction() as tx:
                await tx.send("/queue/a", b"x")
                with pytest.raises(LocalProtocolError):
                    await tx.send("/queue/a", b"x", headers={"a": "\0"})
                with pytest.raises(NotSupportedError):
                    await tx.send("/queue/a", b"x", group="g")
        assert (await listener.sent()).count(b"SEND\n") == 1
        assert listener.heard.count(b"\nreceipt:") == 2
