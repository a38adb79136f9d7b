"""A publisher and a worker that survive broker restarts. Stop, kill and restart the broker while they run.

    python examples/resilient_worker.py                                              an embedded broker, restarted
    python examples/resilient_worker.py --url stomp://guest:guest@127.0.0.1:41613    your own broker

With your own broker it runs until Ctrl-C or SIGTERM, and then shuts down gracefully. Break the broker meanwhile, for
example:

    scripts/brokers restart rabbitmq
    scripts/brokers kill rabbitmq; sleep 10; scripts/brokers start rabbitmq

Several URLs are tried in order.
"""

from __future__ import annotations

import argparse
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import trio

import trio_stomp
from trio_stomp.testing import Broker, open_broker

# Without it, even a confirmed message is lost when the broker dies. The embedded broker ignores it.
PERSISTENT = {"persistent": "true"}
SECONDS_BETWEEN_ORDERS = 0.01
# How long handling the remaining orders may take after the last one is sent.
FINISH_SECONDS = 30.0


@dataclass
class Shop:
    """The state of the shop.

    Attributes:
        queue: The queue of the orders.
        limit: The number of orders to send; None: no limit.
        closing: Set when no more orders should be sent.
        all_sent: Whether the last order is confirmed.
        done: Set when all orders are sent and handled.
        confirmed: The number of orders that the broker has confirmed.
        handled: The ids of the handled orders. In production, store them in your database, in the same transaction as
            the work.
        again: The number of duplicates, after a lost ACK or RECEIPT.
    """

    queue: str
    limit: int | None
    closing: trio.Event = field(default_factory=trio.Event)
    done: trio.Event = field(default_factory=trio.Event)
    all_sent: bool = False
    confirmed: int = 0
    handled: set[str] = field(default_factory=set[str])
    again: int = 0

    def look(self) -> None:
        """Set `done` if everything is finished."""
        if self.all_sent and len(self.handled) >= self.confirmed:
            self.done.set()


async def send_orders(client: trio_stomp.Client, shop: Shop) -> None:
    """Send orders. After a lost connection, a call only takes longer."""
    while not shop.closing.is_set() and shop.confirmed != shop.limit:
        await client.send(shop.queue, f"order {shop.confirmed + 1}", headers=PERSISTENT, receipt=True)
        shop.confirmed += 1
        with trio.move_on_after(SECONDS_BETWEEN_ORDERS):
            await shop.closing.wait()
    shop.all_sent = True
    shop.look()


async def handle_orders(client: trio_stomp.Client, shop: Shop) -> None:
    """Handle orders with a worker pool, which also survives lost connections."""

    async def handle(message: trio_stomp.Message) -> None:
        await trio.sleep(SECONDS_BETWEEN_ORDERS)
        # The same for each delivery of the order.
        order_id = message.stable_id or message.id
        if order_id in shop.handled:
            shop.again += 1
            return
        shop.handled.add(order_id)
        if len(shop.handled) % 100 == 0:
            print(f"handled {len(shop.handled)} of {shop.confirmed} confirmed orders", flush=True)
        shop.look()

    async with client.subscribe(shop.queue) as orders:
        await orders.work(handle, workers=5)


async def report(client: trio_stomp.Client) -> None:
    """Print each change of the connection, as for a health check."""
    async for state in client.state_changes():
        if state.phase is not trio_stomp.types.Phase.CONNECTING:
            print(state, flush=True)


async def close_on_signal(signals: AsyncIterator[int], shop: Shop) -> None:
    """Stop sending orders on a signal; handle the remaining ones."""
    async for _signal in signals:
        print("finishing", flush=True)
        shop.closing.set()
        with trio.move_on_after(FINISH_SECONDS):
            await shop.done.wait()
        shop.done.set()


async def run(urls: list[str], limit: int | None) -> Shop:
    """Send and handle orders to the end; returns the state of the shop."""
    shop = Shop(f"/queue/resilient-worker-{uuid.uuid4().hex[:8]}", limit)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio_stomp.connect(
            urls,
            # Detect a dead connection after five seconds.
            heart_beat=(2, 2),
            # Try the hosts at least once a second.
            reconnect=trio_stomp.Reconnect(max_delay=1),
        ) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(report, client)
                nursery.start_soon(close_on_signal, signals, shop)
                nursery.start_soon(handle_orders, client, shop)
                nursery.start_soon(send_orders, client, shop)
                await shop.done.wait()
                nursery.cancel_scope.cancel()
            statistics = client.statistics()
    print(
        f"{shop.confirmed} orders confirmed, {len(shop.handled)} handled, {shop.again} duplicates; "
        f"{statistics.reconnections} reconnections, {statistics.resent} messages resent"
    )
    return shop


async def break_now_and_then(broker: Broker) -> None:
    """Stop the broker with all its connections, and restart it."""
    while True:
        await trio.sleep(1.5)
        print("-- the broker is stopped", flush=True)
        await broker.stop_listening()
        broker.drop_connections()
        await trio.sleep(0.5)
        print("-- the broker is restarted", flush=True)
        await broker.start_listening()


async def run_by_itself(limit: int | None) -> Shop:
    """Run with an embedded broker that is restarted several times."""
    async with open_broker() as broker, trio.open_nursery() as nursery:
        nursery.start_soon(break_now_and_then, broker)
        shop = await run([broker.url], limit)
        nursery.cancel_scope.cancel()
    return shop


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns 0 if every confirmed order was handled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", nargs="+", dest="urls", metavar="URL", help="your own brokers, in order of preference")
    parser.add_argument("--orders", type=int, help="how many orders to send; default: 300, or with --url until Ctrl-C")
    given = parser.parse_args(arguments)
    shop = trio.run(run, given.urls, given.orders) if given.urls else trio.run(run_by_itself, given.orders or 300)
    return 0 if len(shop.handled) >= shop.confirmed else 1


if __name__ == "__main__":
    raise SystemExit(main())
