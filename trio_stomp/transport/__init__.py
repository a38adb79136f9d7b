"""From a URL to a connected byte stream: TCP, TLS, WebSocket, Unix sockets and proxies."""

from trio_stomp.transport.diagnosis import (
    HINT_BYTES,
    StepFailed,
    Steps,
    closed_before_connected,
    connect_refused,
    for_command_line,
    for_spark,
    hint_at,
    tls_failure,
)
from trio_stomp.transport.opening import has_addresses, open_transport
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.proxy import Proxy
from trio_stomp.transport.tcp import Address, failure_of_all, look_up, open_tcp
from trio_stomp.transport.tls_stream import TlsStream
from trio_stomp.transport.urls import OWN_STREAM, Endpoint, Transport, UrlParts
from trio_stomp.transport.websocket_messages import SMALLEST_MESSAGE_BYTES, MessageStream

__all__ = [
    "HINT_BYTES",
    "OWN_STREAM",
    "SMALLEST_MESSAGE_BYTES",
    "Address",
    "Endpoint",
    "MessageStream",
    "Proxy",
    "StepFailed",
    "Steps",
    "TlsStream",
    "Transport",
    "TransportOptions",
    "UrlParts",
    "closed_before_connected",
    "connect_refused",
    "failure_of_all",
    "for_command_line",
    "for_spark",
    "has_addresses",
    "hint_at",
    "look_up",
    "open_tcp",
    "open_transport",
    "tls_failure",
]
