"""The metrics themselves: units, and the buckets that the conventions ask for."""

from __future__ import annotations

from opentelemetry.sdk.metrics.export import HistogramDataPoint

from tests.otel.conftest import Telemetry
from trio_stomp.otel.instruments import Instruments


def test_durations_when_recorded_then_in_seconds_and_in_the_buckets_of_the_conventions(telemetry: Telemetry) -> None:
    instruments = Instruments(telemetry.meters.get_meter("test"))
    instruments.sent({"messaging.system": "stomp"}, 0.2)
    instruments.processed({"messaging.system": "stomp"}, 3.0)

    data = telemetry.reader.get_metrics_data()

    assert data is not None
    metrics = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    for name in ("messaging.client.operation.duration", "messaging.process.duration"):
        (point,) = metrics[name].data.data_points
        assert metrics[name].unit == "s"
        assert isinstance(point, HistogramDataPoint)
        assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
        assert point.explicit_bounds[-1] == 10


def test_connections_when_they_come_and_go_then_those_that_stand_are_counted_and_losses_by_cause(
    telemetry: Telemetry,
) -> None:
    instruments = Instruments(telemetry.meters.get_meter("test"))
    for _ in range(3):
        instruments.connected({"server.address": "b"})
    instruments.disconnected({"server.address": "b"}, None)
    instruments.disconnected({"server.address": "b"}, "ConnectionLost")

    metrics = telemetry.metrics()

    assert metrics["stomp.client.connections"] == [({"server.address": "b"}, 1)]
    assert metrics["stomp.client.connection.losses"] == [({"server.address": "b", "error.type": "ConnectionLost"}, 1)]
