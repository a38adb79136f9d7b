"""The tasks that serve a connection: heart-beats, the watchdog, and what becomes of their errors."""

from __future__ import annotations

import re

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import ConnectionLost, HeartBeatTimeout, LimitExceeded, Limits, RemoteProtocolError
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    HalfOpen,
    MemoryLink,
    StallReading,
    SwallowReceipts,
    open_broker,
)


async def test_heart_beats_when_both_are_idle_then_the_connection_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows 1x-HB-6 to 1x-HB-9, 11-HB-10, 12-HB-10."""
    async with (
        open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
    ):
        assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 1000
        await trio.sleep(60)
        statistics = client.statistics()
        # One each two thirds of a second, and no more than that.
        assert 85 <= statistics.heart_beats_sent <= 92
        assert statistics.seconds_since_read <= 1
        assert statistics.seconds_since_write <= 0.7
        await client.send("/queue/a", b"1", receipt=True)


async def test_heart_beats_when_a_write_is_under_way_then_none_is_added_to_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    options = BrokerOptions(heart_beat=(1, 1), heart_beat_grace=1000)
    async with open_broker(listen=False, options=options) as broker:
        with pytest.raises(ConnectionLost, match="could not be written"):
            async with trio_stomp.connect_stream(
                broker.connect_stream(), heart_beat=(1, 0), disconnect_timeout=1
            ) as client:
                broker.faults.now(StallReading())
                await client.send("/queue/a", b"x" * 1_000_000)
                await trio.sleep(30)
                assert client.statistics().heart_beats_sent == 0


async def test_heart_beats_when_the_client_offers_none_then_none_are_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows 1x-HB-1, 1x-HB-5."""
    async with (
        open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client,
    ):
        await trio.sleep(60)
        assert client.statistics().heart_beats_sent == 0


async def test_watchdog_when_the_broker_is_silent_then_heart_beat_timeout_after_the_margin(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows 1x-HB-11, 1x-HB-12."""
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker:
        start = trio.current_time()
        with pytest.raises(HeartBeatTimeout, match=r"sent nothing for 2\.5 s"):
            async with (
                trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
                client.subscribe("/queue/a") as subscription,
            ):
                broker.faults.now(HalfOpen())
                await anext(subscription)
        assert 2.4 <= trio.current_time() - start <= 3.6


async def test_watchdog_when_the_margin_is_set_then_it_is_kept(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker:
        start = trio.current_time()
        with pytest.raises(HeartBeatTimeout):
            async with trio_stomp.connect_stream(
                broker.connect_stream(), heart_beat=(1, 1), heart_beat_margin=6
            ) as client:
                broker.faults.now(HalfOpen())
                await client.wait_closed()
        assert 5.9 <= trio.current_time() - start <= 7


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(StallReading(), r"1000\d{3} bytes are unwritten, and 1 receipts have not come", id="no-reads"),
        pytest.param(SwallowReceipts(), "0 bytes are unwritten, and 1 receipts have not come", id="no-receipts"),
    ],
)
async def test_watchdog_when_a_broker_that_is_alive_takes_nothing_then_the_log_tells_so_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, fault: StallReading, said: str
) -> None:
    options = BrokerOptions(heart_beat=(1, 1), heart_beat_grace=1000)
    with pytest.raises(ConnectionLost):
        async with (
            open_broker(listen=False, options=options) as broker,
            trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1), disconnect_timeout=1) as client,
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
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    # Trio's own clock does not begin at 0 either.
    autojump_clock.jump(1000)
    async with (
        open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
    ):
        await client.send("/queue/a", b"1", receipt=True)
    assert not caplog.messages


async def test_watchdog_when_a_slow_broker_confirms_now_and_then_then_the_log_says_nothing(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1), heart_beat_grace=1000)) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
    ):
        broker.faults.now(DelayReceipts(seconds=20, count=None))
        async with client.publisher() as publisher:
            for _ in range(10):
                await publisher.send("/queue/a", b"1")
                await trio.sleep(10)
    assert not caplog.messages


async def test_heart_beats_when_1_0_then_none_either_way(autojump_clock: trio.testing.MockClock) -> None:
    """Rows 10-HB-14, 10-HB-18."""
    async with (
        open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client,
    ):
        await trio.sleep(30)
        assert client.statistics().heart_beats_sent == 0
        await client.send("/queue/a", b"1", receipt=True)


async def test_reader_when_the_broker_sends_garbage_then_remote_protocol_error(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown command"):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            broker.faults.send_bytes(b"GARBAGE\n\n\0")
            await client.wait_closed()


async def test_reader_when_a_limit_is_passed_then_limit_exceeded(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row all-LIM-5."""
    with pytest.raises(LimitExceeded, match="body_bytes"):
        async with trio_stomp.connect_stream(broker.connect_stream(), limits=Limits(body_bytes=100)) as client:
            broker.publish("/queue/a", b"x" * 101)
            async with client.subscribe("/queue/a") as subscription:
                await anext(subscription)


async def test_reader_when_the_link_ends_inside_a_frame_then_said_so(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(ConnectionLost, match="in the middle of a frame"):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            broker.faults.send_bytes(b"MESSAGE\nsubscr")
            await trio.testing.wait_all_tasks_blocked()
            broker.drop_connections()
            await client.wait_closed()


class Broken(trio.abc.Stream):
    """A stream whose reads fail with an error that nobody expects, once it has been told to."""

    def __init__(self, below: MemoryLink) -> None:
        self._below = below
        self.error: Exception | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._below.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._below.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._below.receive_some(max_bytes)
        if self.error is not None:
            raise self.error
        return data

    async def aclose(self) -> None:
        await self._below.aclose()


async def test_service_when_it_meets_an_unexpected_error_then_nobody_waits_for_ever(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    stream = Broken(broker.connect_stream())
    unexpected = ZeroDivisionError("a mistake of ours")
    with pytest.raises(ConnectionLost, match="a mistake of ours") as caught:
        async with trio_stomp.connect_stream(stream) as client:
            stream.error = unexpected
            await client.send("/queue/a", b"1", receipt=True)
    assert caught.value.__cause__ is unexpected
    assert "internal error in the read of a connection" in caplog.text


async def test_writer_when_the_socket_takes_a_part_then_the_rest_follows_and_frames_stay_whole() -> None:
    """Over a plain socket, whose buffers hold less than is sent."""
    ours, theirs = (trio.SocketStream(end) for end in trio.socket.socketpair())
    bodies = [bytes([65 + number]) * 3_000_000 for number in range(3)]
    heard = bytearray()

    async def listen() -> None:
        async with theirs:
            await theirs.send_all(b"CONNECTED\nversion:1.2\n\n\0")
            async for data in theirs:
                heard.extend(data)
                if b"\nreceipt:" in heard[-200:]:
                    await theirs.send_all(
                        b"RECEIPT\nreceipt-id:%b\n\n\0" % bytes(heard).split(b"\nreceipt:")[-1].split(b"\n")[0]
                    )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)  # noqa: ASYNC113  # sockets hold what is written before it runs
        async with trio_stomp.connect_stream(ours, heart_beat=(0, 0)) as client:
            for body in bodies:
                await client.send("/queue/a", body)
            await client.send("/queue/a", b"", receipt=True)
    frames = [b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (len(body), body) for body in bodies]
    assert b"".join(frames) in heard
