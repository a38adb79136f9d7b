"""aiostomp: asyncio, handlers; it confirms nothing and does not wait until there is room to write."""

import asyncio
import sys
from pathlib import Path

from aiostomp import AioStomp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.order import Meter, Order, answer
from benchmarks.payload import BODY, outgoing_headers, prefetch_headers

order = Order.from_argument()
_TYPE = "application/json"


async def connected():
    """A connection."""
    client = AioStomp(order.host, order.port, heartbeat=False, reconnect_max_attempts=1)
    await client.connect(username=order.login, password=order.passcode)
    return client


async def consume():
    """Subscribe with a handler; what it returns decides between ACK and NACK."""
    meter, client = Meter(order), await connected()
    ack = "client-individual" if order.scenario == "acknowledge" else "auto"

    async def count(_frame, _body):  # noqa: ASYNC124  # handlers are async
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)
        return True

    client.subscribe(order.destination, ack=ack, handler=count, extra_headers=prefetch_headers(order.window, ack))
    await asyncio.Event().wait()


async def produce():
    """Send; let the loop write now and then, since `send` only fills a buffer."""
    meter, client = Meter(order), await connected()
    while True:  # noqa: ASYNC913  # sleeps after each lap
        client.send(order.destination, BODY, headers={"content-type": _TYPE, **outgoing_headers(meter.count)})
        meter.count += 1
        if meter.count >= meter.goal:
            await asyncio.sleep(0)
            if meter.lap():
                answer(meter.result)


if order.scenario not in {"receive", "acknowledge", "send"}:
    raise SystemExit(f"aiostomp cannot do {order.scenario}")
asyncio.run(produce() if order.scenario == "send" else consume())
