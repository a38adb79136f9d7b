"""The tasks that serve a connection: heart-beats, the watchdog, and what becomes of their errors."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Unpack

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.tapped_stream import TappedStream
from trio_stomp import Client, ConnectionLost, HeartBeatTimeout
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    HalfOpen,
    StallReading,
    SwallowReceipts,
    open_broker,
)
from trio_stomp.types import ConnectOptions

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@asynccontextmanager
async def beating(*, grace: float = 2, **options: Unpack[ConnectOptions]) -> AsyncGenerator[tuple[Client, Broker]]:
    """A client and a broker that send heart-beats each second; the broker's patience is `grace` of them."""
    theirs = BrokerOptions(heart_beat=(1, 1), heart_beat_grace=grace)
    options.setdefault("heart_beat", (1, 1))
    async with (
        open_broker(listen=False, options=theirs) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), **options) as client,  # type: ignore[misc]  # those it has
    ):
        yield client, broker


async def test_heart_beats_when_both_are_idle_then_the_connection_lives() -> None:
    """Rows 1x-HB-6 to 1x-HB-9, 11-HB-10, 12-HB-10."""
    async with beating() as (client, _):
        assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 1000
        await trio.sleep(60)
        statistics = client.statistics()
        # One each two thirds of a second, and no more than that.
        assert 85 <= statistics.heart_beats_sent <= 92
        assert statistics.seconds_since_read <= 1
        assert statistics.seconds_since_write <= 0.7
        await client.send("/queue/a", b"1", receipt=True)


async def test_heart_beats_when_a_write_is_under_way_then_none_is_added_to_it() -> None:
    with pytest.raises(ConnectionLost, match="could not be written"):
        async with beating(grace=1000, heart_beat=(1, 0), disconnect_timeout=1) as (client, broker):
            broker.faults.now(StallReading())
            await client.send("/queue/a", b"x" * 1_000_000)
            await trio.sleep(30)
            assert client.statistics().heart_beats_sent == 0


@pytest.mark.parametrize(("offer", "version"), [((0, 0), "1.2"), ((10, 10), "1.0")])
async def test_heart_beats_when_the_client_or_the_version_has_none_then_none_either_way(
    offer: tuple[float, float], version: str
) -> None:
    """Rows 1x-HB-1, 1x-HB-5, 10-HB-14, 10-HB-18."""
    async with beating(heart_beat=offer, versions=[version]) as (client, _):
        await trio.sleep(60)
        assert client.statistics().heart_beats_sent == 0
        await client.send("/queue/a", b"1", receipt=True)


@pytest.mark.parametrize(("margin", "said"), [(2.5, r"sent nothing for 2\.5 s"), (6, "sent nothing for 6 s")])
async def test_watchdog_when_the_broker_is_silent_then_heart_beat_timeout_after_the_margin(
    margin: float, said: str
) -> None:
    """Rows 1x-HB-11, 1x-HB-12."""
    start = trio.current_time()
    with pytest.raises(HeartBeatTimeout, match=said):
        async with (
            beating(heart_beat_margin=margin) as (client, broker),
            client.subscribe("/queue/a") as subscription,
        ):
            broker.faults.now(HalfOpen())
            await anext(subscription)
    assert margin - 0.1 <= trio.current_time() - start <= margin + 1.1


@pytest.mark.parametrize(("seconds", "logged"), [(30, ["27.5"]), (3, list[str]())])
async def test_watchdog_when_the_program_has_blocked_the_loop_then_what_came_meanwhile_counts(
    caplog: pytest.LogCaptureFixture, seconds: float, logged: list[str]
) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    async with beating(grace=1000) as (client, _):
        await client.send("/queue/a", b"1", receipt=True)
        clock.jump(seconds)
        await client.send("/queue/a", b"2", receipt=True)
    assert re.findall(r"the program has blocked its event loop for at least (\d+\.\d) s", caplog.text) == logged


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(StallReading(), r"1000\d{3} bytes are unwritten, and 1 receipts have not come", id="no-reads"),
        pytest.param(SwallowReceipts(), "0 bytes are unwritten, and 1 receipts have not come", id="no-receipts"),
    ],
)
async def test_watchdog_when_a_broker_that_is_alive_takes_nothing_then_the_log_tells_so_once(
    caplog: pytest.LogCaptureFixture, fault: StallReading, said: str
) -> None:
    with pytest.raises(ConnectionLost):
        async with (
            beating(grace=1000, disconnect_timeout=1) as (client, broker),
            client.publisher() as publisher,
        ):
            # This does not count, because nothing waits.
            await trio.sleep(100)
            broker.faults.now(fault)
            await publisher.send("/queue/a", b"x" * 1_000_000)
            await trio.sleep(28)
            assert not caplog.messages
            await trio.sleep(100)
            (told,) = caplog.messages
            assert re.search(r"is alive, but has taken nothing for 3\d s: " + said, told)
            raise ConnectionLost


async def test_watchdog_when_the_first_message_is_on_its_way_then_the_log_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Trio's own clock does not begin at 0 either.
    await trio.sleep(1000)
    async with beating() as (client, _):
        await client.send("/queue/a", b"1", receipt=True)
    assert not caplog.messages


async def test_watchdog_when_a_slow_broker_confirms_now_and_then_then_the_log_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with beating(grace=1000) as (client, broker):
        broker.faults.now(DelayReceipts(seconds=20, count=None))
        async with client.publisher() as publisher:
            for _ in range(10):
                await publisher.send("/queue/a", b"1")
                await trio.sleep(10)
    assert not caplog.messages


async def test_watchdog_when_a_slow_consumer_stops_the_reader_then_the_log_says_nothing_and_silence_counts_afterwards(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    began = 0.0
    with pytest.raises(HeartBeatTimeout):
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=1) as subscription,
        ):
            for body in (b"1", b"2", b"3"):
                broker.publish("/queue/a", body)
            await trio.sleep(100)
            assert client.statistics().reads_paused == 1
            broker.faults.now(HalfOpen())
            began = trio.current_time()
            async for _ in subscription:
                pass
    assert trio.current_time() - began == pytest.approx(2.5, abs=0.1)
    assert not caplog.messages


async def test_reader_when_the_link_ends_inside_a_frame_then_said_so(broker: Broker) -> None:
    with pytest.raises(ConnectionLost, match="in the middle of a frame"):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            broker.faults.send_bytes(b"MESSAGE\nsubscr")
            await trio.testing.wait_all_tasks_blocked()
            broker.drop_connections()
            await client.wait_closed()


class Broken(TappedStream):
    """A stream whose reads fail with an error that nobody expects, once it has been told to."""

    error: Exception | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        if self.error is not None:
            raise self.error
        return data


async def test_service_when_it_meets_an_unexpected_error_then_nobody_waits_for_ever(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Broken(broker.connect_stream())
    unexpected = ZeroDivisionError("a mistake of ours")
    with pytest.raises(ConnectionLost, match="a mistake of ours") as caught:
        async with trio_stomp.connect_stream(stream) as client:
            stream.error = unexpected
            await client.send("/queue/a", b"1", receipt=True)
    assert caught.value.__cause__ is unexpected
    assert "internal error in the read of a connection" in caplog.text
