"""RabbitMQ's streams: queues that are read as often as one likes, from any offset on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from trio_stomp.brokers.features import StreamOffset
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Headers

__all__ = ["reads_stream", "stream_offset_header", "stream_offset_of"]

# Of SUBSCRIBE: where to begin. Of MESSAGE: the number of the message.
_OFFSET: Final = "x-stream-offset"


def stream_offset_header(offset: StreamOffset) -> list[tuple[str, str]]:
    """Where to begin to read a stream, as a header of SUBSCRIBE."""
    if isinstance(offset, datetime):
        if offset.tzinfo is None:
            msg = f"stream_offset must be a time with its zone, got {offset!r}; say datetime.now(UTC)"
            raise LocalProtocolError(msg)
        value = f"timestamp={int(offset.timestamp())}"
    else:
        value = f"offset={offset}" if isinstance(offset, int) else offset
    return [(_OFFSET, value)]


def stream_offset_of(message: Headers) -> int | None:
    """The number of a message in its stream; None where it came from a queue."""
    value = message.get(_OFFSET) or ""
    return int(value) if value.isascii() and value.isdigit() and len(value) < len(str(2**64)) else None


def reads_stream(subscribe: Iterable[tuple[str, str]]) -> bool:
    """Whether the headers of a SUBSCRIBE can only be meant for a stream."""
    return any(name == _OFFSET or (name, value) == ("x-queue-type", "stream") for name, value in subscribe)
