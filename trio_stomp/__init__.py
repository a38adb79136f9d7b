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
    ConnectOptions,
    Farewell,
    Message,
    Overflow,
    Settlement,
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
    HeartBeatTimeout,
    LimitExceeded,
    LocalProtocolError,
    NotSupported,
    OutcomeUnknown,
    ProtocolError,
    RemoteProtocolError,
    StaleMessage,
    StompError,
    SubscriptionOverflow,
    TransactionLost,
)
from trio_stomp.protocol import Headers, Limits

__all__ = [
    "AuthenticationError",
    "BrokerError",
    "Client",
    "ConnectError",
    "ConnectFailure",
    "ConnectOptions",
    "ConnectionClosed",
    "ConnectionLost",
    "Farewell",
    "Headers",
    "HeartBeatTimeout",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Message",
    "NotSupported",
    "OutcomeUnknown",
    "Overflow",
    "Profile",
    "ProtocolError",
    "RemoteProtocolError",
    "Settlement",
    "StaleMessage",
    "Statistics",
    "StompError",
    "Subscription",
    "SubscriptionOverflow",
    "SubscriptionStatistics",
    "Transaction",
    "TransactionLost",
    "TransactionState",
    "connect",
    "connect_stream",
]
