"""The client on trio: one connection and its nursery, subscriptions, messages and transactions."""

from trio_stomp.client.bodies import Codec, Decode, ModelClass, ObjectDecoder, TypeValidator, resent_body
from trio_stomp.client.client import Client
from trio_stomp.client.farewell import Farewell
from trio_stomp.client.foreign_answers import FirstOctets, is_tls, is_tls_alert, speaker_of
from trio_stomp.client.hooks import Hooks, Peer, SendEnd, Sending
from trio_stomp.client.inbox import Overflow, OverflowName
from trio_stomp.client.lifecycle import connect, connect_stream
from trio_stomp.client.message import Message, Settlement
from trio_stomp.client.options import CommonOptions, ConnectOptions, HeaderInput
from trio_stomp.client.outgoing import OutgoingMessage
from trio_stomp.client.publisher import Publisher
from trio_stomp.client.reconnect import Reconnect
from trio_stomp.client.retrying import Retry
from trio_stomp.client.state import ConnectionState, Phase, StateChanges
from trio_stomp.client.statistics import Statistics, SubscriptionStatistics
from trio_stomp.client.subscription import Subscription
from trio_stomp.client.transaction import Transaction, TransactionState
from trio_stomp.client.unconfirmed import Publication
from trio_stomp.client.urls import Endpoint, Transport

__all__ = [
    "Client",
    "Codec",
    "CommonOptions",
    "ConnectOptions",
    "ConnectionState",
    "Decode",
    "Endpoint",
    "Farewell",
    "FirstOctets",
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
    "is_tls",
    "is_tls_alert",
    "resent_body",
    "speaker_of",
]
