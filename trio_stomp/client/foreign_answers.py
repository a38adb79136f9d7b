"""What speaks at a port that does not speak STOMP: told by the first octets that come."""

from __future__ import annotations

from typing import Final

__all__ = ["HINT_OCTETS", "hint_at"]

# As much as is looked at: OpenWire names itself after a length and a type.
HINT_OCTETS: Final = 16

# Each seen on the wire; a TLS alert is content type 21 and version 3.x: RabbitMQ, ActiveMQ and Artemis all answer
# cleartext on a TLS port with one.
_BEGINNINGS: Final = (
    (b"\x15\x03", "; this is a TLS port: use stomps:// or tls="),
    (b"HTTP/", "; this port speaks HTTP: STOMP over WebSocket needs a URL like ws://host:port/ws"),
    (b"AMQP", "; this is an AMQP port: use the broker's STOMP port"),
    (b"SSH-", "; this is an SSH port: use the broker's STOMP port"),
)


def hint_at(seen: bytes) -> str:
    """What a port is that answered with these octets, and what to do; nothing where it is not known."""
    if b"ActiveMQ" in seen[4:]:
        return "; this is ActiveMQ's OpenWire port: use its STOMP port"
    return next((hint for beginning, hint in _BEGINNINGS if seen.startswith(beginning)), "")
