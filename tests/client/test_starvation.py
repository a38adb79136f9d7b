"""The report of handlers that block the event loop."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from tests.kit.costs import count_calls
from trio_stomp import Client, Message
from trio_stomp.client.starvation import BlockingReport


class Clock:
    """Real time, as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_report_when_a_handler_blocks_then_its_name_and_the_time_are_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()

    async def handle() -> None:
        clock.now += 0.4
        await trio.lowlevel.checkpoint()
        clock.now += 2.25
        await trio.lowlevel.checkpoint()
        clock.now += 0.3

    with caplog.at_level(logging.WARNING, "trio_stomp"):
        await BlockingReport("orders.handle", after=0.5, clock=clock).watch(handle())
    (record,) = caplog.records
    assert "orders.handle has blocked the event loop for 2.25 s" in record.message


async def test_report_when_other_tasks_block_while_the_handler_waits_then_it_is_not_its_business(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()

    async def block() -> None:
        await trio.sleep(0.5)
        clock.now += 10

    async def handle() -> None:
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(block)
        await BlockingReport("handle", after=0.5, clock=clock).watch(handle())
    assert caplog.records == []


async def test_report_when_the_handler_raises_at_the_end_of_a_long_step_then_both_are_seen(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock, mine = Clock(), RuntimeError("mine")

    async def handle() -> None:
        await trio.lowlevel.checkpoint()
        clock.now += 1
        raise mine

    with caplog.at_level(logging.WARNING, "trio_stomp"), pytest.raises(RuntimeError) as caught:
        await BlockingReport("handle", after=0.5, clock=clock).watch(handle())
    assert caught.value is mine
    assert len(caplog.records) == 1


async def test_watched_handler_when_it_is_cancelled_then_it_cleans_up_and_the_cancellation_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[str] = []

    async def handle() -> None:
        with trio.move_on_after(1):
            await trio.sleep(5)
        seen.append("own timeout")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            seen.append("cleaned up")

    with trio.move_on_after(3) as scope:
        await BlockingReport("handle", after=0.5).watch(handle())
    assert scope.cancelled_caught
    assert seen == ["own timeout", "cleaned up"]


async def test_work_when_idle_then_a_step_of_another_task_costs_nothing_more(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls_of_steps() -> int:
        await trio.testing.wait_all_tasks_blocked()
        with count_calls() as calls:
            for _ in range(100):
                await trio.lowlevel.checkpoint()
        return calls.count

    async def fewest_calls_of_steps() -> int:
        # A collection of garbage in the middle of a round adds calls of its own.
        return min([await calls_of_steps() for _ in range(3)])

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()

    alone = await fewest_calls_of_steps()
    async with (
        client.subscribe("/queue/a") as first,
        client.subscribe("/queue/b") as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.work, handle)
        nursery.start_soon(second.work, handle)
        assert await fewest_calls_of_steps() <= alone
        nursery.cancel_scope.cancel()
