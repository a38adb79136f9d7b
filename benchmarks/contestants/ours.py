"""trio_stomp on Trio, as its manual says to use it; `ours_asyncio` runs the same code on asyncio."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import anyio

import trio_stomp
from benchmarks.contestants.codec_cases import Outgoing, decode_rates, encode_rates
from benchmarks.order import Held, Meter, Order, answer
from benchmarks.payload import BODY, outgoing_headers
from trio_stomp import Limits
from trio_stomp.protocol import Decoder, Role, encode_frame
from trio_stomp.types import Command, Version

__all__ = ["connection", "main"]

_TYPE = "application/json"


def connection(
    order: Order, *, heart_beat: tuple[float, float] = (0, 0), limits: Limits | None = None
) -> AbstractAsyncContextManager[trio_stomp.Client]:
    """One connection to where the order says."""
    return trio_stomp.connect(
        order.url,
        tls=order.tls or False,
        login=order.login,
        passcode=order.passcode,
        vhost=order.vhost,
        heart_beat=heart_beat,
        limits=Limits() if limits is None else limits,
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
                # Not before the last ACK is out: a real broker would deliver these messages to the next contestant.
                if order.limit:
                    await client.disconnect()
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
                if meter.unsettled:
                    await client.send(order.destination, BODY, receipt=True)
                    meter.settled()
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


async def echo(order: Order) -> NoReturn:
    """Send back what comes."""
    async with (
        connection(order) as client,
        client.subscribe(order.destination, ack="auto", prefetch=order.window) as subscription,
    ):
        async for message in subscription:
            if message.body == b"end":
                answer({})
            await client.send(order.destination, message.body)
    raise AssertionError


async def flooded(order: Order) -> NoReturn:
    """Send back what comes on one connection, while another one is flooded."""

    async def drown() -> None:
        async with connection(order) as client, client.subscribe(order.flood, ack="auto") as subscription:
            async for _message in subscription:
                pass

    async with anyio.create_task_group() as nursery:
        nursery.start_soon(drown)
        await anyio.sleep(order.warm_up)
        await echo(order)
    raise AssertionError


async def held(order: Order) -> NoReturn:
    """Keep all messages that come."""
    keep = Held(order)
    async with connection(order) as client, client.subscribe(order.destination, ack="auto") as subscription:
        async for message in subscription:
            keep.add(message)
    raise AssertionError


async def parting(order: Order) -> NoReturn:
    """Receive from a broker that ends the first connection."""
    count = 0
    async with (
        trio_stomp.connect(order.url, reconnect=True) as client,
        client.subscribe(order.destination, ack="auto") as subscription,
    ):
        async for _message in subscription:
            count += 1
            if count == order.limit:
                answer({})
    raise AssertionError


def codec(order: Order) -> NoReturn:
    """Decode and encode, without any I/O."""
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=Limits())

    def decode(chunks: list[bytes]) -> int:
        return sum(len(decoder.receive_data(chunk)) for chunk in chunks)

    def encode(messages: list[Outgoing]) -> list[bytes]:
        return [encode_frame(Command.SEND, headers.items(), body, version=Version.V1_2) for headers, body in messages]

    answer({**decode_rates(order.seconds, decode), **encode_rates(order.seconds, encode)})


SCENARIOS = {
    each.__name__: each for each in (receive, acknowledge, send, receipts, publisher, echo, flooded, held, parting)
}


def main() -> NoReturn:
    """Do what the order says."""
    order = Order.from_argument()
    if order.scenario == "codec":
        codec(order)
    anyio.run(SCENARIOS[order.scenario], order, backend="trio")
    raise AssertionError


if __name__ == "__main__":
    main()
