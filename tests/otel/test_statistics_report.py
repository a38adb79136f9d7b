"""Statistics as gauges."""

from __future__ import annotations

import anyio
import pytest

import trio_stomp
from tests.otel.conftest import Telemetry
from trio_stomp import LocalProtocolError
from trio_stomp.otel import report_statistics
from trio_stomp.testing import Broker

pytestmark = pytest.mark.anyio


async def test_report_when_it_runs_then_gauges_follow_the_statistics(broker: Broker, telemetry: Telemetry) -> None:
    async def report(client: trio_stomp.Client) -> None:
        await report_statistics(client, every=5, meter_provider=telemetry.meters)

    async with trio_stomp.connect_stream(broker.connect_stream()) as client, anyio.create_task_group() as group:
        async with client.subscribe("/queue/a", id="orders") as orders:
            await client.send("/queue/a", b"12345", receipt=True)
            group.start_soon(report, client)
            await anyio.sleep(1)
            first = telemetry.metrics()
            await anext(orders)
            await anyio.sleep(5)
            second = telemetry.metrics()
        told = {"messaging.destination.name": "/queue/a", "stomp.subscription": "orders"}
        assert first["stomp.client.subscription.buffered"] == [(told, 1)]
        assert second["stomp.client.subscription.buffered"] == [(told, 0)]
        assert second["stomp.client.subscription.unsettled"] == [(told, 1)]
        assert [value > 500 for _, value in first["stomp.client.undelivered_bytes"]] == [True]
        assert [value for _, value in second["stomp.client.undelivered_bytes"]] == [0]
        group.cancel_scope.cancel()


async def test_report_when_the_interval_cannot_be_meant_then_refused(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        with pytest.raises(LocalProtocolError, match="every must be more than 0 seconds, got 0"):
            await report_statistics(client, every=0)
