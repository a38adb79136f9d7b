"""An embedded broker in a thread of its own, and a synchronous client of it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import trio

import trio_stomp.blocking
from tests.kit.ctrl_c import ctrl_c
from trio_stomp.blocking import Client
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.thread import Call
from trio_stomp.testing import ThreadedBroker, run_broker_in_thread

__all__ = ["broker", "client", "ctrl_c", "left_running"]


def left_running() -> list[str]:
    """What runs for clients in the thread that they share."""

    async def look() -> list[str]:
        await trio.lowlevel.checkpoint()
        tasks = [task for each in trio.lowlevel.current_root_task().child_nurseries for task in each.child_tasks]  # type: ignore[union-attr]  # it runs
        return [task.name for task in tasks if "trio_stomp" in task.name and task is not trio.lowlevel.current_task()]

    return [name for name in process.thread.run(Call(look)) if "LoopThread._serve" not in name]


@pytest.fixture
def broker() -> Generator[ThreadedBroker]:
    """A broker that listens on loopback."""
    with run_broker_in_thread() as running:
        yield running


@pytest.fixture
def client(broker: ThreadedBroker) -> Generator[Client]:
    """A connected client of `broker`."""
    with trio_stomp.blocking.connect(broker.url) as connected:
        yield connected
