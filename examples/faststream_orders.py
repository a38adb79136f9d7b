"""A FastStream service on RabbitMQ that also uses a STOMP broker, such as ActiveMQ.

    python examples/faststream_orders.py                                       both brokers inside this process
    python examples/faststream_orders.py --url stomp://guest:guest@localhost   your own STOMP broker
    python examples/faststream_orders.py --amqp amqp://guest:guest@localhost   your own RabbitMQ

Orders arrive by STOMP, FastStream handles them, and invoices leave by STOMP. The program sends three orders and ends
with the third invoice; with `--orders 0` it sends none and serves until Ctrl-C.

Requires faststream[rabbit]; `make example NAME=faststream_orders` installs it.
"""

# mypy takes the __init__ that Pydantic's models are given for an explicit Any.
# mypy: disallow-any-explicit=False

import argparse
import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from faststream import Context, ContextRepo, FastStream
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from pydantic import BaseModel

import trio_stomp
from trio_stomp.testing import run_broker_in_thread

ORDERS = "/queue/orders"
INVOICES = "/queue/invoices"
FAILED = "/queue/orders.failed"
ITEMS = ("tea", "coffee", "cocoa")
# While RabbitMQ is down, orders wait at the STOMP broker. One that cannot be decoded is never retried.
UNTIL_RABBITMQ_IS_BACK = trio_stomp.Retry(attempts=1_000_000, max_delay=5)

# What a handler declares to be given the client.
Stomp = Annotated[trio_stomp.Client, Context("stomp")]


class Order(BaseModel):
    """An order, in a message of either broker."""

    item: str


class Intake:
    """Passes orders from the STOMP broker to FastStream's broker, while both are connected."""

    def __init__(self, url: str, broker: RabbitBroker) -> None:
        self.url = url
        self.broker = broker
        self.worker: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self, context: ContextRepo) -> AsyncGenerator[None]:
        """Keep one client for all handlers: open before FastStream's broker starts, and closed after it stops."""
        async with trio_stomp.connect(self.url, reconnect=True) as client:
            context.set_global("stomp", client)
            yield
            if self.worker is not None and not self.worker.cancelled():
                self.worker.result()  # raises what ended it

    async def start(self, app: Annotated[FastStream, Context()], stomp: Stomp) -> None:
        """Begin when FastStream's broker can publish."""
        self.worker = asyncio.create_task(self.work(stomp))
        self.worker.add_done_callback(lambda _: app.exit())

    async def work(self, stomp: trio_stomp.Client) -> None:
        """Pass orders on until canceled."""
        async with stomp.subscribe(ORDERS, prefetch=20, decode=Order) as orders:
            await orders.work(self.forward, retry=UNTIL_RABBITMQ_IS_BACK, dead_letter=FAILED)

    async def forward(self, message: trio_stomp.Message[Order]) -> None:
        """Publish an order; only then is its message acknowledged."""
        await self.broker.publish(message.value, "orders", persist=True)

    async def stop(self) -> None:
        """Let running calls of `forward` finish; the STOMP broker keeps the other orders."""
        if self.worker is not None:
            self.worker.cancel()
            await asyncio.wait([self.worker])


def make_app(url: str, broker: RabbitBroker) -> FastStream:
    """Make the application."""
    intake = Intake(url, broker)

    @broker.subscriber("orders")
    async def invoice(order: Order, stomp: Stomp) -> None:
        await stomp.send(INVOICES, f"one {order.item}", persistent=True, receipt=True)

    return FastStream(
        broker, lifespan=intake.lifespan, after_startup=[intake.start], on_shutdown=[intake.stop], logger=None
    )


async def order(url: str, count: int) -> None:
    """Send orders as another program would, and wait for their invoices."""
    async with trio_stomp.connect(url) as client, client.subscribe(INVOICES) as invoices:
        for number in range(count):
            body = Order(item=ITEMS[number % len(ITEMS)]).model_dump_json().encode()
            await client.send(ORDERS, body, content_type="application/json", receipt=True)
        for _ in range(count):
            async with await anext(invoices) as message:
                print(message.text, flush=True)


async def run(url: str, amqp: str | None, count: int) -> None:
    """Run the application, until the orders are invoiced or a signal comes."""
    broker = RabbitBroker(amqp, log_level=logging.DEBUG)
    app = make_app(url, broker)

    async def serve() -> None:
        if not count:
            await app.run()
            return
        async with asyncio.TaskGroup() as tasks:
            ordering = tasks.create_task(order(url, count))
            ordering.add_done_callback(lambda _: app.exit())
            await app.run()
            ordering.cancel()

    if amqp is None:
        async with TestRabbitBroker(broker, connect_only=True):
            await serve()
    else:
        await serve()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own STOMP broker; default: an embedded one")
    parser.add_argument("--amqp", help="your own RabbitMQ for FastStream; default: FastStream's broker for tests")
    parser.add_argument("--orders", type=int, default=3, help="how many orders to send (0: serve until Ctrl-C)")
    given = parser.parse_args()
    if given.url is not None:
        asyncio.run(run(given.url, given.amqp, given.orders))
        return
    with run_broker_in_thread() as stomp:
        asyncio.run(run(stomp.url, given.amqp, given.orders))


if __name__ == "__main__":
    main()
