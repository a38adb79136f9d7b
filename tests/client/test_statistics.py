"""What a client counts."""

from __future__ import annotations

import dataclasses

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import Client, ConnectionLost
from trio_stomp.testing import Broker, StallReading

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_statistics_when_nothing_was_done_then_all_are_zero(  # noqa: ASYNC124  # the fixtures need trio
    client: Client,
) -> None:
    statistics = dataclasses.asdict(client.statistics())
    assert statistics == dict.fromkeys(statistics, 0) | {"subscriptions": ()}


async def test_statistics_when_work_was_done_then_counted(client: Client) -> None:
    async with client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", b"12345", receipt=True)
        await client.send("/queue/a", b"x", receipt=True)
        first = await anext(subscription)
        statistics = client.statistics()
        (described,) = statistics.subscriptions
        assert (described.buffered, described.unsettled, described.delivered) == (1, 1, 1)
        assert (described.prefetch, described.waiting) == (100, 0)
        # One byte of body, and the headers and objects that carry it.
        assert 500 < statistics.undelivered_bytes < 3000
        assert (statistics.messages_received, statistics.receipts_received) == (2, 3)
        assert statistics.frames_sent == 3
        assert 0 < statistics.writes <= 3
        assert statistics.bytes_sent > 100
        await first.ack()
    assert client.statistics().subscriptions == ()


async def test_statistics_when_asked_then_ages_count_from_the_last_read_and_write(broker: Broker) -> None:
    await trio.sleep(100)
    async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client:
        await trio.sleep(2)
        await client.send("/queue/a", b"", receipt=True)
        await trio.sleep(5)
        statistics = client.statistics()
    assert statistics.seconds_connected == pytest.approx(7)
    assert statistics.seconds_since_read == statistics.seconds_since_write == pytest.approx(5)


async def test_statistics_when_the_link_is_lost_then_what_was_not_written_is_unsent_and_waits_no_more(
    broker: Broker,
) -> None:
    with pytest.raises(ConnectionLost):
        async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client:
            broker.faults.now(StallReading())
            await client.send("/queue/a", b"x" * 1_000_000)
            await trio.testing.wait_all_tasks_blocked()
            waiting = client.statistics()
            broker.drop_connections()
            await trio.testing.wait_all_tasks_blocked()
            lost = client.statistics()
            assert (waiting.outbox_bytes, waiting.bytes_unsent) == (lost.bytes_unsent, lost.outbox_bytes)
            assert lost.outbox_bytes == 0
            assert lost.bytes_unsent > 1_000_000


async def test_statistics_when_a_subscription_waits_for_its_connection_then_it_holds_nothing(host: Host) -> None:
    async with reconnecting(host) as client, trio.open_nursery() as nursery:
        host.go_down()
        await trio.sleep(1)

        async def subscribe() -> None:
            async with client.subscribe("/queue/a"):
                await trio.sleep_forever()

        nursery.start_soon(subscribe)
        await trio.sleep(1)
        (described,) = client.statistics().subscriptions
        assert (described.destination, described.buffered, described.unsettled) == ("/queue/a", 0, 0)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("canceled", [True, False])
async def test_statistics_when_a_consumer_has_its_message_or_is_canceled_then_it_waits_no_more(
    client: Client, canceled: bool
) -> None:
    async with client.subscribe("/queue/a", prefetch=7) as subscription:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, subscription)
            await trio.sleep(1)
            assert [(each.prefetch, each.waiting) for each in client.statistics().subscriptions] == [(7, 1)]
            if canceled:
                nursery.cancel_scope.cancel()
            else:
                await client.send("/queue/a", b"")
        assert [each.waiting for each in client.statistics().subscriptions] == [0]
