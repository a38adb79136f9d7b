"""How to test your own messaging code: three tests with the fixtures that come with trio-stomp.

Run it with ``pytest examples/test_with_broker_fixture.py``; ``pip install pytest pytest-trio`` is all that it needs.
The broker is a real one as far as your code can see: it listens on a port of this machine and speaks STOMP.
"""

import functools
import json

import pytest
import trio

import trio_stomp
from trio_stomp.testing import Broker, SwallowReceipts

# --- your program ---------------------------------------------------------------------------------------------------


async def price_orders(url: str, prices: dict[str, float]) -> None:
    """Read orders, answer each with an invoice; orders for what has no price are refused."""
    async with trio_stomp.connect(url) as client, client.subscribe("/queue/orders", prefetch=10) as orders:
        async for order in orders:
            try:
                async with order:  # acknowledged when this block ends well, refused when it raises
                    item = order.text
                    invoice = json.dumps({"item": item, "price": prices[item]})
                    await client.send("/queue/invoices", invoice, content_type="application/json", receipt=True)
            except KeyError:
                continue


async def place_order(url: str, item: str, *, deadline: float) -> bool:
    """Send an order; say whether the broker has confirmed it in time."""
    with trio.move_on_after(deadline) as waiting:
        async with trio_stomp.connect(url) as client:
            await client.send("/queue/orders", item, receipt=True)
    return not waiting.cancelled_caught


# --- its tests ------------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_orders_when_priced_then_invoices_come_and_the_others_are_dead_letters(
    stomp_broker: Broker, nursery: trio.Nursery
) -> None:
    """The fixture `stomp_broker` runs in the same loop as the test: put messages in, wait, look inside."""
    nursery.start_soon(price_orders, stomp_broker.url, {"tea": 3.5})

    stomp_broker.publish("/queue/orders", "tea")
    stomp_broker.publish("/queue/orders", "unicorn")

    with trio.fail_after(10):
        await stomp_broker.wait_until(lambda: stomp_broker.depth("/queue/invoices") == 1)
        # The embedded broker delivers a refused message again, five times in all, and then puts it aside.
        await stomp_broker.wait_until(lambda: stomp_broker.depth("/queue/dead-letter") == 1)
        await stomp_broker.wait_until(lambda: stomp_broker.unacknowledged("/queue/orders") == 0)
    (invoice,) = stomp_broker.messages("/queue/invoices")
    assert json.loads(invoice.body) == {"item": "tea", "price": 3.5}
    assert invoice.headers["content-type"] == "application/json"


@pytest.mark.trio
async def test_order_when_the_receipt_is_lost_then_is_reported_as_unconfirmed(stomp_broker: Broker) -> None:
    """What hardly ever happens can be made to happen: here the next receipt of the next connection never comes."""
    stomp_broker.faults.plan(SwallowReceipts())

    confirmed = await place_order(stomp_broker.url, "tea", deadline=0.5)

    assert not confirmed
    assert stomp_broker.depth("/queue/orders") == 1


def test_order_when_the_program_is_not_on_trio_then_a_broker_in_a_thread_will_do(stomp_broker_url: str) -> None:
    """The fixture `stomp_broker_url` is for synchronous tests and other loops: the broker has a thread of its own."""
    assert trio.run(functools.partial(place_order, stomp_broker_url, "tea", deadline=10))
