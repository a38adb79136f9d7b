"""Tests of the service with the pytest fixtures of trio-stomp. Copy this folder as a template.

    pytest examples/tested_service

The embedded broker listens on a local port and speaks STOMP, like a real one.
"""

import functools
import json

import invoicing
import pytest
import trio

from trio_stomp.testing import Broker, DropLink, SwallowReceipts

DEADLINE = 10.0


async def test_order_when_it_has_a_price_then_an_invoice_is_written(
    stomp_broker: Broker, nursery: trio.Nursery
) -> None:
    """The fixture `stomp_broker` runs in the test's event loop: publish messages, wait, inspect queues."""
    nursery.start_soon(invoicing.write_invoices, stomp_broker.url, {"tea": 3.5})

    stomp_broker.publish(invoicing.ORDERS, "tea")

    with trio.fail_after(DEADLINE):
        await stomp_broker.wait_until(lambda: stomp_broker.depth(invoicing.INVOICES) == 1)
        # The order is acknowledged after its invoice is confirmed, so that it cannot be lost in between.
        await stomp_broker.wait_until(lambda: stomp_broker.unacknowledged(invoicing.ORDERS) == 0)
    (invoice,) = stomp_broker.messages(invoicing.INVOICES)
    assert json.loads(invoice.body) == {"item": "tea", "price": 3.5}
    assert invoice.headers["content-type"] == "application/json"


async def test_order_when_it_has_no_price_then_it_is_put_aside_and_the_next_one_is_handled(
    stomp_broker: Broker, nursery: trio.Nursery
) -> None:
    nursery.start_soon(invoicing.write_invoices, stomp_broker.url, {"tea": 3.5})

    stomp_broker.publish(invoicing.ORDERS, "unicorn")
    stomp_broker.publish(invoicing.ORDERS, "tea")

    with trio.fail_after(DEADLINE):
        await stomp_broker.wait_until(lambda: stomp_broker.depth(invoicing.INVOICES) == 1)
        await stomp_broker.wait_until(lambda: stomp_broker.depth(invoicing.FAILED) == 1)
    (failed,) = stomp_broker.messages(invoicing.FAILED)
    assert failed.body == b"unicorn"
    assert failed.headers["x-error-type"] == "builtins.KeyError"


async def test_service_when_the_link_breaks_then_it_goes_on_over_the_next_one(
    stomp_broker: Broker, nursery: trio.Nursery
) -> None:
    """Fault injection: the first connection breaks after a few orders."""
    stomp_broker.faults.plan(DropLink(after_sent_bytes=1000))
    nursery.start_soon(invoicing.write_invoices, stomp_broker.url, {"tea": 3.5})

    for _ in range(20):
        stomp_broker.publish(invoicing.ORDERS, "tea")

    with trio.fail_after(DEADLINE):
        # At least, because an order whose acknowledgment was lost is handled twice.
        await stomp_broker.wait_until(lambda: stomp_broker.depth(invoicing.INVOICES) >= 20)
        await stomp_broker.wait_until(lambda: stomp_broker.unacknowledged(invoicing.ORDERS) == 0)
    assert stomp_broker.depth(invoicing.ORDERS) == 0


async def test_order_when_the_receipt_is_lost_then_it_is_reported_as_unconfirmed(
    stomp_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invoicing, "CONFIRMED_WITHIN_SECONDS", 0.2)
    stomp_broker.faults.plan(SwallowReceipts())

    confirmed = await invoicing.place_order(stomp_broker.url, "tea")

    assert not confirmed
    assert stomp_broker.depth(invoicing.ORDERS) == 1


def test_order_when_the_program_is_not_on_trio_then_a_broker_in_a_thread_will_do(stomp_broker_url: str) -> None:
    """The fixture `stomp_broker_url` is for synchronous tests and other event loops: the broker runs in a thread."""
    assert trio.run(functools.partial(invoicing.place_order, stomp_broker_url, "tea"))
