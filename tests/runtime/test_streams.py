"""Streams that users bring, of anyio and of trio."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.abc
import pytest
import trio

import trio_stomp
from trio_stomp.runtime import as_byte_stream
from trio_stomp.testing import DropLink, open_broker


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


class Failing(trio.abc.Stream):
    """A stream of trio that fails as it is told."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise self._error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise self._error

    async def wait_send_all_might_not_block(self) -> None:
        raise self._error

    async def aclose(self) -> None:
        raise AssertionError


async def test_connect_stream_when_it_is_a_byte_stream_of_anyio_then_it_carries_stomp() -> None:
    async with open_broker() as broker:
        stream = await anyio.connect_tcp("127.0.0.1", broker.port)
        async with trio_stomp.connect_stream(stream, login="guest", passcode="guest") as client:
            async with client.subscribe("/queue/a") as messages:
                await client.send("/queue/a", b"\x00\xff" * 100_000, receipt=True)
                async with await anext(messages) as message:
                    assert message.body == b"\x00\xff" * 100_000
            assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT


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
    stream = as_byte_stream(played)
    assert [await stream.receive_some(2), await stream.receive_some()] == [b"ab", b"c"]
    assert played.asked == [2, 64 * 1024]


async def test_receive_when_anyio_is_at_the_end_then_nothing() -> None:
    assert await as_byte_stream(Played(fails=anyio.EndOfStream())).receive_some() == b""


async def test_send_when_it_is_no_bytes_then_anyio_gets_bytes() -> None:
    played = Played()
    stream = as_byte_stream(played)
    await stream.wait_writable()
    await stream.send_all(memoryview(b"abc"))
    await stream.send_all(bytearray(b"d"))
    await stream.aclose()
    assert (played.sent, played.closed) == (b"abcd", True)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (trio.BrokenResourceError(), anyio.BrokenResourceError),
        (trio.ClosedResourceError(), anyio.ClosedResourceError),
        (trio.BusyResourceError("reading from"), anyio.BusyResourceError),
    ],
)
async def test_errors_when_trio_raises_its_own_then_they_are_anyios(theirs: Exception, ours: type[Exception]) -> None:
    stream = as_byte_stream(Failing(theirs))
    for use in (stream.receive_some, partial(stream.send_all, b"x"), stream.wait_writable):
        with pytest.raises(ours) as caught:
            await use()
        assert caught.value.__cause__ is theirs


async def test_broken_when_trio_knows_why_then_that_is_the_cause() -> None:
    theirs = trio.BrokenResourceError()
    theirs.__cause__ = reset = ConnectionResetError(104, "Connection reset by peer")
    with pytest.raises(anyio.BrokenResourceError) as caught:
        await as_byte_stream(Failing(theirs)).receive_some()
    assert caught.value.__cause__ is reset


async def test_connect_stream_when_it_is_no_stream_then_type_error_says_what_is() -> None:
    expected = r"byte stream of anyio or, under trio\.run\(\), one of trio; got builtins\.str"
    with pytest.raises(TypeError, match=expected):
        async with trio_stomp.connect_stream("stomp://b"):  # type: ignore[arg-type]  # the mistake
            raise AssertionError
