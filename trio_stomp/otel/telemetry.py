"""Hooks that create spans and metrics for what a client does.

Each message that is sent has a span, and carries its context in the headers. The program that handles the message
continues the trace: the span of handling is a child of the span of sending, and messages that the handler sends are
children of that. So one trace leads from a request through any number of queues, and back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
from typing_extensions import override

from trio_stomp.client import ConnectionInfo, Hooks, Message, SendCallback, Sending, Settlement
from trio_stomp.errors import DeliveryStatus, StompError
from trio_stomp.otel.context import carries_context, context_of, creation_of, inject_into
from trio_stomp.otel.conventions import (
    ERROR_TYPE,
    Attributes,
    address,
    describe_message,
    describe_sending,
    error_type,
    span_name,
)
from trio_stomp.otel.instruments import Instruments
from trio_stomp.printable import safe_str

__all__ = ["OpenTelemetryHooks"]

_NAME: Final = "trio_stomp"

# The names of the operations in STOMP.
_VERBS: Final = {Settlement.ACKED: "ack", Settlement.NACKED: "nack"}


class OpenTelemetryHooks(Hooks):
    """Traces and metrics of a client: ``connect(url, hooks=OpenTelemetryHooks())``.

    Args:
        tracer_provider: Where spans go. Default: the global provider.
        meter_provider: Where metrics go. Default: the global provider.
        propagator: Writes contexts into headers and reads them. Default: the global one, which is W3C's ``traceparent``
            and ``baggage``.
        settle_spans: Also create a span for each ACK and NACK.
        clock: Returns seconds; for tests.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        settle_spans: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._instruments = Instruments(metrics.get_meter(_NAME, meter_provider=meter_provider))
        self._propagator = propagator
        self._settle_spans = settle_spans
        self._clock = clock
        # Of messages that carry no context: that of the span of their first handling, where its trace begins.
        self._begun: WeakKeyDictionary[Message, Context] = WeakKeyDictionary()

    @override
    def connected(self, peer: ConnectionInfo) -> None:
        """Count a connection."""
        self._instruments.connected(address(peer))

    @override
    def disconnected(self, peer: ConnectionInfo, cause: StompError | None) -> None:
        """Stop counting a connection, and count its loss."""
        self._instruments.disconnected(address(peer), None if cause is None else error_type(cause))

    @override
    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback:
        """Start the span of a message, and write its context into the headers.

        A message that already has a context keeps it: its sender chose it, or forwards a message, such as a dead
        letter. Its span is then linked to that context.
        """
        attributes = describe_sending(peer, message)
        given = carries_context(message, self._propagator)
        # Spec: "Span kind": PRODUCER is for the span whose context the message carries.
        kind = SpanKind.CLIENT if given.is_valid else SpanKind.PRODUCER
        span = self._tracer.start_span(span_name(attributes), kind=kind, attributes=attributes, links=_links(given))
        if not given.is_valid:
            inject_into(message, trace.set_span_in_context(span), self._propagator)
        began = self._clock()

        def ended(delivery: DeliveryStatus | None, error: StompError | None) -> None:
            if error is not None:
                _failed(span, attributes, error)
            span.end()
            # Spec: messaging.client.sent.messages does not count what has not been sent.
            if delivery is not None:
                self._instruments.sent(attributes, self._clock() - began)

        return ended

    @override
    def received(self, peer: ConnectionInfo, message: Message) -> None:
        """Count a message."""
        self._instruments.consumed(describe_message(peer, "receive", "receive", message))

    @override
    def handling(self, peer: ConnectionInfo, message: Message) -> AbstractContextManager[None]:
        """Create a span for the handling of a message, which is the current span meanwhile."""
        return self._handling(peer, message)

    @contextmanager
    def _handling(self, peer: ConnectionInfo, message: Message) -> Generator[None]:
        attributes = describe_message(peer, "process", "process", message)
        creation = creation_of(message, self._propagator)
        links = _links(creation, trace.get_current_span().get_span_context())
        context = self._context_of(message)
        span = self._tracer.start_span(
            span_name(attributes), context=context, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        inner = trace.set_span_in_context(span, context)
        if not trace.get_current_span(context).get_span_context().is_valid:
            self._begun[message] = inner
        token = contexts.attach(inner)
        began = self._clock()
        try:
            yield
        except Exception as error:
            _failed(span, attributes, error)
            raise
        finally:
            contexts.detach(token)
            span.end()
            self._instruments.processed(attributes, self._clock() - began)

    @override
    def settled(self, peer: ConnectionInfo, message: Message, how: Settlement, transaction: str | None) -> None:
        """Create a span for an ACK or NACK, in the trace of its message."""
        attributes = describe_message(peer, _VERBS[how], "settle", message)
        self._instruments.settled(attributes)
        if not self._settle_spans:
            return
        present = trace.get_current_span().get_span_context().is_valid
        context = None if present else self._context_of(message)
        links = _links(creation_of(message, self._propagator))
        self._tracer.start_span(
            span_name(attributes), context=context, kind=SpanKind.CLIENT, attributes=attributes, links=links
        ).end()

    def _context_of(self, message: Message) -> Context:
        """Return the context for a span of a message: all of them, from the first attempt to the ACK, are one trace."""
        context = context_of(message, propagator=self._propagator)
        return (
            context
            if trace.get_current_span(context).get_span_context().is_valid
            else self._begun.get(message, context)
        )


def _links(*contexts_: SpanContext) -> list[Link]:
    return [Link(context) for context in contexts_ if context.is_valid]


def _failed(span: Span, attributes: Attributes, error: Exception) -> None:
    attributes[ERROR_TYPE] = error_type(error)
    span.set_attribute(ERROR_TYPE, error_type(error))
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, safe_str(error)))
