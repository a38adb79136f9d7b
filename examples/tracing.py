"""OpenTelemetry: one trace across a request, a worker, a second queue, and the reply.

    python examples/tracing.py                                         an embedded broker
    python examples/tracing.py --url stomp://guest:guest@localhost     your own broker

Requires the extra `otel` and opentelemetry-sdk. The example prints the spans as a tree at the end; in production, use
an exporter.
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
# Longer than the reply should take.
PATIENCE_SECONDS = 10
NAME_CHARACTERS = 36


class Shop:
    """Two services: one replies to orders, and asks the other to write invoices."""

    def __init__(self, client: trio_stomp.Client) -> None:
        self._client = client
        self.invoiced = trio.Event()

    async def take_order(self, order: trio_stomp.Message) -> None:
        """Request an invoice, and reply."""
        await self._client.send(INVOICES, order.body, content_type=order.content_type, receipt=True)
        await order.reply("thank you")

    async def write_invoice(self, invoice: trio_stomp.Message) -> None:
        """Write an invoice, which takes a moment."""
        with trace.get_tracer("shop").start_as_current_span("write invoice") as span:
            span.set_attribute("shop.order", invoice.text)
            await trio.sleep(0.001)
        self.invoiced.set()


async def run(url: str) -> None:
    """Place one order, and wait for its invoice."""
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
    """Format a trace: each span below its parent, in order of start."""
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
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
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
