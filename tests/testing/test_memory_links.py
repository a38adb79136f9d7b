from collections.abc import Generator
from contextlib import contextmanager

import anyio
import pytest
import trio
from trio.testing import check_half_closeable_stream

from tests.kit.loops import on_loops, wait_all_tasks_blocked
from trio_stomp.testing import MemoryLink, open_memory_links

pytestmark = pytest.mark.anyio


class OnTrio(trio.abc.HalfCloseableStream):
    """A link with trio's errors, as trio's own checks expect them."""

    def __init__(self, link: MemoryLink) -> None:
        self._link = link

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with in_trios_words():
            await self._link.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        with in_trios_words():
            await self._link.wait_writable()

    async def send_eof(self) -> None:
        with in_trios_words():
            await self._link.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        with in_trios_words():
            return await self._link.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._link.aclose()


@contextmanager
def in_trios_words() -> Generator[None]:
    try:
        yield
    except anyio.BrokenResourceError as error:
        raise trio.BrokenResourceError from error
    except anyio.ClosedResourceError as error:
        raise trio.ClosedResourceError from error
    except anyio.BusyResourceError as error:
        raise trio.BusyResourceError from error


@on_loops("trio-real")
async def test_links_when_checked_by_trio_then_keep_the_contract_of_streams() -> None:
    async def make() -> tuple[OnTrio, OnTrio]:
        await trio.lowlevel.checkpoint()
        one, other = open_memory_links()
        return OnTrio(one), OnTrio(other)

    async def make_full() -> tuple[OnTrio, OnTrio]:
        one, other = open_memory_links(capacity_bytes=1)
        await one.send_all(b"x")
        await other.send_all(b"x")
        return OnTrio(one), OnTrio(other)

    await check_half_closeable_stream(make, make_full)


async def test_send_when_buffer_is_full_then_waits_for_the_reader() -> None:
    ours, theirs = open_memory_links(capacity_bytes=10)
    sent: list[str] = []

    async def send() -> None:
        await ours.send_all(b"0123456789abcde")
        sent.append("all")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await wait_all_tasks_blocked()
        assert sent == []
        with pytest.raises(anyio.BusyResourceError):
            await ours.send_all(b"x")
        assert await theirs.receive_some(4) == b"0123"
        await wait_all_tasks_blocked()
        assert sent == []
        assert await theirs.receive_some() == b"456789abcd"
        await wait_all_tasks_blocked()
        assert sent == ["all"]
        assert await theirs.receive_some() == b"e"


async def test_send_when_waiting_and_reader_closes_then_broken() -> None:
    ours, theirs = open_memory_links(capacity_bytes=1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(theirs.aclose)
        with pytest.raises(anyio.BrokenResourceError):
            await ours.send_all(b"abc")
    with pytest.raises(anyio.BrokenResourceError):
        await ours.send_all(b"x")


async def test_receive_when_cancelled_as_bytes_come_then_they_wait_for_the_next() -> None:
    ours, theirs = open_memory_links()
    scope = anyio.CancelScope()

    async def receive() -> None:
        with scope:
            await theirs.receive_some()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await wait_all_tasks_blocked()
        await ours.send_all(b"tea")
        scope.cancel()
    rest = await theirs.receive_some() if scope.cancelled_caught else b""

    assert rest in {b"", b"tea"}
