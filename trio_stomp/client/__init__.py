"""The client, on trio and on asyncio: its connection, subscriptions, messages and transactions."""

from trio_stomp.client.async_context import with_arguments_of
from trio_stomp.client.client import Client, session_of
from trio_stomp.client.connecting import connect, connect_stream, open  # noqa: A004  # used as trio_stomp.open()
from trio_stomp.client.dead_letters import is_passed_on
from trio_stomp.client.environment import EnvironmentOptions, options_from_environment
from trio_stomp.client.handlers import require_plain
from trio_stomp.client.publisher import Publisher
from trio_stomp.client.subscription import Subscription
from trio_stomp.client.transaction import Transaction, TransactionState
from trio_stomp.client.work import Retry, UnusableError
from trio_stomp.session import (
    BinaryFile,
    BodyFile,
    Codec,
    CommonOptions,
    ConnectionInfo,
    ConnectionState,
    ConnectOptions,
    Credentials,
    Decode,
    DisconnectResult,
    HeaderInput,
    Hooks,
    Message,
    ModelClass,
    ObjectDecoder,
    OutgoingMessage,
    Overflow,
    OverflowName,
    Phase,
    Publication,
    Reconnect,
    SendCallback,
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
    "BinaryFile",
    "BodyFile",
    "Client",
    "Codec",
    "CommonOptions",
    "ConnectOptions",
    "ConnectionInfo",
    "ConnectionState",
    "Credentials",
    "Decode",
    "DisconnectResult",
    "Endpoint",
    "EnvironmentOptions",
    "HeaderInput",
    "Hooks",
    "Message",
    "ModelClass",
    "ObjectDecoder",
    "OutgoingMessage",
    "Overflow",
    "OverflowName",
    "Phase",
    "Publication",
    "Publisher",
    "Reconnect",
    "Retry",
    "SendCallback",
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
    "UnusableError",
    "connect",
    "connect_stream",
    "is_passed_on",
    "open",
    "options_from_environment",
    "require_plain",
    "resent_body",
    "session_of",
    "with_arguments_of",
]
