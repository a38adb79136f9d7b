"""Bounds on what a peer may send. Spec: "Size Limits"."""

from __future__ import annotations

from dataclasses import dataclass, fields

from trio_stomp.errors import LocalProtocolError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one connection accepts from its peer. Line ends are not counted.

    Attributes:
        command_bytes: Length of the command line. The longest command of any version has eleven bytes.
        header_line_bytes: Length of one header line. ActiveMQ sends and accepts at most 10 240 bytes.
        header_count: Number of header lines of one frame, including repeated headers.
        body_bytes: Length of one body. RabbitMQ's default limit for a message is 128 MiB.
        undelivered_bytes: Memory used by messages that wait on one connection for consumers: bodies, headers and the
            Python objects that hold them. Beyond a quarter of it, the client stops reading, unless a task waits for a
            frame of the broker. At the limit, the subscription that holds most fails with SubscriptionOverflow.
    """

    command_bytes: int = 64
    header_line_bytes: int = 64 * 1024
    header_count: int = 512
    body_bytes: int = 128 * 1024 * 1024
    undelivered_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 0:
                raise LocalProtocolError(f"limit {field.name} must be a whole number of at least 0, got {value!r}")
