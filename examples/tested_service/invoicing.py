"""A service that replies to orders with invoices, as a subject for tests.

    python examples/tested_service/invoicing.py                                         an embedded broker
    python examples/tested_service/invoicing.py --url stomp://guest:guest@localhost     your own broker

Its tests in test_invoicing.py are the point of this example.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping

import trio

import trio_stomp
from trio_stomp.testing import open_broker

ORDERS = "/queue/orders"
INVOICES = "/queue/invoices"
FAILED = "/queue/orders.failed"
PRICES = {"coffee": 4.2, "tea": 3.5}
CONFIRMED_WITHIN_SECONDS = 5.0


async def write_invoices(url: str, prices: Mapping[str, float]) -> None:
    """Reply to orders with invoices until canceled; dead-letter orders for items without a price."""

    async def write_invoice(order: trio_stomp.Message) -> None:
        invoice = {"item": order.text, "price": prices[order.text]}
        await client.send(INVOICES, json=invoice, receipt=True)

    # A missing price is not worth a retry.
    retry = trio_stomp.Retry(retry_on=lambda error: not isinstance(error, KeyError))
    async with (
        trio_stomp.connect(url, reconnect=trio_stomp.Reconnect()) as client,
        client.subscribe(ORDERS, prefetch=20) as orders,
    ):
        await orders.work(write_invoice, workers=5, retry=retry, dead_letter=FAILED)


async def place_order(url: str, item: str) -> bool:
    """Send an order; returns whether the broker confirmed it in time."""
    with trio.move_on_after(CONFIRMED_WITHIN_SECONDS) as waiting:
        async with trio_stomp.connect(url) as client:
            await client.send(ORDERS, item, receipt=True)
    return not waiting.cancelled_caught


async def run(url: str) -> None:
    """Place one order, and print its invoice."""
    async with trio.open_nursery() as nursery, trio_stomp.connect(url) as client:
        nursery.start_soon(write_invoices, url, PRICES)
        await place_order(url, "coffee")
        async with client.subscribe(INVOICES) as invoices, await anext(invoices) as invoice:
            print(invoice.text)
        nursery.cancel_scope.cancel()


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
