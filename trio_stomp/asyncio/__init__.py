"""The client for asyncio code: the same methods, with trio in a background thread.

::

    import trio_stomp.asyncio

    async with trio_stomp.asyncio.connect("stomp://guest:guest@localhost:61613") as client:
        await client.send("/queue/orders", b"...", content_type="application/json", receipt=True)
        async with client.subscribe("/queue/orders") as orders:
            async for message in orders:
                async with message:
                    handle(message.json())

For frameworks that call one function at startup and another at shutdown, use `open`::

    client = await trio_stomp.asyncio.open("stomp://guest:guest@localhost:61613")
    ...
    await client.aclose()
"""

from trio_stomp.asyncio.client import Client
from trio_stomp.asyncio.connecting import connect, open  # noqa: A004  # it is used as trio_stomp.asyncio.open()
from trio_stomp.asyncio.message import Message
from trio_stomp.asyncio.publisher import Publication, Publisher
from trio_stomp.asyncio.states import StateChanges
from trio_stomp.asyncio.subscription import Subscription
from trio_stomp.asyncio.transaction import Transaction

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
