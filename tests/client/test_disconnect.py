"""Leaving well: receipts first, DISCONNECT, and a bounded wait."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import lose_after
from tests.kit.loops import on_loops
from tests.kit.tapped_stream import TappedStream
from trio_stomp import Client, ConnectionClosed, ConnectionLost, DisconnectResult, Message, OperationTimeout
from trio_stomp.testing import Broker, DelayReceipts, DropLink, HalfOpen, StallReading, SwallowReceipts
from trio_stomp.types import Command, Phase

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_disconnect_when_the_link_is_lost_while_receipts_are_pending_then_lost(
    broker: Broker, client: Client
) -> None:
    broker.faults.now(SwallowReceipts(command=Command.SEND))
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _send() -> None:
            with pytest.raises(ConnectionLost):
                await client.send("/queue/a", b"1", receipt=True)

        nursery.start_soon(lose_after, 1, broker)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost, match="the broker closed it"):
            await client.disconnect()


async def test_disconnect_when_the_broker_closes_without_its_receipt_then_closed(
    broker: Broker, client: Client
) -> None:
    """Row 1x-DISC-6."""
    broker.faults.now(SwallowReceipts(command=Command.DISCONNECT))
    assert await client.disconnect() is DisconnectResult.CLOSED


async def test_disconnect_when_the_broker_is_half_open_then_timeout_is_told(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 1x-DISC-6."""
    began = trio.current_time()
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=4, heart_beat=(0, 0)) as client:
        broker.faults.now(HalfOpen())
        assert await client.disconnect() is DisconnectResult.TIMEOUT
        assert trio.current_time() - began == pytest.approx(4)
    assert "did not confirm DISCONNECT" in caplog.text


async def test_disconnect_when_the_broker_does_not_read_then_unwritten_bytes_are_an_error(broker: Broker) -> None:
    with pytest.raises(ConnectionLost, match=r"bytes could not be written within 4 s \(disconnect_timeout\)"):
        async with trio_stomp.connect_stream(
            broker.connect_stream(), disconnect_timeout=4, heart_beat=(0, 0)
        ) as client:
            broker.faults.now(StallReading())
            await client.send("/queue/a", b"x" * 1_000_000)


async def test_disconnect_when_the_link_closes_after_disconnect_then_closed(broker: Broker, client: Client) -> None:
    """Rows 1x-LING-2, 1x-DISC-6."""
    broker.faults.now(DropLink(after_received_bytes=5))
    assert await client.disconnect() is DisconnectResult.CLOSED


@pytest.mark.parametrize("comes", [True, False])
async def test_disconnect_when_the_last_receipt_has_come_or_is_given_up_then_it_goes_on_at_once(
    broker: Broker, *, comes: bool
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


async def test_leaving_when_another_task_still_disconnects_then_it_waits_for_that(broker: Broker) -> None:
    broker.faults.plan(DelayReceipts(seconds=3, command=Command.SEND))
    ended: list[object] = []

    async def send(client: Client) -> None:
        await client.send("/queue/a", b"1", receipt=True)
        ended.append("confirmed")

    async def disconnect(client: Client) -> None:
        ended.append(await client.disconnect())

    async with trio.open_nursery() as nursery:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            for task in (send, disconnect):
                nursery.start_soon(task, client)  # noqa: ASYNC111  # it goes on while the client is left
                await trio.testing.wait_all_tasks_blocked()
    assert ended == ["confirmed", DisconnectResult.RECEIPT]


async def test_leaving_when_the_disconnect_of_another_task_was_canceled_then_closed_at_once(broker: Broker) -> None:
    broker.faults.plan(DelayReceipts(seconds=3, command=Command.SEND))
    began = trio.current_time()

    async def send(client: Client) -> None:
        with pytest.raises(ConnectionClosed):
            await client.send("/queue/a", b"1", receipt=True)

    async def disconnect(client: Client) -> None:
        with trio.move_on_after(1):
            await client.disconnect()

    async with trio.open_nursery() as nursery:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            for task in (send, disconnect):
                nursery.start_soon(task, client)  # noqa: ASYNC111  # it goes on while the client is left
                await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() - began == pytest.approx(1)


@pytest.mark.parametrize("call", [Client.disconnect, Client.aclose])
async def test_aclose_when_another_task_still_closes_then_it_waits_for_that(
    broker: Broker, call: Callable[[Client], Awaitable[object]]
) -> None:
    broker.faults.plan(DelayReceipts(seconds=3, command=Command.SEND))
    ended: list[str] = []

    async def send(client: Client) -> None:
        await client.send("/queue/a", b"1", receipt=True)
        ended.append("confirmed")

    async with trio.open_nursery() as nursery, trio_stomp.connect_stream(broker.connect_stream()) as client:
        for task in (send, call):
            nursery.start_soon(task, client)  # noqa: ASYNC111  # it goes on while the client is left
            await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        assert ended == ["confirmed"]
        assert client.state.phase is Phase.CLOSED
    assert broker.statistics().received[Command.DISCONNECT] == 1


@pytest.mark.parametrize("is_second", [False, True])
async def test_aclose_when_canceled_then_closed_at_once(broker: Broker, client: Client, *, is_second: bool) -> None:
    broker.faults.now(DelayReceipts(seconds=3, command=Command.SEND))

    async def send() -> None:
        with pytest.raises(ConnectionClosed):
            await client.send("/queue/a", b"1", receipt=True)

    async def disconnect() -> None:
        with pytest.raises(ConnectionClosed):
            await client.disconnect()

    async with trio.open_nursery() as nursery:
        for task in (send, disconnect) if is_second else (send,):
            nursery.start_soon(task)
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OperationTimeout, match="the connection was closed at once"):
            await client.aclose(timeout=1)
        assert client.state.phase is Phase.CLOSED


# In either order of the two tasks, of which the loop chooses one each time.
@pytest.mark.parametrize("_time", range(8))
async def test_disconnect_when_another_task_begins_it_first_then_closed(client: Client, _time: int) -> None:
    results: list[DisconnectResult] = []

    async def disconnect() -> None:
        results.append(await client.disconnect())

    async def disconnect_at_once() -> None:
        # Before it begins, it is the other task's turn.
        with pytest.raises(ConnectionClosed):
            await client.disconnect(timeout=0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(disconnect)
        nursery.start_soon(disconnect_at_once)
    assert results == [DisconnectResult.RECEIPT]


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
    broker: Broker, *, raises: bool
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


async def test_disconnect_when_the_stream_takes_long_to_close_then_it_is_forced_after_a_second(broker: Broker) -> None:
    began = trio.current_time()
    async with trio_stomp.connect_stream(Lingering(broker.connect_stream())):
        pass
    assert trio.current_time() - began == pytest.approx(1)
