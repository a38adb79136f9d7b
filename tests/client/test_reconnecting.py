"""Reconnecting: back-off, failover and fail-back; what ends it is in test_outage."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.reconnecting import AT_ONCE, Host, reconnecting
from tests.kit.streams import ByteStream
from tests.kit.tapped_stream import TappedStream
from trio_stomp import ConnectionLost, DisconnectResult, LimitExceeded, Limits, Reconnect
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, open_broker
from trio_stomp.types import Phase

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_back_off_when_attempts_fail_then_delays_double_up_to_the_cap(host: Host) -> None:
    async with reconnecting(host) as client:
        await trio.sleep(60)
        host.go_down()
        lost = trio.current_time()
        await trio.sleep(40)
        host.refuses = False
        await client.send("/queue/a", b"", receipt=True)
    assert [time - lost for time in host.dialed[1:7]] == pytest.approx([0.5, 1.5, 3.5, 7.5, 15.5, 23.5])


@pytest.mark.parametrize(("lasted", "delay"), [(9.9, 1), (10, 0.5)])
async def test_back_off_when_a_connection_has_lasted_as_long_as_the_policy_says_then_it_begins_anew(
    broker: Broker, host: Host, lasted: float, delay: float
) -> None:
    policy = Reconnect(first_delay=0.5, stable_after=10, random=lambda: 1.0)
    async with reconnecting(host, reconnect=policy) as client:
        broker.faults.now(DropLink())
        await trio.sleep(0.5 + lasted)
        assert client.state.healthy
        broker.faults.now(DropLink())
        await trio.sleep(5)
    _, first, second = host.dialed
    assert second - first == pytest.approx(lasted + delay)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Reconnect(attempts=3, first_delay=0.1, random=lambda: 1.0), "no connection after 3 attempts in 0.7 s"),
        (
            Reconnect(deadline=30, first_delay=4, max_delay=4, random=lambda: 1.0),
            "no connection after 7 attempts in 30",
        ),
    ],
)
async def test_giving_up_when_the_policy_says_so_then_everybody_is_woken_with_the_cause(
    broker: Broker, host: Host, policy: Reconnect, said: str
) -> None:
    ended = 0

    async def fails(call: Callable[[], Awaitable[object]]) -> None:
        nonlocal ended
        with pytest.raises(ConnectionLost, match=f"{said}.*Connection refused"):
            await call()
        ended += 1

    async with reconnecting(host, reconnect=policy) as client, client.subscribe("/queue/a") as subscription:
        broker.faults.now(SwallowReceipts())
        send = partial(client.send, "/queue/b", b"", receipt=True)
        async with trio.open_nursery() as nursery:
            for call in (partial(anext, subscription), send, client.wait_closed):
                nursery.start_soon(fails, call)
            await trio.sleep(10)
            host.go_down()
        with pytest.raises(ConnectionLost, match=said):
            await client.send("/queue/b", b"")
        assert client.state.phase is Phase.CLOSED
        assert said in str(client.state.cause)
    assert ended == 3


async def test_giving_up_when_no_call_notices_then_leaving_raises_it(host: Host) -> None:
    with pytest.raises(ConnectionLost, match="give up"):
        async with reconnecting(host, reconnect=Reconnect(attempts=2)):
            host.go_down()
            await trio.sleep(100)


async def test_first_connection_when_it_fails_then_raised_at_once_unless_asked_to_retry() -> None:
    async with open_broker() as unused:
        url = unused.url
    with pytest.raises(trio_stomp.ConnectError):
        async with trio_stomp.connect(url, reconnect=AT_ONCE):
            raise AssertionError
    with pytest.raises(ConnectionLost, match="no connection after 2 attempts"):
        async with trio_stomp.connect(url, reconnect=Reconnect(retry_first=True, attempts=2)):
            raise AssertionError


async def test_failover_when_the_first_host_is_gone_then_the_next_in_order_is_used(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        async with reconnecting(first, second) as client, client.subscribe("/queue/a") as subscription:
            first.go_down()
            await client.send("/queue/a", b"moved", receipt=True)
            assert (await anext(subscription)).text == "moved"
            assert client.state.endpoint == "stomp://h1:61613"
            # The next loss begins at the front again.
            first.refuses = False
            other.faults.now(DropLink())
            await trio.sleep(5)
            assert client.state.endpoint == "stomp://h0:61613"


async def test_fail_back_when_the_first_host_answers_again_then_the_client_moves_in_good_order(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        policy = Reconnect(first_delay=0.5, fail_back_after=60, random=lambda: 1.0)
        async with reconnecting(first, second, reconnect=policy) as client:
            async with client.subscribe("/queue/a") as subscription:
                first.go_down()
                await client.send("/queue/a", b"1", receipt=True)
                message = await anext(subscription)
                await trio.sleep(130)  # two attempts to move in vain
                first.refuses = False
                await trio.sleep(60)
                assert client.state.endpoint == "stomp://h0:61613"
                assert message.is_stale
                assert other.depth("/queue/a") == 1
                await client.send("/queue/a", b"2", receipt=True)
                assert (await anext(subscription)).text == "2"
        assert client.statistics().reconnections == 2
    # The move is none.
    assert caplog.text.count("lost, reconnecting") == 1


async def test_leaving_when_there_is_no_connection_then_it_does_not_wait_for_one(host: Host) -> None:
    async with reconnecting(host) as client, client.subscribe("/queue/a"):
        host.go_down()
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() == began
    assert client.state.phase is Phase.CLOSED


async def test_disconnect_when_there_is_no_connection_then_dialing_stops(host: Host) -> None:
    async with reconnecting(host) as client:
        host.go_down()
        await trio.sleep(1)
        assert await client.disconnect() is DisconnectResult.CLOSED
        dialed = len(host.dialed)
        host.refuses = False
        await trio.sleep(1000)
        assert len(host.dialed) == dialed
        with pytest.raises(trio_stomp.ConnectionClosed):
            await client.send("/queue/a", b"")


@pytest.mark.parametrize(
    "connect_attempt_delay", [None, 0.1], ids=["dialing waits for the host", "all hosts are being dialed"]
)
async def test_leaving_when_the_next_connection_was_made_just_now_then_its_link_is_closed(
    connect_attempt_delay: float | None, broker: Broker
) -> None:
    class Leaving(TappedStream):
        """A link whose client is closed between CONNECTED and the end of dialing."""

        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            data = await super().receive_some(max_bytes)
            if data.startswith(b"CONNECTED"):
                with trio.CancelScope(shield=True):
                    results.append(await client.disconnect())
            return data

    class LeavingHost(Host):
        async def open_stream(self) -> ByteStream:
            stream = await super().open_stream()
            self.silent = 1.0
            return stream if len(self.dialed) == 1 else Leaving(stream)

    results: list[DisconnectResult] = []
    host = LeavingHost(broker)
    async with reconnecting(host, connect_attempt_delay=connect_attempt_delay) as client:
        broker.faults.now(DropLink())
        await client.wait_closed()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(host.dialed), results) == (2, [DisconnectResult.CLOSED])
        assert broker.sessions == ()


async def test_limits_when_the_broker_exceeds_them_then_it_is_final(broker: Broker, host: Host) -> None:
    """Row all-LIM-5."""
    async with trio_stomp.connect_stream(broker.connect_stream()) as sender:
        await sender.send("/queue/a", b"x" * 2000, receipt=True)
    async with reconnecting(host, limits=Limits(body_bytes=1000)) as client:
        async with client.subscribe("/queue/a") as subscription:
            with pytest.raises(LimitExceeded, match="1000 bytes"):
                await anext(subscription)
    assert len(host.dialed) == 1


async def test_cancellation_when_dialing_then_nothing_is_left(broker: Broker, host: Host) -> None:
    with trio.move_on_after(10) as scope:
        async with reconnecting(host) as client:
            host.silent = 1000
            broker.faults.now(DropLink())
            await client.send("/queue/a", b"")
            await client.send("/queue/a", b"", receipt=True)
    assert scope.cancelled_caught
    await trio.sleep(1)
    assert broker.sessions == ()


async def test_outage_when_it_lasts_then_warnings_come_at_most_once_a_minute(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    async with reconnecting(host, reconnect=Reconnect(first_delay=10, max_delay=10, random=lambda: 1.0)) as client:
        host.go_down()
        await trio.sleep(135)
        host.refuses = False
        await client.send("/queue/a", b"", receipt=True)
    lost = [record.levelno for record in caplog.records if "lost, reconnecting" in record.getMessage()]
    failed = [record.levelno for record in caplog.records if record.getMessage().startswith("attempt ")]
    assert lost == [logging.WARNING]
    # One each ten seconds; each sixth is a minute after the last warning.
    assert failed == [logging.WARNING if number % 6 == 0 else logging.INFO for number in range(13)]
