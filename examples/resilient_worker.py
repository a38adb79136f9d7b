"""A publisher and a worker that outlive their broker. Stop it, kill it, start it again, and watch them.

    python examples/resilient_worker.py                                              an embedded one that is stopped
    python examples/resilient_worker.py --url stomp://guest:guest@127.0.0.1:41613    a broker of your own

With a broker of your own it runs until Ctrl-C, or SIGTERM, and then finishes what it has begun. Break the broker
meanwhile, for instance by

    scripts/brokers restart rabbitmq
    scripts/brokers kill rabbitmq; sleep 10; scripts/brokers start rabbitmq

Several URLs are tried in their order.
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

# Without it a message is lost with its broker, confirmed or not. The embedded broker ignores it.
PERSISTENT = {"persistent": "true"}
SECONDS_BETWEEN_ORDERS = 0.01
# How long the orders that were sent may take to be handled once no more are sent.
FINISH_SECONDS = 30.0


@dataclass
class Shop:
    """What happens here.

    Attributes:
        queue: Where orders go.
        limit: How many orders to send; None: until told to stop.
        closing: Set when no more orders are to be sent.
        all_sent: Whether the last one is confirmed.
        done: Set when the orders are sent and handled.
        confirmed: How many orders the broker has confirmed.
        handled: The ids of the orders that were handled. A shop that outlives its process keeps them in its database,
            and enters an id in the same transaction as what it does about the order.
        again: How many came again: their ACK was lost, or their RECEIPT.
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
        """Find out whether all is done."""
        if self.all_sent and len(self.handled) >= self.confirmed:
            self.done.set()


async def send_orders(client: trio_stomp.Client, shop: Shop) -> None:
    """Send one order after the other. A lost link is not seen here: the call takes longer, that is all."""
    while not shop.closing.is_set() and shop.confirmed != shop.limit:
        await client.send(shop.queue, f"order {shop.confirmed + 1}", headers=PERSISTENT, receipt=True)
        shop.confirmed += 1
        with trio.move_on_after(SECONDS_BETWEEN_ORDERS):
            await shop.closing.wait()
    shop.all_sent = True
    shop.look()


async def handle_orders(client: trio_stomp.Client, shop: Shop) -> None:
    """Handle orders with a pool of workers. A lost link is not seen here either."""

    async def handle(message: trio_stomp.Message) -> None:
        await trio.sleep(SECONDS_BETWEEN_ORDERS)
        # The same each time that the order comes.
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
    """Print what the connection is doing: what a health check would show."""
    async for state in client.state_changes():
        if state.phase is not trio_stomp.Phase.CONNECTING:
            print(state, flush=True)


async def close_on_signal(signals: AsyncIterator[int], shop: Shop) -> None:
    """Send no more orders once a signal came; what was sent is still handled, as far as that can be."""
    async for _signal in signals:
        print("finishing", flush=True)
        shop.closing.set()
        with trio.move_on_after(FINISH_SECONDS):
            await shop.done.wait()
        shop.done.set()


async def run(urls: list[str], limit: int | None) -> Shop:
    """Send and handle orders until all is done; returns what has happened."""
    shop = Shop(f"/queue/resilient-worker-{uuid.uuid4().hex[:8]}", limit)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio_stomp.connect(
            urls,
            # A dead link is noticed after five seconds ...
            heart_beat=(2, 2),
            # ... and hosts are tried at least once a second while none answers.
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
        f"{shop.confirmed} orders confirmed, {len(shop.handled)} handled, {shop.again} came again; "
        f"{statistics.reconnections} reconnections, {statistics.resent} messages sent again"
    )
    return shop


async def break_now_and_then(broker: Broker) -> None:
    """Stop the broker, with all its links, and start it again."""
    while True:
        await trio.sleep(1.5)
        print("-- the broker is stopped", flush=True)
        await broker.stop_listening()
        broker.drop_connections()
        await trio.sleep(0.5)
        print("-- the broker is started", flush=True)
        await broker.start_listening()


async def run_by_itself(limit: int | None) -> Shop:
    """Run with an embedded broker that is broken now and then."""
    async with open_broker() as broker, trio.open_nursery() as nursery:
        nursery.start_soon(break_now_and_then, broker)
        shop = await run([broker.url], limit)
        nursery.cancel_scope.cancel()
    return shop


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns 0 where every confirmed order was handled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--url", nargs="+", dest="urls", metavar="URL", help="brokers of your own, in the order in which to try them"
    )
    parser.add_argument("--orders", type=int, help="how many; default: 300, and with a URL as many as until Ctrl-C")
    given = parser.parse_args(arguments)
    shop = trio.run(run, given.urls, given.orders) if given.urls else trio.run(run_by_itself, given.orders or 300)
    return 0 if len(shop.handled) >= shop.confirmed else 1


if __name__ == "__main__":
    raise SystemExit(main())
