"""The client for synchronous code: the same verbs without ``async``, on trio in a thread of its own.

::

    import trio_stomp.blocking

    with trio_stomp.blocking.connect("stomp://guest:guest@localhost:61613") as client:
        client.send("/queue/orders", b"...", content_type="application/json", receipt=True)
        with client.subscribe("/queue/orders") as orders:
            for message in orders:
                with message:
                    handle(message.json())
"""

from trio_stomp.blocking.opening import connect
from trio_stomp.blocking.sync_client import Client
from trio_stomp.blocking.sync_message import Message
from trio_stomp.blocking.sync_publisher import Publication, Publisher
from trio_stomp.blocking.sync_states import StateChanges
from trio_stomp.blocking.sync_subscription import Subscription
from trio_stomp.blocking.sync_transaction import Transaction

__all__ = [
    "Client",
    "Message",
    "Publication",
    "Publisher",
    "StateChanges",
    "Subscription",
    "Transaction",
    "connect",
]
