"""Readers of many connections take turns, so that the consumers of each run before the others read."""

from __future__ import annotations

import trio

from trio_stomp.runtime._trio import SocketStream

CHUNK = 64 * 1024
COUNT = 24


class Crowd:
    """Tasks that each read one chunk from a socket of its own and wake a consumer of it.

    Attributes:
        unhandled: How many chunks were read whose consumers have not run.
        most: The most that there were at a time.
        handled: How many chunks were consumed.
    """

    def __init__(self) -> None:
        self.unhandled = self.most = self.handled = 0
        self.scopes: list[trio.CancelScope] = []

    async def run(self, size: int) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(COUNT):
                nursery.start_soon(self._pair, size)

    async def _pair(self, size: int) -> None:
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        arrived = trio.Event()
        async with ours, theirs, trio.open_nursery() as nursery:
            self.scopes.append(nursery.cancel_scope)
            await theirs.send_all(bytes(size))
            nursery.start_soon(self._consume, arrived)
            assert await SocketStream(ours).receive_some(CHUNK)
            self.unhandled += 1
            self.most = max(self.most, self.unhandled)
            arrived.set()

    async def _consume(self, arrived: trio.Event) -> None:
        await arrived.wait()
        self.unhandled -= 1
        self.handled += 1


class Births(trio.abc.Instrument):
    """Counts new tasks."""

    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_readers_when_all_have_full_chunks_then_consumers_run_before_the_next_reads() -> None:
    crowd = Crowd()
    await crowd.run(CHUNK)

    assert crowd.handled == COUNT
    # The one of this pass, and the one whose consumer runs in it.
    assert crowd.most <= 2


async def test_readers_when_they_read_little_then_none_waits() -> None:
    crowd = Crowd()
    await crowd.run(CHUNK // COUNT)

    assert crowd.handled == COUNT
    assert crowd.most > COUNT // 2


async def test_readers_when_those_that_wait_read_little_then_more_go_on_at_a_time() -> None:
    crowd = Crowd()
    ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
    async with ours, theirs:
        await theirs.send_all(bytes(CHUNK))
        assert len(await SocketStream(ours).receive_some(CHUNK)) == CHUNK
        await crowd.run(1)

    assert crowd.handled == COUNT
    assert crowd.most > 2


async def test_readers_when_some_are_cancelled_while_they_wait_then_the_others_go_on() -> None:
    crowd = Crowd()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crowd.run, CHUNK)
        while not crowd.handled:  # noqa: ASYNC110  # polls once for each pass
            await trio.lowlevel.checkpoint()
        for scope in crowd.scopes[::2]:
            scope.cancel()

    assert COUNT // 2 <= crowd.handled < COUNT


async def test_readers_when_there_is_one_then_it_never_waits() -> None:
    births = Births()
    ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
    async with ours, theirs:
        read = SocketStream(ours).receive_some
        trio.lowlevel.add_instrument(births)
        for _ in range(8):
            await theirs.send_all(bytes(CHUNK))
            assert len(await read(CHUNK)) == CHUNK
        trio.lowlevel.remove_instrument(births)

    assert births.count == 0
