"""The semantic conventions of messaging: names and attributes of spans and metrics.

The names are those of version 1.44, in which the conventions of messaging are still in development; so each is written
only once, here. Spec: OpenTelemetry, "Semantic Conventions for Messaging Spans" and "... Client Metrics".
"""

from __future__ import annotations

import re
from typing import Final

from opentelemetry.util.types import AttributeValue

from trio_stomp.client import ConnectionInfo, Message, Sending

__all__ = [
    "ERROR_TYPE",
    "Attributes",
    "address",
    "describe",
    "describe_message",
    "describe_sending",
    "error_type",
    "for_metrics",
    "span_name",
]

Attributes = dict[str, AttributeValue]

ERROR_TYPE: Final = "error.type"
_DESTINATION: Final = "messaging.destination.name"
_TEMPORARY: Final = "messaging.destination.temporary"

# A broker without a name in the conventions is called by its protocol.
_SYSTEMS: Final = {"RabbitMQ": "rabbitmq", "ActiveMQ Classic": "activemq", "ActiveMQ Artemis": "activemq"}
_UNKNOWN_SYSTEM: Final = "stomp"

# Temporary destinations of brokers, and the destinations for replies that a client uses if there are none.
_TEMPORARY_NAMES: Final = re.compile(r"^/?(?:remote-)?(?:temp-queue|temp-topic|reply-queue)/|replies-[0-9a-f]{16}$")

# Attributes of metrics: only those with few different values. Spans have all attributes.
_OF_METRICS: Final = frozenset(
    {
        "messaging.operation.name",
        "messaging.operation.type",
        "messaging.system",
        _DESTINATION,
        "server.address",
        "server.port",
        ERROR_TYPE,
    }
)


def address(peer: ConnectionInfo) -> Attributes:
    """Return the attributes for the address of a broker; none for a stream that the program has opened itself."""
    return {"server.address": peer.host, "server.port": peer.port} if peer.host else {}


def describe(peer: ConnectionInfo, operation: str, kind: str, destination: str) -> Attributes:
    """Return the attributes of every operation.

    Args:
        peer: The broker.
        operation: The name of the operation.
        kind: Its operation type in the conventions.
        destination: The destination.
    """
    attributes: Attributes = {
        "messaging.system": _SYSTEMS.get(peer.broker, _UNKNOWN_SYSTEM),
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        _DESTINATION: destination,
        **address(peer),
    }
    if _TEMPORARY_NAMES.search(destination):
        attributes[_TEMPORARY] = True
    return attributes


def describe_sending(peer: ConnectionInfo, message: Sending) -> Attributes:
    """Return the attributes of a message that is sent."""
    attributes = describe(peer, "request" if message.is_request else "send", "send", message.destination)
    attributes["messaging.message.body.size"] = message.body_bytes
    conversation = next((value for name, value in message.headers if name == "correlation-id"), None)
    if conversation is not None:
        attributes["messaging.message.conversation_id"] = conversation
    return attributes


def describe_message(peer: ConnectionInfo, operation: str, kind: str, message: Message) -> Attributes:
    """Return the attributes of a received message."""
    attributes = describe(peer, operation, kind, message.subscription.destination)
    attributes["messaging.message.id"] = message.stable_id or message.id
    attributes["messaging.message.body.size"] = message.body_size
    conversation = message.headers.get("correlation-id")
    if conversation is not None:
        attributes["messaging.message.conversation_id"] = conversation
    return attributes


def span_name(attributes: Attributes) -> str:
    """Return the name of a span, such as ``send /queue/orders``, without the name of a temporary destination."""
    operation = str(attributes["messaging.operation.name"])
    return operation if _TEMPORARY in attributes else f"{operation} {attributes[_DESTINATION]!s}"


def for_metrics(attributes: Attributes) -> Attributes:
    """Return the attributes for metrics. Names of temporary destinations would create a series each."""
    return {
        name: value
        for name, value in attributes.items()
        if name in _OF_METRICS and not (name == _DESTINATION and _TEMPORARY in attributes)
    }


def error_type(error: BaseException) -> str:
    """Return the class of an exception, named as the conventions require."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
