"""What the extra `proxy` brings: connections through the proxies that are named as arguments."""

from __future__ import annotations

import sys

import trio

import trio_stomp
from trio_stomp.testing import open_broker


async def main() -> None:
    async with open_broker() as broker:
        for proxy in sys.argv[1:]:
            async with trio_stomp.connect(f"stomp://guest:guest@localhost:{broker.port}", proxy=proxy) as client:
                await client.send("/queue/a", proxy.encode(), receipt=True)
        for message in broker.messages("/queue/a"):
            print(message.body.decode())


trio.run(main)
