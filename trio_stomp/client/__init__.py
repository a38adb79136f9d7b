"""The client on trio: one connection and its nursery, subscriptions, messages and transactions."""

from trio_stomp.client.client import Client
from trio_stomp.client.connecting import connect, connect_stream
from trio_stomp.client.publisher import Publisher
from trio_stomp.client.subscription import Subscription
from trio_stomp.client.transaction import Transaction, TransactionState
from trio_stomp.client.work import Retry
from trio_stomp.session import (
    Codec,
    ConnectionState,
    ConnectOptions,
    Decode,
    Farewell,
    HeaderInput,
    Hooks,
    Message,
    ModelClass,
    ObjectDecoder,
    OutgoingMessage,
    Overflow,
    OverflowName,
    Peer,
    Phase,
    Publication,
    Reconnect,
    SendEnd,
    Sending,
    Settlement,
    StateChanges,
    Statistics,
    SubscriptionStatistics,
    TypeValidator,
    resent_body,
)
from trio_stomp.transport import Endpoint, Transport

__all__ = [
    "Client",
    "Codec",
    "ConnectOptions",
    "ConnectionState",
    "Decode",
    "Endpoint",
    "Farewell",
    "HeaderInput",
    "Hooks",
    "Message",
    "ModelClass",
    "ObjectDecoder",
    "OutgoingMessage",
    "Overflow",
    "OverflowName",
    "Peer",
    "Phase",
    "Publication",
    "Publisher",
    "Reconnect",
    "Retry",
    "SendEnd",
    "Sending",
    "Settlement",
    "StateChanges",
    "Statistics",
    "Subscription",
    "SubscriptionStatistics",
    "Transaction",
    "TransactionState",
    "Transport",
    "TypeValidator",
    "connect",
    "connect_stream",
    "resent_body",
]
