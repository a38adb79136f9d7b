from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_stomp.runtime import as_byte_stream
from trio_stomp.testing import MemoryLink, open_memory_links
from trio_stomp.testing.faulty_link import FaultyLink, LinkFaults


def pair(faults: LinkFaults | None = None) -> tuple[FaultyLink, MemoryLink]:
    ours, theirs = open_memory_links()
    return FaultyLink(ours, LinkFaults() if faults is None else faults), theirs


@asynccontextmanager
async def receiving(link: FaultyLink) -> AsyncGenerator[list[bytes]]:
    """What a task gets that waits for input already; its list is complete when the block is left."""
    got: list[bytes] = []

    async def receive() -> None:
        got.append(await link.receive_some())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        yield got


async def test_link_when_it_has_no_faults_then_carries_bytes_and_counts_them() -> None:
    link, peer = pair()

    await link.send_all(b"hello")
    await peer.send_all(b"you")

    assert await peer.receive_some() == b"hello"
    assert await link.receive_some(2) == b"yo"
    assert await link.receive_some() == b"u"
    assert (link.sent, link.received) == (5, 3)
    await link.wait_writable()
    await link.send_eof()
    assert await peer.receive_some() == b""
    await link.aclose()


async def test_drop_when_bytes_have_been_sent_then_exactly_those_arrive() -> None:
    link, peer = pair(LinkFaults(drop_at_sent=7))
    await link.send_all(b"hello")

    with pytest.raises(anyio.BrokenResourceError, match="fault injection"):
        await link.send_all(b"world")

    assert await peer.receive_some() == b"hellowo"
    assert await peer.receive_some() == b""


async def test_drop_when_bytes_have_been_received_then_exactly_those_are_handed_on() -> None:
    link, peer = pair(LinkFaults(drop_at_received=3))
    await peer.send_all(b"hello")

    assert await link.receive_some(100) == b"hel"
    with pytest.raises(anyio.BrokenResourceError, match="fault injection"):
        await link.receive_some()

    with pytest.raises(anyio.BrokenResourceError):
        await peer.send_all(b"x")


async def test_drop_when_set_while_receiving_then_bytes_beyond_are_cut_off() -> None:
    link, peer = pair()
    async with receiving(link) as got:
        link.faults.drop_at_received = 2
        await peer.send_all(b"hello")

    assert got == [b"he"]


async def test_stall_when_writing_then_rest_comes_after_resume() -> None:
    link, peer = pair(LinkFaults(stall_writing_at=2))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.send_all, b"hello")
        await wait_all_tasks_blocked()
        assert await peer.receive_some() == b"he"
        await wait_all_tasks_blocked()
        link.faults.resume()
        assert await peer.receive_some() == b"llo"


async def test_stall_when_reading_then_input_waits_until_resume() -> None:
    link, peer = pair(LinkFaults(stall_reading_at=2))
    await peer.send_all(b"hello")
    assert await link.receive_some() == b"he"
    assert link.resting
    async with receiving(link) as got:
        assert got == []
        link.faults.resume()

    assert got == [b"llo"]
    assert not link.resting


async def test_stall_when_set_while_receiving_then_holds_what_comes() -> None:
    link, peer = pair()
    async with receiving(link) as got:
        link.faults.stall_reading_at = 0
        link.faults.notify()
        await peer.send_all(b"held")
        await wait_all_tasks_blocked()
        assert got == []
        link.faults.resume()

    assert got == [b"held"]


async def test_silence_when_half_open_then_ignores_input_and_says_nothing(autojump_clock: MockClock) -> None:
    link, peer = pair(LinkFaults(silent_at=2))
    await peer.send_all(b"hello")
    assert await link.receive_some() == b"he"
    assert link.silent

    await link.send_all(b"nobody hears this")
    await link.send_eof()
    with trio.move_on_after(10) as waiting:
        await link.receive_some()
    assert waiting.cancelled_caught
    with trio.move_on_after(10) as waiting:
        await peer.receive_some()
    assert waiting.cancelled_caught

    link.faults.resume()
    await link.send_all(b"back")
    assert await peer.receive_some() == b"back"


async def test_silence_when_peer_closes_then_end_is_seen() -> None:
    link, peer = pair(LinkFaults(silent_at=0))
    await peer.send_all(b"ignored")
    await peer.aclose()

    assert await link.receive_some() == b""


async def test_slow_link_when_writing_then_takes_its_time(autojump_clock: MockClock) -> None:
    link, peer = pair(LinkFaults(bytes_per_second=100))
    start = trio.current_time()

    await link.send_all(b"x" * 250)

    assert trio.current_time() - start == pytest.approx(2.5)
    assert await peer.receive_some() == b"x" * 250


async def test_slow_link_when_very_slow_then_still_moves_by_bytes(autojump_clock: MockClock) -> None:
    link, _ = pair(LinkFaults(bytes_per_second=0.5))
    start = trio.current_time()

    await link.send_all(b"abc")

    assert trio.current_time() - start == pytest.approx(6)


async def test_eof_when_stream_cannot_half_close_then_does_nothing() -> None:
    class Whole(trio.abc.Stream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await trio.lowlevel.checkpoint()

        async def wait_send_all_might_not_block(self) -> None:
            await trio.lowlevel.checkpoint()

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            return b""

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    link = FaultyLink(as_byte_stream(Whole()), LinkFaults())

    await link.send_eof()

    assert not link.can_send_eof
    assert pair()[0].can_send_eof
