"""What speaks at a port that does not speak what the URL says: told by the first octets that come.

One table for `connect` (in the clear, in the TLS handshake and in that of a WebSocket), and for the command's doctor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.transport.urls import Endpoint, Transport

__all__ = ["HINT_OCTETS", "FirstOctets", "hint_at", "is_tls", "is_tls_alert", "speaker_of"]

# As much as is looked at: OpenWire names itself after a length and a type.
HINT_OCTETS: Final = 24


@dataclass(frozen=True, slots=True)
class _Speaker:
    """A protocol.

    Attributes:
        name: What to call it.
        more: What else people want to know.
    """

    name: str
    more: str = ""


_AMQP: Final = _Speaker("AMQP", "STOMP has a port of its own, usually 61613")
_HTTP: Final = _Speaker("HTTP", "a management page or a WebSocket, perhaps")
_OPENWIRE: Final = _Speaker("OpenWire", "ActiveMQ's own protocol (usually on port 61616); STOMP is usually on 61613")
_STOMP: Final = _Speaker("plain STOMP")
_TLS: Final = _Speaker("TLS")

# Each seen on the wire. RabbitMQ, ActiveMQ and Artemis all answer cleartext on a TLS port with an alert.
_BEGINNINGS: Final = (
    (b"AMQP", _AMQP),
    (b"HTTP/", _HTTP),
    (b"SSH-", _Speaker("SSH")),
    (b"220", _Speaker("SMTP or FTP")),
    (b"-ERR", _Speaker("Redis or POP3")),
    (b"+OK", _Speaker("POP3")),
    (b"* OK", _Speaker("IMAP")),
    (b"ERROR\n", _STOMP),
    (b"ERROR\r\n", _STOMP),
    (b"CONNECTED\n", _STOMP),
)


def is_tls_alert(octets: bytes) -> bool:
    """Whether this is how a TLS port answers to what is not TLS: content type 21, version 3.x."""
    return octets[:2] == b"\x15\x03"


def is_tls(octets: bytes) -> bool:
    """Whether these can be the first octets of a TLS server. Spec: RFC 8446, 5.1, content types 20 to 23."""
    return 0x14 <= octets[0] <= 0x17 and octets[1:2] in (b"", b"\x03") if octets else True  # noqa: PLR2004  # see above


def _speaker(octets: bytes) -> _Speaker | None:
    if is_tls_alert(octets):
        return _TLS
    if b"ActiveMQ" in octets[4:]:
        # OpenWire begins with the length of its first frame, which names itself.
        return _OPENWIRE
    # A broker may send heart-beats before its first frame.
    octets = octets.lstrip(b"\r\n")
    return next((speaker for beginning, speaker in _BEGINNINGS if octets.startswith(beginning)), None)


def speaker_of(octets: bytes) -> str:
    """What speaks like this, for people."""
    found = _speaker(octets[: HINT_OCTETS * 2])
    if found is None:
        return f"something unknown, which begins with {octets[:HINT_OCTETS]!r}"
    return f"{found.name}; {found.more}" if found.more else found.name


def hint_at(seen: bytes, endpoint: Endpoint, *, tls: bool) -> str:
    """What a port is that answered with these octets, and what to do; nothing where it is not known.

    Args:
        seen: The first octets.
        endpoint: Where to.
        tls: Whether TLS was spoken.
    """
    found = _speaker(seen)
    websocket = endpoint.transport is Transport.WEBSOCKET
    hint = ""
    if found is _TLS and not tls:
        hint = f"this is a TLS port: use {'wss' if websocket else 'stomps'}:// or tls="
    elif found is _STOMP and (tls or websocket):
        secured = ", or the broker's port for TLS, usually 61614" if tls else ""
        hint = f"this is a plain STOMP port: use stomp://{secured}"
    elif found is _HTTP and not websocket:
        hint = "this port speaks HTTP: STOMP over WebSocket needs a URL like ws://host:port/ws"
    elif found is _HTTP and tls:
        hint = "this port speaks HTTP without TLS: use ws://, or the port for HTTPS"
    elif found is not None and found not in (_TLS, _STOMP, _HTTP):
        hint = f"this port speaks {found.name}: use the broker's STOMP port"
    return hint and f"; {hint}"


class FirstOctets(trio.abc.Stream):
    """A stream that remembers what came first.

    Attributes:
        seen: The first octets that came.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.seen = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send.

        Cancellation: as that of the stream.
        """
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream may take octets.

        Cancellation: nothing has happened.
        """
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive.

        Cancellation: as that of the stream.
        """
        data = await self._stream.receive_some(max_bytes)
        self.seen += data[: HINT_OCTETS - len(self.seen)]
        return data

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation: as that of the stream.
        """
        await self._stream.aclose()
