"""Trace contexts in the headers of messages."""

from __future__ import annotations

from typing import Final

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import SpanContext

from trio_stomp.client import Message, Sending
from trio_stomp.protocol import Headers

__all__ = ["carries_context", "context_of", "creation_of", "inject_into"]

# Spec: W3C Baggage, 3.3.2 Limits. The other headers are shorter.
_LONGEST_VALUE: Final = 8192


class _OfHeaders(Getter[Headers]):
    """Reads headers of a received message."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        """Return the value, as a list; None if it is too long."""
        value = carrier.get(key)
        if value is None or len(value) > _LONGEST_VALUE:
            return None
        # The sender chooses the value, and OpenTelemetry splits it by a pattern that is quadratic in white space.
        return [" ".join(value.split())]

    def keys(self, carrier: Headers) -> list[str]:
        """Return all names."""
        return list(carrier)


class _IntoSending(Setter[Sending]):
    """Writes headers of a message that is about to be sent."""

    def set(self, carrier: Sending, key: str, value: str) -> None:
        """Add one header."""
        carrier.add_header(key, value)


_GETTER = _OfHeaders()
_SETTER = _IntoSending()


def context_of(message: Message, *, propagator: TextMapPropagator | None = None) -> Context:
    """Return the trace context in which a message was sent, to continue its trace in your own spans.

    Args:
        message: The message.
        propagator: Reads the headers. Default: the global one, which reads ``traceparent`` and ``baggage``.

    Returns:
        A context for ``tracer.start_as_current_span(name, context=...)``: the current one, with the span and baggage of
        the message, if it has any.
    """
    return _extract(message.headers, propagator)


def creation_of(message: Message, propagator: TextMapPropagator | None) -> SpanContext:
    """Return the span that sent a message; an invalid one if the message has none."""
    # An empty context, because the span of the current one must not be returned.
    read = propagator.extract if propagator is not None else propagate.extract
    return trace.get_current_span(read(message.headers, Context(), _GETTER)).get_span_context()


def carries_context(message: Sending, propagator: TextMapPropagator | None) -> SpanContext:
    """Return the span that a message already carries, because its sender has set it or forwards a message."""
    read = propagator.extract if propagator is not None else propagate.extract
    return trace.get_current_span(read(Headers(message.headers), Context(), _GETTER)).get_span_context()


def inject_into(message: Sending, context: Context, propagator: TextMapPropagator | None) -> None:
    """Put a context into the headers of a message."""
    write = propagator.inject if propagator is not None else propagate.inject
    write(message, context, _SETTER)


def _extract(headers: Headers, propagator: TextMapPropagator | None) -> Context:
    read = propagator.extract if propagator is not None else propagate.extract
    return read(headers, contexts.get_current(), _GETTER)
