"""The statistics of a client as gauges, written down now and then."""

from __future__ import annotations

from typing import Final

import trio
from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from trio_stomp.client import Client
from trio_stomp.errors import LocalProtocolError

__all__ = ["report_statistics"]

# Name, unit, description; the names are those of Statistics and SubscriptionStatistics.
_OF_CLIENT: Final = {
    "outbox_bytes": ("By", "What waits to be written."),
    "undelivered_bytes": ("By", "Memory of messages that wait for consumers."),
    "receipts_pending": ("{receipt}", "Receipts that are awaited."),
    "unconfirmed": ("{message}", "Messages that await their RECEIPT."),
    "seconds_since_read": ("s", "Seconds since bytes last came."),
    "reader_held": ("{time}", "How many times the reader was held because of slow consumers."),
    "resent": ("{message}", "Messages sent again after a reconnection."),
    "stale_messages": ("{message}", "Messages that were handled, and whose connection was lost before their ACK."),
}
_OF_SUBSCRIPTION: Final = {
    "buffered": ("{message}", "Messages that came and that no consumer has taken."),
    "unsettled": ("{message}", "Messages that consumers took and have not settled."),
    "waiting": ("{task}", "Tasks that wait for a message."),
    "dropped": ("{message}", "Messages forgotten by overflow='drop-oldest'."),
}


async def report_statistics(
    client: Client, *, every: float = 15.0, meter_provider: MeterProvider | None = None
) -> None:
    """Write the statistics of a client into gauges, until cancelled: ``nursery.start_soon(report_statistics, client)``.

    Args:
        client: The client.
        every: Seconds in between.
        meter_provider: Where they go. Default: the global provider.

    Raises:
        LocalProtocolError: `every` is not more than 0.

    Cancellation: nothing is written any more.
    """
    if not every > 0:
        msg = f"every must be more than 0 seconds, got {every!r}"
        raise LocalProtocolError(msg)
    meter = metrics.get_meter("trio_stomp", meter_provider=meter_provider)
    of_client = {
        name: meter.create_gauge(f"stomp.client.{name}", unit, description)
        for name, (unit, description) in _OF_CLIENT.items()
    }
    of_subscription = {
        name: meter.create_gauge(f"stomp.client.subscription.{name}", unit, description)
        for name, (unit, description) in _OF_SUBSCRIPTION.items()
    }
    while True:
        statistics = client.statistics()
        for name, gauge in of_client.items():
            gauge.set(getattr(statistics, name))
        for each in statistics.subscriptions:
            told = {"messaging.destination.name": each.destination, "stomp.subscription": each.id}
            for name, gauge in of_subscription.items():
                gauge.set(getattr(each, name), told)
        await trio.sleep(every)
