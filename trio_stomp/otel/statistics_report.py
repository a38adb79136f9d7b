"""The statistics of a client as gauges, recorded at regular intervals."""

from __future__ import annotations

from typing import Final

import anyio
from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from trio_stomp.client import Client
from trio_stomp.errors import LocalProtocolError

__all__ = ["report_statistics"]

# Name, unit, description; the names are those of Statistics and SubscriptionStatistics.
_OF_CLIENT: Final = {
    "outbox_bytes": ("By", "Bytes waiting to be written."),
    "undelivered_bytes": ("By", "Memory used by messages waiting for consumers."),
    "receipts_pending": ("{receipt}", "Receipts awaited now."),
    "unconfirmed": ("{message}", "Messages waiting for their RECEIPT."),
    "seconds_since_read": ("s", "Seconds since the last read."),
    "reads_paused": ("{time}", "How often the reader stopped because of slow consumers."),
    "resent": ("{message}", "Messages resent after a reconnection."),
    "stale_messages": ("{message}", "Messages handled whose connection was lost before their ACK."),
}
_OF_SUBSCRIPTION: Final = {
    "buffered": ("{message}", "Messages received and not taken by a consumer yet."),
    "unsettled": ("{message}", "Messages taken by consumers and not settled yet."),
    "waiting": ("{task}", "Tasks waiting for a message."),
    "dropped": ("{message}", "Messages dropped by overflow='drop-oldest'."),
}


async def report_statistics(
    client: Client, *, every: float = 15.0, meter_provider: MeterProvider | None = None
) -> None:
    """Record the statistics of a client as gauges, until canceled: ``nursery.start_soon(report_statistics, client)``.

    Args:
        client: The client.
        every: Seconds between two recordings.
        meter_provider: Where metrics go. Default: the global provider.

    Raises:
        LocalProtocolError: `every` is not more than 0.

    Cancellation: recording stops.
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
        await anyio.sleep(every)
