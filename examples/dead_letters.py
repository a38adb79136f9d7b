"""What becomes of messages that cannot be handled: retried, put aside, looked at, and brought back.

    python examples/dead_letters.py                                         an embedded broker
    python examples/dead_letters.py --url stomp://guest:guest@localhost     a broker of your own

Six orders come while the warehouse gives out no coffee, and one of them makes no sense. Coffee is tried three times and
then put aside; what makes no sense is put aside at once. Later the warehouse opens, and the orders that failed of that
are brought back to where they came from. The one that makes no sense would fail again: it stays aside, for a person.
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
# At most so many dead letters are looked at in one round.
BATCH = 100
# How long to wait for one more dead letter before the queue counts as read to its end. STOMP cannot ask how many are
# in a queue.
QUIET_SECONDS = 1.0


class WarehouseClosedError(Exception):
    """There is nothing wrong with the order; it only comes at the wrong time."""


# What makes no sense will make none the next time.
RETRY = trio_stomp.Retry(attempts=3, first_delay=0.02, retry_on=lambda error: isinstance(error, WarehouseClosedError))


@dataclass
class Shop:
    """Who handles the orders.

    Attributes:
        orders: The queue of the orders.
        failed: The queue of those that failed.
        closed_for: What the warehouse does not give out for now.
        awaited: How many orders are not dealt with yet.
        finished: Set when there are none.
    """

    orders: str
    failed: str
    closed_for: str | None = None
    awaited: int = 0
    finished: trio.Event = field(default_factory=trio.Event)

    async def handle(self, order: trio_stomp.Message) -> None:
        """Pack what was ordered."""
        number, item = order.text.split(maxsplit=1)
        await trio.lowlevel.checkpoint()
        if item == self.closed_for:
            raise WarehouseClosedError(f"there is no {item} before two o'clock")
        print(f"packed {int(number)} {item}")
        self._deal_with_one()

    def put_aside(self, order: trio_stomp.Message) -> str:
        """Say where an order goes that failed for good."""
        print(f"put aside: {order.text}")
        self._deal_with_one()
        return self.failed

    def _deal_with_one(self) -> None:
        self.awaited -= 1
        if not self.awaited:
            self.finished.set()

    async def work(self, client: trio_stomp.Client, number: int) -> None:
        """Deal with so many orders."""
        if not number:
            return
        self.awaited, self.finished = number, trio.Event()
        async with client.subscribe(self.orders) as orders, trio.open_nursery() as nursery:
            nursery.start_soon(
                functools.partial(orders.work, self.handle, workers=3, retry=RETRY, dead_letter=self.put_aside)
            )
            await self.finished.wait()
            # The pool drains: what it has begun, acknowledging and putting aside included, it finishes.
            nursery.cancel_scope.cancel()


async def read_to_the_end(failed: trio_stomp.Subscription) -> list[trio_stomp.Message]:
    """Take what is in the queue of dead letters now; who does not settle it leaves it there."""
    letters: list[trio_stomp.Message] = []
    with trio.move_on_after(QUIET_SECONDS):
        letters = await failed.receive_batch(BATCH, linger=QUIET_SECONDS / 2)
    return sorted(letters, key=lambda letter: letter.text)


async def look(client: trio_stomp.Client, queue: str) -> None:
    """Show the dead letters, each with what it failed of, and leave them where they are."""
    async with client.subscribe(queue, prefetch=BATCH) as failed:
        for letter in await read_to_the_end(failed):
            why, attempts = letter.headers["x-error-message"], letter.headers["x-attempts"]
            print(f"dead letter: {letter.text} (attempt {attempts}: {why})")


async def bring_back(client: trio_stomp.Client, queue: str, error_type: str) -> int:
    """Move the dead letters that failed of one thing to where they came from; returns how many."""
    moved = 0
    async with client.subscribe(queue, prefetch=BATCH) as failed:
        for letter in await read_to_the_end(failed):
            if letter.headers["x-error-type"].rpartition(".")[2] != error_type:
                continue
            origin = letter.headers["x-original-destination"]
            async with client.transaction() as tx:  # both or neither: it is never in two places, nor in none
                await tx.send(origin, letter.body, content_type=letter.content_type, persistent=True)
                await tx.ack(letter)
            print(f"brought back: {letter.text}")
            moved += 1
    return moved


async def run(url: str) -> None:
    """Handle orders, look at what failed, mend the cause, and handle the rest."""
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
        await shop.work(client, await bring_back(client, shop.failed, "WarehouseClosedError"))

        await look(client, shop.failed)


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a broker of your own; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
