"""From a URL to a connected byte stream: TCP, TLS, WebSocket, Unix sockets and proxies."""

from trio_stomp.transport.byte_streams import as_trio_stream
from trio_stomp.transport.direct_socket import direct_read, direct_write
from trio_stomp.transport.foreign_answers import HINT_OCTETS, FirstOctets, hint_at, is_tls, is_tls_alert, speaker_of
from trio_stomp.transport.opening import open_transport
from trio_stomp.transport.options import TransportOptions
from trio_stomp.transport.proxies import Proxy
from trio_stomp.transport.steps import StepFailed, Steps
from trio_stomp.transport.tls import LOAD_CERTIFICATE, tls_failure
from trio_stomp.transport.urls import Endpoint, Transport
from trio_stomp.transport.websocket_messages import SMALLEST_MESSAGE_OCTETS, MessageStream

__all__ = [
    "HINT_OCTETS",
    "LOAD_CERTIFICATE",
    "SMALLEST_MESSAGE_OCTETS",
    "Endpoint",
    "FirstOctets",
    "MessageStream",
    "Proxy",
    "StepFailed",
    "Steps",
    "Transport",
    "TransportOptions",
    "as_trio_stream",
    "direct_read",
    "direct_write",
    "hint_at",
    "is_tls",
    "is_tls_alert",
    "open_transport",
    "speaker_of",
    "tls_failure",
]
