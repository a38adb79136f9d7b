"""What needs no extra: a client and the embedded broker."""

from __future__ import annotations

import trio

import trio_stomp
from trio_stomp.testing import open_broker


async def main() -> None:
    async with open_broker() as broker, trio_stomp.connect(broker.url) as client:
        await client.send("/queue/a", b"plain", receipt=True)
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            print((await anext(subscription)).text)


trio.run(main)
