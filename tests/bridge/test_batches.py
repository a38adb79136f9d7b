"""Batches: what a crossing brings, and what is handed out of it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import trio_stomp
from trio_stomp.bridge import Batches, Bridge, Entered
from trio_stomp.client import Client
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread

QUEUE = "/queue/a"


@pytest.fixture
def broker() -> Generator[ThreadedBroker]:
    with run_broker_in_thread() as running:
        yield running


@pytest.fixture
def client(bridge: Bridge, broker: ThreadedBroker) -> Generator[Client]:
    reconnecting = trio_stomp.connect(broker.url, reconnect=trio_stomp.Reconnect(first_delay=0))
    with Entered(bridge, reconnecting) as connected:
        yield connected


def fill(broker: ThreadedBroker, count: int) -> None:
    def publish(inner: Broker) -> None:
        for number in range(count):
            inner.publish(QUEUE, b"%d" % number)

    broker.call(publish)


def test_fetch_when_messages_wait_then_handed_out_in_order_without_a_crossing(
    bridge: Bridge, broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 10)
    with Entered(bridge, client.subscribe(QUEUE)) as subscription:
        batches, taken = Batches(subscription, 100), list[int]()
        while len(taken) < 10:
            assert bridge.call(lambda: batches.fetch(max_messages=4))
            assert 1 <= len(batches) <= 4
            taken += [int(message.body) for message in batches.take_many(100)]
        assert batches.take() is None

    assert taken == list(range(10))


def test_fetch_when_the_subscription_was_left_then_false(bridge: Bridge, client: Client) -> None:
    with Entered(bridge, client.subscribe(QUEUE)) as subscription:
        batches = Batches(subscription, 1)

    assert not bridge.call(batches.fetch)


def test_take_when_the_connection_was_lost_then_stale_messages_are_left_out(
    bridge: Bridge, broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 3)
    with Entered(bridge, client.subscribe(QUEUE)) as subscription:
        batches = Batches(subscription, 100)
        bridge.call(lambda: batches.fetch(3, linger=60))
        broker.call(Broker.drop_connections)
        # They come again; those of before stay out.
        bridge.call(lambda: batches.fetch(3, linger=60))

        assert [int(message.body) for message in batches.take_many(10)] == [0, 1, 2]


def test_fetch_more_when_nothing_more_comes_then_returns(
    bridge: Bridge, broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 1)
    with Entered(bridge, client.subscribe(QUEUE)) as subscription:
        batches = Batches(subscription, 100)
        bridge.call(batches.fetch)
        bridge.call(lambda: batches.fetch_more(5, linger=0.01))

        assert len(batches) == 1
        batches.clear()
        assert batches.take() is None
