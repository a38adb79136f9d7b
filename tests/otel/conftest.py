"""Traces and metrics that are kept in memory, and a broker to make some with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import trio_stomp
from trio_stomp import Client
from trio_stomp.otel import OpenTelemetryHooks
from trio_stomp.testing import Broker, open_broker


@dataclass
class Telemetry:
    """Where spans and metrics go, and the hooks that make them."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.traces = TracerProvider(shutdown_on_exit=False)
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracer = self.traces.get_tracer("test")
        self.hooks = OpenTelemetryHooks(tracer_provider=self.traces, meter_provider=self.meters)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """All spans that have ended, by name; of several the last."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def names(self) -> list[str]:
        """The names of all spans, in the order of their ends."""
        return [span.name for span in self.exporter.get_finished_spans()]

    def metrics(self) -> dict[str, list[tuple[dict[str, object], float]]]:
        """Each metric: the attributes and the value (of histograms the count) of each of its points."""
        data: MetricsData | None = self.reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, object], float]]] = {}
        if data is not None:
            for metric in data.resource_metrics[0].scope_metrics[0].metrics:
                found[metric.name] = [
                    (dict(point.attributes or {}), point.value if isinstance(point, NumberDataPoint) else point.count)
                    for point in metric.data.data_points
                ]
        return found


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker that is reached over memory streams."""
    async with open_broker(listen=False) as opened:
        yield opened


@pytest.fixture
async def client(broker: Broker, telemetry: Telemetry) -> AsyncIterator[Client]:
    """A client of `broker` with the hooks of `telemetry`."""
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=telemetry.hooks) as connected:
        yield connected
