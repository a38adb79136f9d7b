"""Plain sockets written and read without Trio's streams: what is taken, what is left, and who is left alone."""

from __future__ import annotations

import anyio
import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp.runtime import as_byte_stream
from trio_stomp.runtime._trio import SocketStream
from trio_stomp.testing import open_broker


def plain_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return trio.SocketStream(ours), trio.SocketStream(theirs)


async def test_write_when_the_buffer_is_full_then_it_takes_a_part_and_then_nothing() -> None:
    ours, theirs = plain_pair()
    async with ours, theirs:
        write = SocketStream(ours).write_now
        body = bytes(64 * 1024 * 1024)
        assert 0 < write(body) < len(body)
        while write(body):
            pass
        assert write(b"x") == 0


async def test_write_when_the_socket_is_closed_or_broken_then_it_takes_nothing() -> None:
    ours, theirs = plain_pair()
    write = SocketStream(ours).write_now
    await theirs.aclose()
    assert write(b"x") == 0
    await ours.aclose()
    assert write(b"x") == 0


async def test_write_when_the_stream_is_more_than_a_socket_then_nothing_goes_at_once() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with ours, theirs:
        stream = as_byte_stream(ours)
        assert not stream.writes_now
        assert stream.write_now(b"x") == 0


async def test_read_when_bytes_come_then_it_returns_those_that_are_there_and_nothing_at_the_end() -> None:
    ours, theirs = plain_pair()
    async with ours:
        read = SocketStream(ours).receive_some
        await theirs.send_all(b"abc")
        assert await read(2) == b"ab"
        assert await read(2) == b"c"
        await theirs.aclose()
        assert await read(2) == b""


async def test_read_when_the_socket_is_closed_meanwhile_then_it_raises() -> None:
    ours, theirs = plain_pair()
    read = SocketStream(ours).receive_some

    async def wait() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await read(1)

    async with theirs, trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()


async def test_read_when_cancelled_then_nothing_was_taken() -> None:
    ours, theirs = plain_pair()
    async with ours, theirs:
        read = SocketStream(ours).receive_some
        await theirs.send_all(b"abc")
        with trio.CancelScope() as scope:
            scope.cancel()
            await read(3)
        assert scope.cancelled_caught
        assert await read(3) == b"abc"


async def test_send_when_confirmed_over_a_socket_then_frames_of_any_size_arrive_whole_and_in_order() -> None:
    bodies = [b"1", bytes(20_000_000), b"3", b"4"]
    async with (
        open_broker() as broker,
        trio_stomp.connect(broker.url) as client,
        client.subscribe("/queue/a", ack="auto") as messages,
    ):
        await client.send("/queue/a", bodies[0], receipt=True)
        # The second is more than a socket takes at once, and the third comes while the writer is busy with it.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_confirmed, client, bodies[1])
            await trio.lowlevel.checkpoint()
            nursery.start_soon(_confirmed, client, bodies[2])
        await client.send("/queue/a", bodies[3], receipt=True)
        assert [(await anext(messages)).body for _ in bodies] == bodies
        statistics = client.statistics()
        assert statistics.outbox_bytes == 0
        assert statistics.bytes_sent > sum(map(len, bodies))


async def _confirmed(client: trio_stomp.Client, body: bytes) -> None:
    await client.send("/queue/a", body, receipt=True)


async def test_send_when_a_socket_takes_the_whole_frame_at_once_then_it_is_counted_as_one_write(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_broker() as broker, trio_stomp.connect(broker.url, heart_beat=(0, 0)) as client:
        await client.send("/queue/a", b"1", receipt=True)
        before = client.statistics()
        mock_clock.jump(50)
        await client.send("/queue/a", b"1", headers={"dedup-id": "d"}, receipt=True)
        after = client.statistics()
    assert (after.frames_sent - before.frames_sent, after.writes - before.writes) == (1, 1)
    sent_bytes = len(b"SEND\ndestination:/queue/a\ndedup-id:d\nreceipt:r-2\ncontent-length:1\n\n1\0")
    assert after.bytes_sent - before.bytes_sent == sent_bytes
    assert (before.seconds_since_write, after.seconds_since_write) == (0, 0)
