"""Contexts in headers."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import trio_stomp
from tests.kit.loops import on_loops
from tests.otel.conftest import Telemetry
from trio_stomp.otel import context_of
from trio_stomp.testing import Broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_context_of_when_a_message_carries_one_then_a_trace_can_be_gone_on_with_by_hand(
    broker: Broker, telemetry: Telemetry
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"", headers={"traceparent": PARENT})
        async with client.subscribe("/queue/a") as orders:
            message = await anext(orders)
            for context in (context_of(message), context_of(message, propagator=TraceContextTextMapPropagator())):
                with telemetry.tracer.start_as_current_span("by hand", context=context) as span:
                    assert format(span.get_span_context().trace_id, "032x") == PARENT.split("-")[1]


async def test_context_of_when_a_message_carries_none_then_the_present_one(
    broker: Broker, telemetry: Telemetry
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"")
        async with client.subscribe("/queue/a") as orders:
            with telemetry.tracer.start_as_current_span("present") as present:
                assert trace.get_current_span(context_of(await anext(orders))) is present
