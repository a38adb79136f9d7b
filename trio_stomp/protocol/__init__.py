"""STOMP without I/O: bytes to frames to events, and back; for clients and servers.

Versions 1.0, 1.1 and 1.2, and the early draft of 1.0.

No trio, no sockets, no clocks, no randomness: time and ids are arguments.
"""

from trio_stomp.protocol.client_protocol import ClientProtocol
from trio_stomp.protocol.content_types import (
    JSON,
    charset_of,
    is_mime_type,
    is_utf_8_text,
    json_body,
    text_encoding,
    text_of,
)
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.draft import DraftClientProtocol, DraftDecoder, DraftServerProtocol
from trio_stomp.protocol.encoder import encode_frame, encode_heart_beat
from trio_stomp.protocol.events import (
    ClientEvent,
    Connected,
    ConnectRequested,
    ErrorReceived,
    FrameReceived,
    MessagesReceived,
    ReceiptsReceived,
    ServerEvent,
    Violation,
)
from trio_stomp.protocol.frames import BodySink, Command, Frame, Role, SpooledFrame
from trio_stomp.protocol.handshake import ServerInfo, settle
from trio_stomp.protocol.header_rules import missing_header
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.heartbeat_terms import NO_HEART_BEAT, HeartBeatOffer, HeartBeatTerms
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.plain_heads import plain_head
from trio_stomp.protocol.read_only import read_only
from trio_stomp.protocol.redaction import Secrets, is_secret_header
from trio_stomp.protocol.server_protocol import ServerProtocol
from trio_stomp.protocol.subscriptions import AckMode, AckName, ack_headers
from trio_stomp.protocol.tolerances import Tolerances
from trio_stomp.protocol.transitions import TRANSITIONS, Session, State
from trio_stomp.protocol.versions import ALL_VERSIONS, Version, negotiate_as_client, negotiate_as_server

__all__ = [
    "ALL_VERSIONS",
    "JSON",
    "NO_HEART_BEAT",
    "TRANSITIONS",
    "AckMode",
    "AckName",
    "BodySink",
    "ClientEvent",
    "ClientProtocol",
    "Command",
    "ConnectRequested",
    "Connected",
    "Decoder",
    "DraftClientProtocol",
    "DraftDecoder",
    "DraftServerProtocol",
    "ErrorReceived",
    "Frame",
    "FrameReceived",
    "Headers",
    "HeartBeatOffer",
    "HeartBeatTerms",
    "Limits",
    "MessagesReceived",
    "ReceiptsReceived",
    "Role",
    "Secrets",
    "ServerEvent",
    "ServerInfo",
    "ServerProtocol",
    "Session",
    "SpooledFrame",
    "State",
    "Tolerances",
    "Version",
    "Violation",
    "ack_headers",
    "charset_of",
    "encode_frame",
    "encode_heart_beat",
    "is_mime_type",
    "is_secret_header",
    "is_utf_8_text",
    "json_body",
    "missing_header",
    "negotiate_as_client",
    "negotiate_as_server",
    "plain_head",
    "read_only",
    "settle",
    "text_encoding",
    "text_of",
]
