"""One connection to a broker, and the session that outlives it."""

from trio_stomp.session.acks import AckTracker, TransactedAcks, tracker_of
from trio_stomp.session.bodies import Codec, Decode, ModelClass, ObjectDecoder, TypeValidator, codec_of, resent_body
from trio_stomp.session.body_source import IN_MEMORY, BinaryFile, BodyFile, BodySource, open_source
from trio_stomp.session.buffer import Inbox, Overflow, OverflowName
from trio_stomp.session.connection import Connection
from trio_stomp.session.failures import add_note, mark_raised, renewed
from trio_stomp.session.hooks import ConnectionInfo, Hooks, SendCallback, Sending
from trio_stomp.session.limits import Limit, checked_seconds, limit_of
from trio_stomp.session.message import Message, Settlement, Source, close_body
from trio_stomp.session.outgoing import (
    EncodeValue,
    HeaderInput,
    OutgoingMessage,
    Parts,
    completed,
    header_pairs,
    message_of,
    parts_of,
)
from trio_stomp.session.receipts import Publication, Receipt, Window, unconfirmed
from trio_stomp.session.reconnecting import first_link, supervise
from trio_stomp.session.send import (
    ask,
    checked,
    note_torn,
    note_unconfirmed,
    own_header,
    post,
    post_source,
    prepare,
    publish,
    send_confirmed,
    send_confirmed_at_once,
    send_prepared,
    send_reply,
    send_source,
    size_of,
)
from trio_stomp.session.session import Session
from trio_stomp.session.settings import (
    CommonOptions,
    ConnectOptions,
    Credentials,
    Reconnect,
    Settings,
    check_delays,
    full_jitter,
    uniform,
)
from trio_stomp.session.spool import CHUNK_BYTES
from trio_stomp.session.state import ConnectionState, DisconnectResult, Phase, StateChanges
from trio_stomp.session.statistics import Statistics, SubscriptionStatistics
from trio_stomp.session.subscription_state import Registration, SubscriptionOptions
from trio_stomp.session.suspicion import WHY_BROKERS_CLOSE

__all__ = [
    "CHUNK_BYTES",
    "IN_MEMORY",
    "WHY_BROKERS_CLOSE",
    "AckTracker",
    "BinaryFile",
    "BodyFile",
    "BodySource",
    "Codec",
    "CommonOptions",
    "ConnectOptions",
    "Connection",
    "ConnectionInfo",
    "ConnectionState",
    "Credentials",
    "Decode",
    "DisconnectResult",
    "EncodeValue",
    "HeaderInput",
    "Hooks",
    "Inbox",
    "Limit",
    "Message",
    "ModelClass",
    "ObjectDecoder",
    "OutgoingMessage",
    "Overflow",
    "OverflowName",
    "Parts",
    "Phase",
    "Publication",
    "Receipt",
    "Reconnect",
    "Registration",
    "SendCallback",
    "Sending",
    "Session",
    "Settings",
    "Settlement",
    "Source",
    "StateChanges",
    "Statistics",
    "SubscriptionOptions",
    "SubscriptionStatistics",
    "TransactedAcks",
    "TypeValidator",
    "Window",
    "add_note",
    "ask",
    "check_delays",
    "checked",
    "checked_seconds",
    "close_body",
    "codec_of",
    "completed",
    "first_link",
    "full_jitter",
    "header_pairs",
    "limit_of",
    "mark_raised",
    "message_of",
    "note_torn",
    "note_unconfirmed",
    "open_source",
    "own_header",
    "parts_of",
    "post",
    "post_source",
    "prepare",
    "publish",
    "renewed",
    "resent_body",
    "send_confirmed",
    "send_confirmed_at_once",
    "send_prepared",
    "send_reply",
    "send_source",
    "size_of",
    "supervise",
    "tracker_of",
    "unconfirmed",
    "uniform",
]
