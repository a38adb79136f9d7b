"""How to reach a broker: the part of the options of `connect` that concerns the stream."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from trio_stomp.protocol import ALL_VERSIONS, Version
from trio_stomp.transport.proxy import Proxy
from trio_stomp.transport.urls import Endpoint

__all__ = ["Dial", "TransportOptions"]

# Gives what `as_byte_stream` takes.
Dial = Callable[[Endpoint], Awaitable[object]]


# Never created itself: what derives from it has methods of its own, for these fields too.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class TransportOptions:
    """How to open the stream to a host.

    Attributes:
        tls: A context, or True for Python's default one; False: the URL decides.
        open_stream: Opens the stream instead of TCP.
        proxy: The proxy to connect through.
        versions: Versions of STOMP to offer as subprotocols of a WebSocket.
        websocket_headers: More headers for the HTTP request that opens a WebSocket.
    """

    tls: ssl.SSLContext | bool = False
    open_stream: Dial | None = None
    proxy: Proxy | None = None
    versions: tuple[Version, ...] = ALL_VERSIONS
    websocket_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def uses_tls(self, endpoint: Endpoint) -> bool:
        """Whether to speak TLS to a host: there is no fallback from it."""
        return endpoint.tls or bool(self.tls)
