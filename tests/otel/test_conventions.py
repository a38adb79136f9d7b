"""What spans and metrics are called, and what is said with them."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint

from tests.otel.conftest import Telemetry
from trio_stomp import Client, ConnectionLost, DeliveryStatus
from trio_stomp.types import ConnectionInfo, Sending


def peer(broker: str = "RabbitMQ") -> ConnectionInfo:
    return ConnectionInfo(endpoint="stomp://b:1", host="b", port=1, broker=broker, server=None)


def sent(telemetry: Telemetry, to: ConnectionInfo, destination: str = "/queue/a") -> dict[str, object]:
    """Send a request; returns the attributes of its metrics."""
    message = Sending(
        destination=destination,
        body_bytes=7,
        transaction=None,
        is_request=True,
        confirmed=False,
        _headers=[("correlation-id", "c-1")],
    )
    telemetry.hooks.sending(to, message)(DeliveryStatus.SENT, None)
    ((told, _),) = telemetry.metrics()["messaging.client.sent.messages"]
    return told


@pytest.mark.parametrize(
    ("broker", "system"),
    [
        ("RabbitMQ", "rabbitmq"),
        ("ActiveMQ Classic", "activemq"),
        ("ActiveMQ Artemis", "activemq"),
        ("a broker that is not known", "stomp"),
    ],
)
def test_system_when_described_then_by_the_name_that_the_conventions_have(
    broker: str, system: str, telemetry: Telemetry
) -> None:
    assert sent(telemetry, peer(broker))["messaging.system"] == system


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("/queue/a", "request /queue/a"),
        ("/topic/temp-queue", "request /topic/temp-queue"),
        ("/temp-queue/a", "request"),
        ("/remote-temp-queue/ID:x", "request"),
        ("/reply-queue/amq.gen-1", "request"),
        ("/queue/replies-0123456789abcdef", "request"),
        ("/queue/replies-of-clients", "request /queue/replies-of-clients"),
    ],
)
def test_span_name_when_the_destination_is_temporary_then_without_it(
    destination: str, name: str, telemetry: Telemetry
) -> None:
    told = sent(telemetry, peer(), destination)

    assert telemetry.names == [name]
    assert ("messaging.destination.name" in told) == (name != "request")


def test_metrics_when_a_message_is_described_then_only_what_has_few_values_is_kept(telemetry: Telemetry) -> None:
    told = sent(telemetry, peer())

    attributes = telemetry.spans["request /queue/a"].attributes
    assert attributes is not None
    assert attributes["messaging.message.conversation_id"] == "c-1"
    assert (told["server.address"], told["server.port"]) == ("b", 1)
    assert set(attributes) - set(told) == {"messaging.message.body.size", "messaging.message.conversation_id"}


@pytest.mark.anyio
async def test_durations_when_recorded_then_in_seconds_and_in_the_buckets_of_the_conventions(
    client: Client, telemetry: Telemetry
) -> None:
    async with client.subscribe("/queue/a", ack="auto") as messages:
        await client.send("/queue/a", b"")
        async with await anext(messages):
            pass

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
    for _ in range(3):
        telemetry.hooks.connected(peer())
    telemetry.hooks.disconnected(peer(), None)
    telemetry.hooks.disconnected(peer(), ConnectionLost())

    metrics = telemetry.metrics()

    where = {"server.address": "b", "server.port": 1}
    assert metrics["stomp.client.connections"] == [(where, 1)]
    losses = [({**where, "error.type": "trio_stomp.errors.ConnectionLost"}, 1)]
    assert metrics["stomp.client.connection.losses"] == losses
