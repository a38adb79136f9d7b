"""trio_stomp on asyncio, or on uvloop if an argument says so, as its manual says to use it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import trio_stomp
from benchmarks.order import Meter, Order, answer, run_on_asyncio
from benchmarks.payload import BODY, outgoing_headers

_TYPE = "application/json"


def connection(order: Order) -> AbstractAsyncContextManager[trio_stomp.Client]:
    """One connection to where the order says."""
    return trio_stomp.connect(
        order.url,
        tls=order.tls or False,
        login=order.login,
        passcode=order.passcode,
        vhost=order.vhost,
        heart_beat=(0, 0),
    )


async def receive(order: Order) -> NoReturn:
    """Iterate a subscription in auto mode."""
    meter = Meter(order)
    async with (
        connection(order) as client,
        client.subscribe(order.destination, ack="auto", prefetch=order.window) as subscription,
    ):
        async for _message in subscription:
            meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                answer(meter.result)
    raise AssertionError


async def acknowledge(order: Order) -> NoReturn:
    """Acknowledge each message by its block."""
    meter = Meter(order)
    async with (
        connection(order) as client,
        client.subscribe(order.destination, ack="client-individual", prefetch=order.window) as subscription,
    ):
        async for message in subscription:
            async with message:
                meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                answer(meter.result)
    raise AssertionError


async def send(order: Order) -> NoReturn:
    """Send without confirmation."""
    meter = Meter(order)
    async with connection(order) as client:
        while True:
            await client.send(order.destination, BODY, headers=outgoing_headers(meter.count), content_type=_TYPE)
            meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                await client.disconnect()
                answer(meter.result)


async def receipts(order: Order) -> NoReturn:
    """Wait for each message's receipt before the next."""
    meter = Meter(order, step=8)
    async with connection(order) as client:
        while True:
            await client.send(
                order.destination, BODY, headers=outgoing_headers(meter.count), content_type=_TYPE, receipt=True
            )
            meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                answer(meter.result)


async def publisher(order: Order) -> NoReturn:
    """Send confirmed, with a window."""
    meter = Meter(order)
    async with connection(order) as client, client.publisher(max_in_flight=order.window) as sender:
        while True:
            await sender.send(order.destination, BODY, headers=outgoing_headers(meter.count), content_type=_TYPE)
            meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                await sender.wait_confirmed()
                answer(meter.result)


SCENARIOS = {each.__name__: each for each in (receive, acknowledge, send, receipts, publisher)}


def main() -> NoReturn:
    """Do what the order says."""
    order = Order.from_argument()
    run_on_asyncio(SCENARIOS[order.scenario](order))
    raise AssertionError


if __name__ == "__main__":
    main()
