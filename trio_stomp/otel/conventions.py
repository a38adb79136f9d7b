"""The semantic conventions of messaging: what spans and metrics are called, and what is said with them.

The names are those of version 1.44, where the conventions of messaging are in development still; so each is written
once, and here. Spec: OpenTelemetry, "Semantic Conventions for Messaging Spans" and "... Client Metrics".
"""

from __future__ import annotations

import re
from typing import Final

from opentelemetry.util.types import AttributeValue

from trio_stomp.client import Message, Peer, Sending

__all__ = [
    "ERROR_TYPE",
    "Attributes",
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

# A broker that the conventions have no name for is called by its protocol.
_SYSTEMS: Final = {"RabbitMQ": "rabbitmq", "ActiveMQ Classic": "activemq", "ActiveMQ Artemis": "activemq"}
_UNKNOWN_SYSTEM: Final = "stomp"

# What brokers call temporary, and the queues for replies that a client makes where there are no such.
_TEMPORARY_NAMES: Final = re.compile(r"^/?(?:remote-)?(?:temp-queue|temp-topic|reply-queue)/|replies-[0-9a-f]{16}$")

# What a metric may be told apart by: values of few kinds. Spans say the rest.
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


def describe(peer: Peer, operation: str, kind: str, destination: str) -> Attributes:
    """What is said with every operation.

    Args:
        peer: The broker.
        operation: What this library calls it.
        kind: Which of the conventions' operation types it is.
        destination: What it is done to.
    """
    attributes: Attributes = {
        "messaging.system": _SYSTEMS.get(peer.broker, _UNKNOWN_SYSTEM),
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        _DESTINATION: destination,
        "server.address": peer.host,
        "server.port": peer.port,
    }
    if _TEMPORARY_NAMES.search(destination):
        attributes[_TEMPORARY] = True
    return attributes


def describe_sending(peer: Peer, message: Sending) -> Attributes:
    """What is said with a message that is sent."""
    attributes = describe(peer, "request" if message.is_request else "send", "send", message.destination)
    attributes["messaging.message.body.size"] = message.body_bytes
    conversation = next((value for name, value in message.headers if name == "correlation-id"), None)
    if conversation is not None:
        attributes["messaging.message.conversation_id"] = conversation
    return attributes


def describe_message(peer: Peer, operation: str, kind: str, message: Message) -> Attributes:
    """What is said with a message that has come."""
    attributes = describe(peer, operation, kind, message.subscription.destination)
    attributes["messaging.message.id"] = message.stable_id or message.id
    attributes["messaging.message.body.size"] = len(message.body)
    conversation = message.headers.get("correlation-id")
    if conversation is not None:
        attributes["messaging.message.conversation_id"] = conversation
    return attributes


def span_name(attributes: Attributes) -> str:
    """``send /queue/orders``; without the destination where each has another name."""
    operation = str(attributes["messaging.operation.name"])
    return operation if _TEMPORARY in attributes else f"{operation} {attributes[_DESTINATION]!s}"


def for_metrics(attributes: Attributes) -> Attributes:
    """Those of few values; names of temporary destinations would make a series each."""
    return {
        name: value
        for name, value in attributes.items()
        if name in _OF_METRICS and not (name == _DESTINATION and _TEMPORARY in attributes)
    }


def error_type(error: BaseException) -> str:
    """The class of an exception, as the conventions want it named."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
