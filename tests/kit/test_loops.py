"""The loops that tests run on: both tell virtual time alike, and the one of asyncio says when it hangs."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio

from tests.kit.loops import LOOPS, LoopName, nothing_left, on_loops, run_on, wait_all_tasks_blocked
from tests.kit.virtual_loop import Hang, VirtualLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ticks() -> AsyncGenerator[list[float]]:
    """The times at which a background task was awake."""
    seen: list[float] = []

    async def tick() -> None:
        while True:
            await anyio.sleep(1)
            seen.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        yield seen
        group.cancel_scope.cancel()


async def test_sleep_when_all_wait_then_the_clock_jumps_to_each_timer(ticks: list[float]) -> None:
    begin, real = anyio.current_time(), time.monotonic()
    await anyio.sleep(3600.5)
    assert anyio.current_time() - begin == 3600.5
    assert len(ticks) == 3600
    assert time.monotonic() - real < 60


@on_loops("trio-real", "asyncio-real", "uvloop")
async def test_sleep_when_time_is_real_then_it_takes_its_time() -> None:
    begin = time.monotonic()
    await anyio.sleep(0.01)
    assert time.monotonic() - begin >= 0.01


async def test_all_tasks_blocked_when_others_run_then_it_waits_for_them_and_no_time_passes() -> None:
    steps = 0

    async def step() -> None:
        nonlocal steps
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
            steps += 1
        await anyio.sleep(1)
        steps += 1

    begin = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(step)
        await wait_all_tasks_blocked()
        assert (steps, anyio.current_time() - begin) == (100, 0)
    assert (steps, anyio.current_time() - begin) == (101, 1)


async def test_nothing_left_when_a_task_ends_without_time_then_well_and_otherwise_it_is_named() -> None:
    async def forget() -> None:
        await anyio.sleep(1)

    async with anyio.create_task_group() as group:
        async with nothing_left():
            group.start_soon(anyio.lowlevel.checkpoint)
        with pytest.raises(AssertionError, match="forget"):
            async with nothing_left():
                group.start_soon(forget)


@on_loops("asyncio")
async def test_thread_when_at_work_then_the_loop_waits_and_no_time_passes() -> None:
    begin = anyio.current_time()
    with anyio.fail_after(1):
        await anyio.to_thread.run_sync(time.sleep, 0.05)
        await asyncio.to_thread(time.sleep, 0.05)
    assert anyio.current_time() == begin
    # Its thread is there still, and idle.
    await anyio.sleep(1000)
    assert anyio.current_time() - begin == 1000


async def wait_for(go: threading.Event) -> None:
    await anyio.to_thread.run_sync(go.wait)


@on_loops("asyncio")
async def test_thread_when_it_waits_for_the_test_then_the_test_can_wait_until_all_are_blocked() -> None:
    go = threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(wait_for, go)
        await wait_all_tasks_blocked()
        go.set()


@on_loops("asyncio")
async def test_socket_when_one_is_open_then_time_is_real() -> None:
    begin = anyio.current_time()
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1"):
        real = time.monotonic()
        await anyio.sleep(0.05)
        assert time.monotonic() - real >= 0.05
    assert anyio.current_time() - begin >= 0.05


def test_hang_when_nothing_will_happen_then_the_error_says_where_each_task_waits() -> None:
    async def wait_for_ever() -> None:
        await anyio.sleep(2)
        await anyio.Event().wait()

    with pytest.raises(
        Hang, match=r"(?s)nothing will ever happen at 2.0 s .*wait_for_ever \(test_loops.py:\d+\) > Event.wait"
    ):
        run_on("asyncio", wait_for_ever)


def test_hang_when_tasks_run_and_no_time_passes_then_the_loop_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kit.virtual_loop._TOO_MANY_PASSES", 1000)

    async def spin() -> None:
        with anyio.fail_after(1):
            while True:  # noqa: ASYNC110  # it is to spin
                await anyio.lowlevel.checkpoint()

    with pytest.raises(Hang, match="no time passes"):
        run_on("asyncio", spin)


def order_of_tasks(seed: int) -> list[int]:
    order: list[int] = []

    async def note(number: int) -> None:
        await anyio.sleep(1)
        order.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(note, number)

    loop = VirtualLoop(random.Random(seed).shuffle)  # noqa: S311  # not for cryptography
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    return order


def test_shuffle_when_seeded_then_each_seed_is_one_order_of_the_tasks() -> None:
    orders = [order_of_tasks(seed) for seed in range(10)]
    assert orders == [order_of_tasks(seed) for seed in range(10)]
    assert all(sorted(order) == list(range(8)) for order in orders)
    assert len(set(map(tuple, orders))) > 5


@pytest.mark.parametrize("loop", LOOPS)
def test_run_on_when_called_outside_of_a_loop_then_the_function_runs_in_that_one(loop: LoopName) -> None:
    async def body(seconds: float) -> type[BaseException]:
        await anyio.sleep(seconds)
        return anyio.get_cancelled_exc_class()

    assert run_on(loop, body, 3600) is {"trio": trio.Cancelled, "asyncio": asyncio.CancelledError}[loop]
