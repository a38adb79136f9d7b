"""What the chaos runs have found, each in the smallest form that shows it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

import trio_stomp
from tests.chaos.wires import Befalls, Toward, Trap, open_wire
from trio_stomp import Client, Reconnect
from trio_stomp.testing import Broker, open_broker


@asynccontextmanager
async def deaf_twice(broker: Broker) -> AsyncGenerator[tuple[Client, Callable[[], Trap]]]:
    """A client, and what makes this link of its deaf, and the next one too when it is being used.

    Artemis, like the embedded broker, says by an ERROR that it has heard nothing for too long.
    """
    async with open_wire("127.0.0.1", broker.port) as wire:

        def begin() -> Trap:
            # CONNECT passes, and some of the frame that follows.
            again = Trap(Befalls.DEAF_BROKER, Toward.BROKER, 130)
            wire.following.append(again)
            wire.befall(Befalls.DEAF_BROKER)
            return again

        async with trio_stomp.connect(wire.url, heart_beat=(1, 1), reconnect=Reconnect(first_delay=0)) as client:
            yield client, begin


@pytest.mark.slow
async def test_subscription_when_two_links_in_a_row_go_deaf_then_it_stands_on_the_third() -> None:
    async with (
        open_broker() as broker,
        deaf_twice(broker) as (client, begin),
        client.subscribe("/queue/a") as subscription,
    ):
        again = begin()
        with trio.fail_after(60):
            await again.sprung.wait()
            broker.publish("/queue/a", b"1")

            # Nobody has refused this subscription.
            message = await anext(subscription)

        assert message.body == b"1"
        assert client.statistics().reconnections == 2


@pytest.mark.slow
async def test_send_when_two_links_in_a_row_go_deaf_then_it_is_confirmed_on_the_third() -> None:
    async with open_broker() as broker, deaf_twice(broker) as (client, begin):
        begin()

        with trio.fail_after(60):
            # Nobody has refused this message.
            await client.send("/queue/a", "1", receipt=True)

        assert broker.depth("/queue/a") == 1
