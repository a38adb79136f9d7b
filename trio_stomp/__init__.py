"""trio_stomp: the STOMP client for Python, on trio and asyncio, with structured concurrency.

::

    async with trio_stomp.connect("stomp://guest:guest@localhost:61613") as client:
        await client.send("/queue/orders", b"...", content_type="application/json", receipt=True)
        async with client.subscribe("/queue/orders") as orders:
            async for message in orders:
                async with message:
                    handle(message.json())
"""

from trio_stomp import types as types
from trio_stomp.brokers import QueueArguments
from trio_stomp.client import (
    Client,
    DisconnectResult,
    Hooks,
    Message,
    OutgoingMessage,
    Publication,
    Publisher,
    Reconnect,
    Retry,
    Subscription,
    Transaction,
    connect,
    connect_stream,
    options_from_environment,
)
from trio_stomp.client import (
    open as open,  # noqa: A004  # used as trio_stomp.open(); not in __all__, where it would hide the built-in
)
from trio_stomp.errors import (
    AuthenticationError,
    BodySpoolError,
    BrokerError,
    CommitTimeout,
    ConnectError,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    DeliveryStatus,
    HeartBeatTimeout,
    LimitExceeded,
    LocalProtocolError,
    NotInVersionError,
    NotSupportedError,
    OperationTimeout,
    OutcomeUnknown,
    PoisonMessage,
    PoisonSubscription,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    StaleMessage,
    StompError,
    SubscriptionEnded,
    SubscriptionOverflow,
    TransactionLost,
    UnconfirmedError,
    UnconfirmedTimeout,
)
from trio_stomp.protocol import AckMode, Limits
from trio_stomp.runtime import protect

__version__ = "1.0.0"

__all__ = [
    "AckMode",
    "AuthenticationError",
    "BodySpoolError",
    "BrokerError",
    "Client",
    "CommitTimeout",
    "ConnectError",
    "ConnectionClosed",
    "ConnectionLost",
    "DecodeError",
    "DeliveryStatus",
    "DisconnectResult",
    "HeartBeatTimeout",
    "Hooks",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Message",
    "NotInVersionError",
    "NotSupportedError",
    "OperationTimeout",
    "OutcomeUnknown",
    "OutgoingMessage",
    "PoisonMessage",
    "PoisonSubscription",
    "ProtocolError",
    "Publication",
    "Publisher",
    "QueueArguments",
    "Reconnect",
    "RemoteProtocolError",
    "RequestTimeout",
    "Retry",
    "StaleMessage",
    "StompError",
    "Subscription",
    "SubscriptionEnded",
    "SubscriptionOverflow",
    "Transaction",
    "TransactionLost",
    "UnconfirmedError",
    "UnconfirmedTimeout",
    "connect",
    "connect_stream",
    "options_from_environment",
]

# All of the client; what runs it in a thread handles Ctrl-C in its own way.
protect(
    "trio_stomp.brokers",
    "trio_stomp.client",
    "trio_stomp.protocol",
    "trio_stomp.runtime",
    "trio_stomp.session",
    "trio_stomp.transport",
)
