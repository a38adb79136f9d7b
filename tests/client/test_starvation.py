"""The report of handlers that block the event loop."""

import logging

import pytest
import trio

from trio_stomp.client.starvation import BlockingReport


class Clock:
    """Real time, as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_report_when_a_watched_task_blocks_then_its_name_and_the_time_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    report = BlockingReport("orders.handle", after=0.5, clock=clock)
    trio.lowlevel.add_instrument(report)

    async def handle() -> None:
        report.tasks.add(trio.lowlevel.current_task())
        await trio.lowlevel.checkpoint()
        clock.now += 0.4
        await trio.lowlevel.checkpoint()
        clock.now += 2.25
        await trio.lowlevel.checkpoint()

    with caplog.at_level(logging.WARNING, "trio_stomp"):
        async with trio.open_nursery() as nursery:  # noqa: ASYNC112  # a task of its own is to be watched
            nursery.start_soon(handle)
    trio.lowlevel.remove_instrument(report)
    assert report.reported == 1
    assert report.longest == 2.25
    (record,) = caplog.records
    assert "orders.handle has blocked the event loop for 2.25 s" in record.message


async def test_report_when_another_task_blocks_then_it_is_not_its_business(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    report = BlockingReport("handle", after=0.5, clock=clock)
    trio.lowlevel.add_instrument(report)
    await trio.lowlevel.checkpoint()
    clock.now += 10
    await trio.lowlevel.checkpoint()
    trio.lowlevel.remove_instrument(report)
    assert (report.reported, report.longest, caplog.records) == (0, 0.0, [])
