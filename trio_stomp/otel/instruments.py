"""The metrics of a client: those of the semantic conventions, and the state of its connections."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter

from trio_stomp.otel.conventions import Attributes, for_metrics

__all__ = ["Instruments"]

# The boundaries that the conventions recommend.
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class Instruments:
    """The instruments of one set of hooks.

    Args:
        meter: Creates the instruments.
    """

    def __init__(self, meter: Meter) -> None:
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._connections = meter.create_up_down_counter(
            "stomp.client.connections", unit="{connection}", description="Number of open connections."
        )
        self._losses = meter.create_counter(
            "stomp.client.connection.losses",
            unit="{connection}",
            description="Number of connections that were lost.",
        )

    def sent(self, attributes: Attributes, seconds: float) -> None:
        """A message was sent; if it was sent with a receipt, its outcome is known."""
        told = for_metrics(attributes)
        self._sent.add(1, told)
        self._operations.record(seconds, told)

    def consumed(self, attributes: Attributes) -> None:
        """A message was handed to the program."""
        self._consumed.add(1, for_metrics(attributes))

    def processed(self, attributes: Attributes, seconds: float) -> None:
        """A message was handled."""
        self._processing.record(seconds, for_metrics(attributes))

    def settled(self, attributes: Attributes) -> None:
        """An ACK or NACK was put into the outbox, which takes no time."""
        self._operations.record(0, for_metrics(attributes))

    def connected(self, attributes: Attributes) -> None:
        """A connection was made."""
        self._connections.add(1, attributes)

    def disconnected(self, attributes: Attributes, error: str | None) -> None:
        """A connection has ended."""
        self._connections.add(-1, attributes)
        if error is not None:
            self._losses.add(1, {**attributes, "error.type": error})
