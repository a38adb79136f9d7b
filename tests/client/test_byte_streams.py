"""Streams that users bring: those of anyio become those of trio."""

from __future__ import annotations

import anyio
import anyio.abc
import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp.testing import DropLink, open_broker
from trio_stomp.transport.byte_streams import AnyioStream, as_trio_stream


class Played(anyio.abc.ByteStream):
    """A byte stream that fails as it is told, and hands out what it is given."""

    def __init__(self, *, fails: Exception | None = None, data: bytes = b"") -> None:
        self.fails = fails
        self.data = data
        self.sent = b""
        self.asked: list[int] = []
        self.closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append(max_bytes)
        if self.fails is not None:
            raise self.fails
        data, self.data = self.data[:max_bytes], self.data[max_bytes:]
        return data

    async def send(self, item: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails is not None:
            raise self.fails
        assert type(item) is bytes
        self.sent += item

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed = True


async def test_connect_stream_when_it_is_a_byte_stream_of_anyio_then_it_carries_stomp() -> None:
    async with open_broker() as broker:
        stream = await anyio.connect_tcp("127.0.0.1", broker.port)
        async with trio_stomp.connect_stream(stream, login="guest", passcode="guest") as client:
            async with client.subscribe("/queue/a") as messages:
                await client.send("/queue/a", b"\x00\xff" * 100_000, receipt=True)
                async with await anext(messages) as message:
                    assert message.body == b"\x00\xff" * 100_000
            assert await client.disconnect() is trio_stomp.Farewell.RECEIPT


async def test_connect_stream_when_anyios_stream_breaks_then_connection_lost() -> None:
    async with open_broker() as broker:
        broker.faults.plan(DropLink(after_sent_bytes=200))
        stream = await anyio.connect_tcp("127.0.0.1", broker.port)
        with pytest.raises(trio_stomp.ConnectionLost):
            async with trio_stomp.connect_stream(stream) as client, client.subscribe("/queue/a") as messages:
                await client.send("/queue/a", b"x" * 500, receipt=True)
                await anext(messages)


async def test_receive_when_there_is_more_than_asked_for_then_the_rest_waits() -> None:
    played = Played(data=b"abc")
    stream = AnyioStream(played)
    assert [await stream.receive_some(2), await stream.receive_some()] == [b"ab", b"c"]
    assert played.asked == [2, 64 * 1024]


async def test_receive_when_anyio_is_at_the_end_then_nothing() -> None:
    assert await AnyioStream(Played(fails=anyio.EndOfStream())).receive_some() == b""


async def test_send_when_it_is_no_bytes_then_anyio_gets_bytes() -> None:
    played = Played()
    stream = AnyioStream(played)
    await stream.wait_send_all_might_not_block()
    await stream.send_all(memoryview(b"abc"))
    await stream.send_all(bytearray(b"d"))
    await stream.aclose()
    assert (played.sent, played.closed) == (b"abcd", True)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (anyio.BrokenResourceError(), trio.BrokenResourceError),
        (anyio.ClosedResourceError(), trio.ClosedResourceError),
        (anyio.BusyResourceError("reading from"), trio.BusyResourceError),
    ],
)
async def test_errors_when_anyio_raises_its_own_then_they_are_trios(theirs: Exception, ours: type[Exception]) -> None:
    stream = AnyioStream(Played(fails=theirs))
    with pytest.raises(ours) as caught:
        await stream.receive_some()
    assert caught.value.__cause__ is theirs
    with pytest.raises(ours):
        await stream.send_all(b"x")


async def test_broken_when_anyio_knows_why_then_that_is_the_cause() -> None:
    theirs = anyio.BrokenResourceError()
    theirs.__cause__ = reset = ConnectionResetError(104, "Connection reset by peer")
    with pytest.raises(trio.BrokenResourceError) as caught:
        await AnyioStream(Played(fails=theirs)).receive_some()
    assert caught.value.__cause__ is reset


def test_stream_when_it_is_trios_then_it_is_taken_as_it_is() -> None:
    stream, _other = trio.testing.memory_stream_pair()
    assert as_trio_stream(stream) is stream
