"""What the extra `otel` brings: hooks that a client takes, without an SDK too."""

from __future__ import annotations

import trio

import trio_stomp
import trio_stomp.otel
from trio_stomp.testing import open_broker


async def main() -> None:
    hooks = trio_stomp.otel.OpenTelemetryHooks()
    async with open_broker() as broker, trio_stomp.connect(broker.url, hooks=hooks) as client:
        await client.send("/queue/a", b"traced", receipt=True)
        async with client.subscribe("/queue/a") as subscription:
            async with await anext(subscription) as message:
                print(message.text)


trio.run(main)
