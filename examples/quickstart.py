"""Send, receive, and move a message in a transaction, with the embedded broker.

python examples/quickstart.py
"""

from __future__ import annotations

import trio

import trio_stomp
from trio_stomp.testing import open_broker


async def main() -> None:
    """Send two orders, handle one, and turn the other into an invoice."""
    async with open_broker() as broker, trio_stomp.connect(broker.url) as client:
        for number in (1, 2):
            # Returns once the broker has confirmed the message.
            await client.send("/queue/orders", json={"order": number}, receipt=True)

        async with client.subscribe("/queue/orders") as orders:
            async for message in orders:
                async with message:  # ACK if the block succeeds, NACK if it raises
                    print("handled", message.json())
                break

            message = await anext(orders)
            async with client.transaction() as tx:  # both or neither
                await tx.send("/queue/invoices", message.body, content_type=message.content_type)
                await tx.ack(message)

        print("orders left:", broker.depth("/queue/orders"), "- invoices:", broker.depth("/queue/invoices"))


if __name__ == "__main__":
    trio.run(main)
