"""An embedded broker in a thread of its own, and a synchronous client of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import pytest
import trio

import trio_stomp.blocking
from tests.kit.ctrl_c import ctrl_c
from trio_stomp import ConnectionLost
from trio_stomp.blocking import Client, Subscription
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.thread import Call
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread

__all__ = [
    "QUEUE",
    "await_arrival",
    "bodies",
    "broker",
    "client",
    "ctrl_c",
    "fill",
    "left",
    "left_running",
    "lose",
    "threads",
]

QUEUE: Final = "/queue/a"


def left_running() -> list[str]:
    """What runs for clients in the thread that they share."""

    async def look() -> list[str]:
        await trio.lowlevel.checkpoint()
        tasks = [task for each in trio.lowlevel.current_root_task().child_nurseries for task in each.child_tasks]  # type: ignore[union-attr]  # it runs
        return [task.name for task in tasks if "trio_stomp" in task.name and task is not trio.lowlevel.current_task()]

    return [name for name in process.thread.run(Call(look)) if "LoopThread._serve" not in name]


@contextmanager
def threads(*functions: Callable[[], object]) -> Generator[None]:
    """Run functions, each in a thread of its own; the block ends when they have returned."""
    started = [threading.Thread(target=each) for each in functions]
    for each in started:
        each.start()
    yield
    for each in started:
        each.join(60)
    assert not any(each.is_alive() for each in started)


def fill(broker: ThreadedBroker, count: int, queue: str = QUEUE) -> None:
    """Put the messages 0, 1 and so on into a queue."""

    def publish(inner: Broker) -> None:
        for number in range(count):
            inner.publish(queue, b"%d" % number, [("key", str(number % 3))])

    broker.call(publish)


def bodies(broker: ThreadedBroker, queue: str = QUEUE) -> list[bytes]:
    """The bodies of the messages that wait in a queue."""
    return broker.call(lambda inner: [message.body for message in inner.messages(queue)])


def left(broker: ThreadedBroker, queue: str = QUEUE) -> int:
    """How many messages a queue has, those that a consumer holds included."""
    return broker.call(lambda inner: inner.depth(queue) + inner.unacknowledged(queue))


def await_arrival(client: Client, subscription: Subscription, count: int) -> None:
    """Wait until at least this many messages are in the buffer of a subscription."""
    while subscription.statistics().buffered < count:
        client.send("/queue/other", b"", receipt=True)


def lose(broker: ThreadedBroker, client: Client) -> None:
    """Break the connection of a client that does not reconnect, and wait until it knows."""
    broker.call(Broker.drop_connections)
    with pytest.raises(ConnectionLost):
        client.wait_closed()


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
