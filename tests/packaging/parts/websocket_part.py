"""What the extra `websocket` brings: both ends of a WebSocket."""

from __future__ import annotations

import trio

import trio_stomp
from trio_stomp.testing import open_broker


async def main() -> None:
    async with open_broker(websocket=True) as broker, trio_stomp.connect(broker.url) as client:
        assert broker.url.startswith("ws://")
        await client.send("/queue/a", b"over a WebSocket", receipt=True)
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            print((await anext(subscription)).text)


trio.run(main)
