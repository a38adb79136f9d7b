"""trio_stomp: the STOMP client for Python, on trio and structured concurrency.

::

    async with trio_stomp.connect("stomp://guest:guest@localhost:61613") as client:
        await client.send("/queue/orders", b"...", content_type="application/json", receipt=True)
        async with client.subscribe("/queue/orders") as orders:
            async for message in orders:
                async with message:
                    handle(message.json())
"""

from trio_stomp.brokers import Profile
from trio_stomp.client import (
    Client,
    ConnectionState,
    ConnectOptions,
    Farewell,
    Message,
    OutgoingMessage,
    Overflow,
    Phase,
    Publication,
    Publisher,
    Reconnect,
    Settlement,
    StateChanges,
    Statistics,
    Subscription,
    SubscriptionStatistics,
    Transaction,
    TransactionState,
    connect,
    connect_stream,
)
from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    ConnectFailure,
    ConnectionClosed,
    ConnectionLost,
    Delivery,
    HeartBeatTimeout,
    LimitExceeded,
    LocalProtocolError,
    NotConfirmed,
    NotSupported,
    OutcomeUnknown,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    StaleMessage,
    StompError,
    SubscriptionOverflow,
    TransactionLost,
    UnconfirmedMessage,
)
from trio_stomp.protocol import AckMode, Headers, HeartBeatTerms, Limits, Version

__all__ = [
    "AckMode",
    "AuthenticationError",
    "BrokerError",
    "Client",
    "ConnectError",
    "ConnectFailure",
    "ConnectOptions",
    "ConnectionClosed",
    "ConnectionLost",
    "ConnectionState",
    "Delivery",
    "Farewell",
    "Headers",
    "HeartBeatTerms",
    "HeartBeatTimeout",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Message",
    "NotConfirmed",
    "NotSupported",
    "OutcomeUnknown",
    "OutgoingMessage",
    "Overflow",
    "Phase",
    "Profile",
    "ProtocolError",
    "Publication",
    "Publisher",
    "Reconnect",
    "RemoteProtocolError",
    "RequestTimeout",
    "Settlement",
    "StaleMessage",
    "StateChanges",
    "Statistics",
    "StompError",
    "Subscription",
    "SubscriptionOverflow",
    "SubscriptionStatistics",
    "Transaction",
    "TransactionLost",
    "TransactionState",
    "UnconfirmedMessage",
    "Version",
    "connect",
    "connect_stream",
]
