"""The client for synchronous code: the same methods without ``async``, with trio in a background thread.

::

    import trio_stomp.blocking

    with trio_stomp.blocking.connect("stomp://guest:guest@localhost:61613") as client:
        client.send("/queue/orders", b"...", content_type="application/json", receipt=True)
        with client.subscribe("/queue/orders") as orders:
            for message in orders:
                with message:
                    handle(message.json())

Without a block, use `open`::

    client = trio_stomp.blocking.open("stomp://guest:guest@localhost:61613")
    ...
    client.close()
"""

from trio_stomp.blocking.client import Client
from trio_stomp.blocking.connecting import connect, open  # noqa: A004  # it is used as trio_stomp.blocking.open()
from trio_stomp.blocking.message import Message
from trio_stomp.blocking.publisher import Publication, Publisher
from trio_stomp.blocking.states import StateChanges
from trio_stomp.blocking.subscription import Subscription
from trio_stomp.blocking.transaction import Transaction

__all__ = [
    "Client",
    "Message",
    "Publication",
    "Publisher",
    "StateChanges",
    "Subscription",
    "Transaction",
    "connect",
    "open",
]
