"""Who answers where STOMP was expected: other protocols, by their first octets."""

from __future__ import annotations

from typing import Final

__all__ = ["is_tls_alert", "stranger"]

_BY_BEGINNING: Final = (
    (b"AMQP", "AMQP; STOMP has a port of its own, usually 61613"),
    (b"HTTP/", "HTTP; a management page or a WebSocket, perhaps"),
    (b"SSH-", "SSH"),
    (b"220", "SMTP or FTP"),
    (b"-ERR", "Redis or POP3"),
    (b"+OK", "POP3"),
    (b"* OK", "IMAP"),
    (b"\x15\x03", "TLS"),
)
# OpenWire begins with the length of its first frame, which names itself.
_OPENWIRE: Final = b"ActiveMQ"
_LOOKED_AT_OCTETS: Final = 40
_SHOWN_OCTETS: Final = 24


def is_tls_alert(octets: bytes) -> bool:
    """Whether this is how a TLS port answers to what is not TLS: content type 21, version 3.x."""
    return octets[:2] == b"\x15\x03"


def stranger(octets: bytes) -> str:
    """What speaks like this, for people."""
    for beginning, name in _BY_BEGINNING:
        if octets.startswith(beginning):
            return name
    if _OPENWIRE in octets[:_LOOKED_AT_OCTETS]:
        return "OpenWire, ActiveMQ's own protocol (usually on port 61616); STOMP is usually on 61613"
    return f"something unknown, which begins with {octets[:_SHOWN_OCTETS]!r}"
