"""Leaving well: receipts first, DISCONNECT, and a bounded wait."""

from __future__ import annotations

import contextlib

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.tapped_stream import TappedStream
from trio_stomp import ConnectionLost, DisconnectResult, Message
from trio_stomp.testing import (
    Broker,
    DelayReceipts,
    DropLink,
    DuplicateReceipts,
    HalfOpen,
    StallReading,
    SwallowReceipts,
)
from trio_stomp.types import Command


async def test_disconnect_when_receipts_are_pending_then_they_are_awaited_before_disconnect(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(DelayReceipts(seconds=3, command=Command.SEND))
    confirmed: list[float] = []
    async with trio.open_nursery() as nursery:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:

            @nursery.start_soon
            async def _send() -> None:
                await client.send("/queue/a", b"1", receipt=True)
                confirmed.append(trio.current_time())

            await trio.testing.wait_all_tasks_blocked()
            assert confirmed == []
        assert len(confirmed) == 1


async def test_disconnect_when_the_link_is_lost_while_receipts_are_pending_then_lost(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(SwallowReceipts(command=Command.SEND))
    async with trio.open_nursery() as nursery:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:

            @nursery.start_soon
            async def _send() -> None:
                with pytest.raises(ConnectionLost):
                    await client.send("/queue/a", b"1", receipt=True)

            @nursery.start_soon
            async def _lose() -> None:
                await trio.sleep(1)
                broker.drop_connections()

            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionLost, match="the broker closed it"):
                await client.disconnect()


async def test_disconnect_when_its_receipt_never_comes_then_timeout(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-DISC-6."""
    broker.faults.plan(SwallowReceipts(command=Command.DISCONNECT), HalfOpen(after_received_bytes=10_000))
    start = trio.current_time()
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=4) as client:
        outcome = await client.disconnect()
    # The embedded broker closes after DISCONNECT, receipt or not; either way the wait is bounded.
    assert outcome in (DisconnectResult.CLOSED, DisconnectResult.TIMEOUT)
    assert trio.current_time() - start <= 6
    del caplog


async def test_disconnect_when_the_broker_is_half_open_then_timeout_is_told(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=4, heart_beat=(0, 0)) as client:
        broker.faults.now(HalfOpen())
        assert await client.disconnect() is DisconnectResult.TIMEOUT
    assert "did not confirm DISCONNECT" in caplog.text


async def test_disconnect_when_the_broker_does_not_read_then_unwritten_bytes_are_an_error(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(ConnectionLost, match=r"bytes could not be written within 4 s \(disconnect_timeout\)"):
        async with trio_stomp.connect_stream(
            broker.connect_stream(), disconnect_timeout=4, heart_beat=(0, 0)
        ) as client:
            broker.faults.now(StallReading())
            await client.send("/queue/a", b"x" * 1_000_000)


async def test_disconnect_when_the_link_closes_after_disconnect_then_closed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-LING-2, 1x-DISC-6."""
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        received = client.statistics().bytes_sent
        broker.faults.now(DropLink(after_received_bytes=received + 5))
        outcome = await client.disconnect()
    assert outcome in (DisconnectResult.CLOSED, DisconnectResult.RECEIPT)


async def test_disconnect_when_the_receipt_comes_twice_then_once_is_enough(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(DuplicateReceipts(command=Command.SEND))
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"1", receipt=True)
        await client.send("/queue/a", b"2", receipt=True)
        assert client.statistics().receipts_unexpected == 1
        assert await client.disconnect() is DisconnectResult.RECEIPT


@pytest.mark.parametrize("comes", [True, False])
async def test_disconnect_when_the_last_receipt_has_come_or_is_given_up_then_it_goes_on_at_once(
    broker: Broker, autojump_clock: trio.testing.MockClock, *, comes: bool
) -> None:
    broker.faults.plan(DelayReceipts(seconds=3 if comes else 100, command=Command.ACK))

    async def acknowledge(message: Message) -> None:
        with trio.move_on_after(50 if comes else 3):
            await message.ack(receipt=True)

    async with (
        trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=60) as client,
        client.subscribe("/queue/a") as subscription,
        trio.open_nursery() as nursery,
    ):
        await client.send("/queue/a", b"1")
        message = await anext(subscription)
        nursery.start_soon(acknowledge, message)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert await client.disconnect() is DisconnectResult.RECEIPT
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)


class Polite(TappedStream):
    """A stream that has something to say when it is closed, as TLS and WebSocket have."""

    said_goodbye = False

    async def aclose(self) -> None:
        # Not where it is closed by force, which is cancelled.
        await trio.lowlevel.checkpoint()
        self.said_goodbye = True
        await super().aclose()


@pytest.mark.parametrize("raises", [False, True])
async def test_disconnect_when_said_then_the_stream_is_closed_in_order_and_otherwise_at_once(
    broker: Broker, autojump_clock: trio.testing.MockClock, *, raises: bool
) -> None:
    stream = Polite(broker.connect_stream())
    with contextlib.suppress(KeyError):
        async with trio_stomp.connect_stream(stream):
            if raises:
                raise KeyError

    assert stream.said_goodbye is not raises


class Lingering(TappedStream):
    """A stream that takes a minute to close, unless it is forced."""

    async def aclose(self) -> None:
        await super().aclose()
        await trio.sleep(60)


async def test_disconnect_when_the_stream_takes_long_to_close_then_it_is_forced_after_a_second(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    async with trio_stomp.connect_stream(Lingering(broker.connect_stream())):
        pass
    assert trio.current_time() - began == pytest.approx(1)
