"""The bytes that every contestant is given, and the messages that each has to send."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["BODY", "SMALL_BODY_BYTES", "message", "outgoing_headers", "prefetch_headers"]

SMALL_BODY_BYTES: Final = 200
# Text of one byte each, as it would be in JSON.
BODY: Final = bytes(random.Random(5).choices(b'{"abcdefghij klmnop":0123456789,}', k=SMALL_BODY_BYTES))  # noqa: S311  # no secret


def message(number: int, subscription: bytes, destination: bytes, body: bytes = BODY, more: bytes = b"") -> bytes:
    """A MESSAGE with seven headers and those of `more`, as a broker would send it.

    Two of the seven differ from message to message, as they do in practice; all messages of one subscription and body
    size have the same length.
    """
    return (
        b"MESSAGE\nsubscription:%b\nmessage-id:T_%b@@session-qYn7@@%010d\ndestination:%b\nack:T_%b@@%010d\n"
        b"content-type:application/json\nredelivered:false\n%bcontent-length:%d\n\n%b\0"
        % (subscription, subscription, number, destination, subscription, number, more, len(body), body)
    )


def outgoing_headers(number: int) -> dict[str, str]:
    """The headers of one SEND beside destination, content-type and content-length: four, one of them its own."""
    return {"source": "benchmark", "kind": "tick", "unit": "mm", "number": str(number)}


def prefetch_headers(window: int, ack: str) -> dict[str, str]:
    """What asks RabbitMQ, ActiveMQ and Artemis for a window, for clients that don't do it by themselves."""
    if ack == "auto":
        # Artemis gives nothing back to such a window but for an ACK: an auto consumer would come to a halt.
        return {}
    return {
        "prefetch-count": str(window),
        "activemq.prefetchSize": str(window),
        # In bytes: one KiB for each message, as trio_stomp asks for.
        "consumer-window-size": str(window * 1024),
    }
