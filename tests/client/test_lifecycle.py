"""connect(): what it yields, what leaves it, and that nothing is left behind."""

from __future__ import annotations

import traceback
from contextlib import suppress

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import lasting, on_loops
from trio_stomp import Client, ConnectionClosed, ConnectionLost, LocalProtocolError
from trio_stomp.testing import Broker
from trio_stomp.types import Command, Phase

pytestmark = [pytest.mark.anyio, on_loops("trio")]


class BodyError(Exception):
    """What a body raises."""


async def test_connect_when_left_well_then_disconnect_was_exchanged(broker: Broker) -> None:
    """Row 1x-DISC-1."""
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"1")
    assert broker.statistics().received[Command.DISCONNECT] == 1
    assert broker.depth("/queue/a") == 1
    with pytest.raises(ConnectionClosed):
        await client.send("/queue/a", b"2")


@pytest.mark.parametrize("end", ["raise", "cancel"])
async def test_connect_when_the_body_fails_or_is_cancelled_then_closed_at_once(broker: Broker, end: str) -> None:
    with lasting(0), suppress(BodyError), trio.CancelScope() as scope:
        async with trio_stomp.connect_stream(broker.connect_stream()):
            if end == "raise":
                raise BodyError
            scope.cancel()
            await trio.sleep_forever()
    assert broker.statistics().received.get(Command.DISCONNECT, 0) == 0


async def test_failure_when_it_is_raised_again_then_each_time_as_an_exception_of_its_own(
    broker: Broker, client: Client
) -> None:
    """And leaving does not raise it once more."""
    raised: list[ConnectionLost] = []
    broker.drop_connections()
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(2):
        with pytest.raises(ConnectionLost) as caught:
            try:
                int("unrelated")
            except ValueError:
                await client.send("/queue/a", b"1")
        raised.append(caught.value)
    assert client.state.phase is Phase.CLOSED
    first, second = raised
    assert first is not second
    assert str(first) == str(second)
    assert first.__cause__ is second.__cause__
    # Neither traceback has grown by the other, and what was being handled has nothing to do with it.
    assert len(traceback.extract_tb(first.__traceback__)) == len(traceback.extract_tb(second.__traceback__))
    assert "unrelated" not in "".join(traceback.format_exception(second))


@pytest.mark.parametrize("end", ["return", "raise", "cancel"])
async def test_connect_when_a_task_of_the_body_outlives_the_connection_then_it_gets_connection_closed(
    broker: Broker, end: str
) -> None:
    async def consume(client: Client) -> None:
        with trio.fail_after(60), pytest.raises(ConnectionClosed):
            async with client.subscribe("/queue/a") as subscription:
                await anext(subscription)

    async with trio.open_nursery() as nursery:
        with suppress(BodyError), trio.CancelScope() as scope:
            async with trio_stomp.connect_stream(broker.connect_stream()) as client:
                nursery.start_soon(consume, client)  # noqa: ASYNC111  # that it outlives the client is the point
                await trio.testing.wait_all_tasks_blocked()
                if end == "raise":
                    raise BodyError
                if end == "cancel":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("cause", ["invalid option", "canceled"])
async def test_connect_stream_when_it_ends_before_connecting_then_the_stream_is_closed(cause: str) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    with suppress(LocalProtocolError), trio.CancelScope() as scope:
        if cause == "canceled":
            scope.cancel()
        milliseconds = 10_000 if cause == "invalid option" else 0
        async with trio_stomp.connect_stream(ours, heart_beat=(milliseconds, milliseconds)):
            pytest.fail("connected")
    with trio.fail_after(1):
        assert await theirs.receive_some() == b""
