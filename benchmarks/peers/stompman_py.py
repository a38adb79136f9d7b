"""stompman: asyncio or, if an argument says so, uvloop; handlers."""

import asyncio
import sys
from pathlib import Path

import stompman
from stompman.connection import Connection
from stompman.frames import HeartbeatFrame, SendFrame
from stompman.serde import FrameParser, dump_frame

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.contestants.codec_cases import decode_rates, encode_rates
from benchmarks.order import Held, Meter, Order, answer, run_on_asyncio
from benchmarks.payload import BODY, outgoing_headers, prefetch_headers

order = Order.from_argument()
TYPE = "application/json"


class Directed(Connection):
    """Connects to where the order says: stompman takes the name of the virtual host for that of the machine."""

    @classmethod
    async def connect(cls, *, host, **options):
        """Whatever the virtual host is called."""
        del host
        return await super().connect(host=order.host, **options)


def client():
    """A client."""
    server = stompman.ConnectionParameters(order.vhost, order.port, order.login, order.passcode)
    return stompman.Client(
        [server],
        ssl=order.tls,
        heartbeat=stompman.Heartbeat(0, 0),
        no_message_restart_interval=None,
        connection_class=Directed,
    )


async def subscribe(connection, destination, handler, ack="auto"):
    """Subscribe with a handler, which returns when the message is done with."""
    await connection.subscribe(
        destination,
        handler,
        ack=ack,
        headers=prefetch_headers(order.window, ack),
        on_suppressed_exception=lambda error, _frame: answer({"error": 1.0, "why": str(error)}),
    )


async def consume():
    """Count messages."""
    meter = Meter(order)

    async def count(_frame):  # noqa: ASYNC124  # handlers are async
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)

    async with client() as connection:
        ack = "client-individual" if order.scenario == "acknowledge" else "auto"
        await subscribe(connection, order.destination, count, ack)
        await asyncio.Event().wait()


async def echo():
    """Send back what comes; where the order says so, while another connection is flooded."""

    async def send_back(frame):
        if frame.body == b"end":
            answer({})
        await connection.send(frame.body, order.destination)

    async def take(_frame):
        pass

    async def drown():
        async with client() as other:
            await subscribe(other, order.flood, take)
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks, client() as connection:
        if order.scenario == "flooded":
            tasks.create_task(drown())
            await asyncio.sleep(order.warm_up)
        await subscribe(connection, order.destination, send_back)
        await asyncio.Event().wait()


async def keep():
    """Keep all messages; or count them, from a broker that ends the first connection."""
    held, count = Held(order), 0

    async def add(frame):  # noqa: ASYNC124  # handlers are async
        nonlocal count
        count += 1
        if order.scenario == "held":
            held.add(frame)
        elif count == order.limit:
            answer({})

    async with client() as connection:
        await subscribe(connection, order.destination, add)
        await asyncio.Event().wait()


async def produce():
    """Send, confirmed or not; a task for each place in the window, since each call waits for its receipt."""
    meter = Meter(order, step=8 if order.scenario == "receipts" else 64)
    timeout = None if order.scenario == "send" else 10.0

    async def work(connection):
        while True:
            await connection.send(
                BODY,
                order.destination,
                content_type=TYPE,
                headers=outgoing_headers(meter.count),
                receipt_timeout=timeout,
            )
            meter.count += 1
            if meter.count >= meter.goal and meter.lap():
                if timeout is None and meter.unsettled:
                    await connection.send(BODY, order.destination, receipt_timeout=10.0)
                    meter.settled()
                answer(meter.result)

    async with client() as connection, asyncio.TaskGroup() as tasks:
        for _ in range(order.window if order.scenario == "publisher" else 1):
            tasks.create_task(work(connection))


def codec():
    """Its parser, and its way to encode."""
    parser = FrameParser()

    def decode(chunks):
        count = 0
        for chunk in chunks:
            for frame in parser.parse_frames_from_chunk(chunk):
                count += not isinstance(frame, HeartbeatFrame)
        return count

    def encode(messages):
        return [
            dump_frame(SendFrame(headers={**headers, "content-length": str(len(body))}, body=body))
            for headers, body in messages
        ]

    answer({**decode_rates(order.seconds, decode), **encode_rates(order.seconds, encode)})


if order.scenario == "codec":
    codec()
else:
    consumers = {"echo": echo, "flooded": echo, "held": keep, "parting": keep}
    producing = order.scenario in {"send", "receipts", "publisher"}
    run_on_asyncio(produce() if producing else consumers.get(order.scenario, consume)())
