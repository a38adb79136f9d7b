"""The other end: what each destination makes it do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager

import pytest
import trio

import trio_stomp
from benchmarks.bench import Peer
from trio_stomp import Client

PATIENCE = 120.0


@pytest.fixture
def peer() -> Generator[Peer]:
    with Peer() as started:
        yield started


def connect(peer: Peer) -> AbstractAsyncContextManager[Client]:
    return trio_stomp.connect(f"stomp://127.0.0.1:{peer.port}", heart_beat=(0, 0), disconnect_timeout=0.1)


async def test_flood_when_subscribed_then_messages_come_without_end_and_each_is_another(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(peer) as client, client.subscribe("/queue/flood", ack="auto") as subscription:
            ids = [(await anext(subscription)).id for _ in range(1000)]

    assert len(set(ids)) == 1000


async def test_window_when_nothing_is_acknowledged_then_no_more_than_the_window_comes(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(peer) as client, client.subscribe("/queue/window.16", prefetch=100) as subscription:
            first = [await anext(subscription) for _ in range(16)]
            with trio.move_on_after(0.05) as waited:
                await anext(subscription)
            for message in first:
                await message.ack()
            await anext(subscription)

    assert waited.cancelled_caught


async def test_spread_when_all_have_subscribed_then_each_gets_its_share_in_turn(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            connect(peer) as client,
            client.subscribe("/queue/spread.2.3", ack="auto", id="a") as one,
            client.subscribe("/queue/spread.2.3", ack="auto", id="b") as two,
        ):
            numbers = [int((await anext(each)).id[-10:]) for each in (one, one, one, two, two, two, one)]

    assert numbers == [0, 1, 2, 3, 4, 5, 6]


async def test_large_when_subscribed_then_one_body_of_that_size_comes(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(peer) as client, client.subscribe("/queue/large.300000", ack="auto") as subscription:
            body = (await anext(subscription)).body

    assert len(body) == 300_000


async def test_ticks_when_sent_back_then_the_report_has_the_times(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(peer) as client, client.subscribe("/queue/ticks.20", ack="auto") as subscription:
            async for message in subscription:
                if message.body == b"end":
                    break
                await client.send("/queue/ticks.20", message.body)
        (seen,) = peer.report()

    assert 0 < seen["p50"] <= seen["p99"] <= seen["p99.9"]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_taking_when_confirmed_or_not_then_receipts_are_answered_and_frames_counted(
    peer: Peer, confirmed: bool
) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(peer) as client, client.publisher() as publisher:
            for _ in range(1000):
                await (publisher if confirmed else client).send("/queue/a", b"x" * 1000)
        (seen,) = peer.report()

    # With DISCONNECT.
    assert seen["frames"] == 1001


async def test_parting_when_a_client_comes_back_then_the_report_has_how_long_it_was_away(peer: Peer) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            trio_stomp.connect(f"stomp://127.0.0.1:{peer.port}", reconnect=True, disconnect_timeout=0.1) as client,
            client.subscribe("/queue/parting.1", ack="auto") as subscription,
        ):
            for _ in range(2):
                await anext(subscription)
        seen = peer.report()

    assert [each["away"] >= 0 for each in seen if "away" in each] == [True]
