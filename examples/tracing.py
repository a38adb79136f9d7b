"""One order, three programs' worth of work, one trace: a request, a worker, a queue behind it, and the reply.

    python examples/tracing.py                                         an embedded broker
    python examples/tracing.py --url stomp://guest:guest@localhost     a broker of your own

Needs the extra `otel` and opentelemetry-sdk. The spans are printed as a tree once all is done; a program in earnest
would hand them to an exporter of its choice.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Sequence

import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import trio_stomp
from trio_stomp.otel import OpenTelemetryHooks
from trio_stomp.testing import open_broker

ORDERS = "/queue/orders"
INVOICES = "/queue/invoices"
# Longer than the answer should take: nobody may be there to answer.
PATIENCE_SECONDS = 10
NAME_CHARACTERS = 36


class Shop:
    """Two services: one takes orders and answers, and has invoices written by the other."""

    def __init__(self, client: trio_stomp.Client) -> None:
        self._client = client
        self.invoiced = trio.Event()

    async def take_order(self, order: trio_stomp.Message) -> None:
        """Have an invoice written, and answer."""
        await self._client.send(INVOICES, order.body, content_type=order.content_type, receipt=True)
        headers = {"correlation-id": order.headers["correlation-id"]}
        await self._client.send(order.headers["reply-to"], "thank you", headers=headers)

    async def write_invoice(self, invoice: trio_stomp.Message) -> None:
        """Write an invoice; that takes a moment."""
        with trace.get_tracer("shop").start_as_current_span("write invoice") as span:
            span.set_attribute("shop.order", invoice.text)
            await trio.sleep(0.001)
        self.invoiced.set()


async def run(url: str) -> None:
    """Place one order, and end when its invoice is written."""
    hooks = OpenTelemetryHooks()
    async with (
        trio_stomp.connect(url, hooks=hooks) as client,
        client.subscribe(ORDERS) as orders,
        client.subscribe(INVOICES) as invoices,
        trio.open_nursery() as nursery,
    ):
        shop = Shop(client)
        nursery.start_soon(orders.work, shop.take_order)
        nursery.start_soon(invoices.work, shop.write_invoice)
        with trace.get_tracer("customer").start_as_current_span("place order"):
            await client.request(ORDERS, "3 sacks of coffee", timeout=PATIENCE_SECONDS)
        await shop.invoiced.wait()
        nursery.cancel_scope.cancel()


def tree(spans: Sequence[ReadableSpan], parent: int | None = None, depth: int = 0) -> Iterator[str]:
    """The lines of a trace: each span below the one that it is part of, in the order of their beginnings."""
    for span in sorted(spans, key=lambda each: each.start_time or 0):
        if span.context is None or (None if span.parent is None else span.parent.span_id) != parent:
            continue
        name = "  " * depth + span.name
        milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
        yield f"{name:<{NAME_CHARACTERS}} {milliseconds:7.1f} ms"
        yield from tree(spans, span.context.span_id, depth + 1)


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a broker of your own; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    trio.run(run_by_itself if url is None else functools.partial(run, url))
    for line in tree(exporter.get_finished_spans()):
        print(line)


if __name__ == "__main__":
    main()
