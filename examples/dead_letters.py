"""Dead-letter queues: retry failed messages, dead-letter them, inspect them and replay them.

    python examples/dead_letters.py                                         an embedded broker
    python examples/dead_letters.py --url stomp://guest:guest@localhost     your own broker

Six orders arrive. Coffee is not available yet, so orders for coffee are retried three times and then dead-lettered. One
order is invalid, and is dead-lettered at once. Later coffee becomes available, and those orders are replayed. The
invalid order would fail again, so it stays in the dead-letter queue.
"""

from __future__ import annotations

import argparse
import functools
import uuid
from dataclasses import dataclass, field

import trio

import trio_stomp
from trio_stomp.testing import open_broker

ORDERS = ("2 tea", "3 coffee", "1 tea", "a unicorn, please", "4 coffee", "5 tea")
# The number of dead letters to inspect in one round.
BATCH = 100
# How long to wait for another dead letter before the queue counts as empty. STOMP cannot ask for its length.
QUIET_SECONDS = 1.0


class WarehouseClosedError(Exception):
    """The order is valid, but cannot be handled yet."""


# An invalid order stays invalid, so it is not retried.
RETRY = trio_stomp.Retry(attempts=3, first_delay=0.02, retry_on=lambda error: isinstance(error, WarehouseClosedError))


@dataclass
class Shop:
    """Handles the orders.

    Attributes:
        orders: The queue of the orders.
        failed: The dead-letter queue.
        closed_for: The item that is not available.
        awaited: The number of orders that are not finished yet.
        finished: Set when that number is 0.
    """

    orders: str
    failed: str
    closed_for: str | None = None
    awaited: int = 0
    finished: trio.Event = field(default_factory=trio.Event)

    async def handle(self, order: trio_stomp.Message) -> None:
        """Pack an order."""
        number, item = order.text.split(maxsplit=1)
        await trio.lowlevel.checkpoint()
        if item == self.closed_for:
            raise WarehouseClosedError(f"there is no {item} before two o'clock")
        print(f"packed {int(number)} {item}")
        self._deal_with_one()

    def dead_letter_queue(self, order: trio_stomp.Message) -> str:
        """Choose the dead-letter queue of an order."""
        print(f"dead-lettered: {order.text}")
        self._deal_with_one()
        return self.failed

    def _deal_with_one(self) -> None:
        self.awaited -= 1
        if not self.awaited:
            self.finished.set()

    async def work(self, client: trio_stomp.Client, number: int) -> None:
        """Handle the given number of orders."""
        if not number:
            return
        self.awaited, self.finished = number, trio.Event()
        async with client.subscribe(self.orders) as orders, trio.open_nursery() as nursery:
            nursery.start_soon(
                functools.partial(orders.work, self.handle, workers=3, retry=RETRY, dead_letter=self.dead_letter_queue)
            )
            await self.finished.wait()
            # The pool drains: it finishes the messages it has started, including ACKs and dead letters.
            nursery.cancel_scope.cancel()


async def read_to_the_end(failed: trio_stomp.Subscription) -> list[trio_stomp.Message]:
    """Receive the current dead letters. Those that the caller does not settle return to the queue."""
    letters: list[trio_stomp.Message] = []
    with trio.move_on_after(QUIET_SECONDS):
        letters = await failed.receive_batch(BATCH, linger=QUIET_SECONDS / 2)
    return sorted(letters, key=lambda letter: letter.text)


async def look(client: trio_stomp.Client, queue: str) -> None:
    """Print the dead letters with their errors, and leave them in the queue."""
    async with client.subscribe(queue, prefetch=BATCH) as failed:
        for letter in await read_to_the_end(failed):
            why, attempts = letter.headers["x-error-message"], letter.headers["x-attempts"]
            print(f"dead letter: {letter.text} (attempt {attempts}: {why})")


async def replay(client: trio_stomp.Client, queue: str, error_type: str) -> int:
    """Replay the dead letters that failed with one type of error; returns how many."""
    moved = 0
    async with client.subscribe(queue, prefetch=BATCH) as failed:
        for letter in await read_to_the_end(failed):
            if letter.headers["x-error-type"].rpartition(".")[2] != error_type:
                continue
            origin = letter.headers["x-original-destination"]
            async with client.transaction() as tx:  # both or neither
                await tx.send(origin, letter.body, content_type=letter.content_type, persistent=True)
                await tx.ack(letter)
            print(f"replayed: {letter.text}")
            moved += 1
    return moved


async def run(url: str) -> None:
    """Handle orders, inspect the dead letters, fix the cause, and replay them."""
    run_id = uuid.uuid4().hex[:8]
    shop = Shop(f"/queue/dead-letters-{run_id}", f"/queue/dead-letters-{run_id}.failed", closed_for="coffee")
    async with trio_stomp.connect(url) as client:
        async with client.publisher() as publisher:
            for order in ORDERS:
                await publisher.send(shop.orders, order, persistent=True)
        await shop.work(client, len(ORDERS))

        await look(client, shop.failed)

        print("-- the warehouse opens")
        shop.closed_for = None
        await shop.work(client, await replay(client, shop.failed, "WarehouseClosedError"))

        await look(client, shop.failed)


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
