"""Those who work while everything breaks: publishers that want receipts, workers that acknowledge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

import trio

import trio_stomp
from tests.chaos.faults import Party
from tests.chaos.ledger import Ledger
from tests.chaos.pacer import Pacer
from tests.chaos.wires import Wire
from trio_stomp import (
    Client,
    Message,
    OutcomeUnknown,
    OutgoingMessage,
    Publication,
    Reconnect,
    StaleMessage,
    Subscription,
    TransactionLost,
)
from trio_stomp.types import Statistics

__all__ = ["HEADERS", "PUBLISHERS", "WORKERS", "Member", "Plant", "at_work"]

# Without it each of the real brokers would lose its messages with itself, and rightly so.
HEADERS: Final = {"persistent": "true"}

_WINDOW: Final = 200
_TASKS: Final = 16
_BATCH: Final = 40
_BATCH_SECONDS: Final = 0.05
_PREFETCH: Final = 100


@dataclass(slots=True, kw_only=True)
class Member:
    """One of the crew.

    Attributes:
        party: Which.
        wire: Its wire to the broker.
        client: Its client, once it is connected.
        moved: How many messages it has had confirmed, or handled.
        port: The port of its wire that its newest connection came by.
        moves: How many times it went on at another port than before.
        last: The counters of its client, when it was about to leave.
    """

    party: Party
    wire: Wire
    client: Client | None = None
    moved: int = 0
    port: int | None = None
    moves: int = 0
    last: Statistics | None = None

    @property
    def reconnections(self) -> int:
        """How many connections have followed its first."""
        return 0 if self.client is None else self.client.statistics().reconnections

    @property
    def healthy(self) -> bool:
        """Whether its messages can flow now."""
        return self.client is not None and self.client.state.healthy

    def is_at(self, port: int) -> bool:
        """Whether its messages can flow now, by that port."""
        return self.healthy and self.port == port

    async def watch(self, client: Client) -> None:
        """Note by which port each connection comes."""
        async for state in client.state_changes():
            if state.healthy and state.endpoint is not None:
                port = int(state.endpoint.rpartition(":")[2])
                self.moves += self.port not in (None, port)
                self.port = port


@dataclass(slots=True, kw_only=True)
class Plant:
    """What the crew works on.

    Attributes:
        queue: Where all messages go, and come from.
        ledger: The book.
        pacer: Who hands out numbers.
        members: The crew.
        closing: Set when all are to leave.
    """

    queue: str
    ledger: Ledger
    pacer: Pacer
    members: Mapping[Party, Member]
    closing: trio.Event = field(default_factory=trio.Event)

    def connect(self, member: Member) -> AbstractAsyncContextManager[Client]:
        """Connect one of the crew, by its wire, with everything as quick as the brokers can bear."""
        return trio_stomp.connect(
            [f"stomp://guest:guest@127.0.0.1:{port}" for port in member.wire.ports],
            heart_beat=(1, 1),
            connect_timeout=4,
            reconnect=Reconnect(first_delay=0.05, max_delay=0.5, stable_after=1, fail_back_after=1),
        )

    def confirmed(self, member: Member, number: int) -> None:
        """The broker has confirmed a message."""
        self.ledger.confirm(number)
        member.moved += 1

    def handle(self, member: Member, message: Message) -> None:
        """What the workers do with a message."""
        self.ledger.handle(message.body, message.stable_id)
        member.moved += 1

    async def tarry(self, member: Member) -> None:
        """Take a while over some messages, so that links are lost between handling and ACK."""
        if member.moved % 10 == 0:
            await trio.sleep(0.1)

    def message(self, number: int) -> OutgoingMessage:
        """The message of that number, which is sent now."""
        self.ledger.sending(number)
        return OutgoingMessage(self.queue, self.ledger.body(number), headers=HEADERS)


async def _publish_in_window(plant: Plant, member: Member, client: Client) -> None:
    """`client.publisher()`: many on their way, their receipts awaited beside."""
    send, receive = trio.open_memory_channel[tuple[int, Publication]](_WINDOW)

    async def await_receipts() -> None:
        async for number, publication in receive:
            await publication.wait()
            plant.confirmed(member, number)

    async with client.publisher(max_in_flight=_WINDOW) as publisher, trio.open_nursery() as nursery, send:
        nursery.start_soon(await_receipts)
        while (number := await plant.pacer.take()) is not None:
            message = plant.message(number)
            publication = await publisher.send(message.destination, message.body, headers=message.headers)
            await send.send((number, publication))


async def _publish_one_by_one(plant: Plant, member: Member, client: Client) -> None:
    """Several tasks, each with one `client.send(receipt=True)` on its way."""

    async def publish() -> None:
        while (number := await plant.pacer.take()) is not None:
            message = plant.message(number)
            await client.send(message.destination, message.body, headers=message.headers, receipt=True)
            plant.confirmed(member, number)

    async with trio.open_nursery() as nursery:
        for _ in range(_TASKS):
            nursery.start_soon(publish)


async def _publish_batches(plant: Plant, member: Member, client: Client) -> None:
    """`client.send_many(receipt=True)`: what the pacer gives within a moment, confirmed as a whole."""
    while (first := await plant.pacer.take()) is not None:
        numbers = [first]
        with trio.move_on_after(_BATCH_SECONDS):
            while len(numbers) < _BATCH and (number := await plant.pacer.take()) is not None:
                numbers.append(number)
        await client.send_many([plant.message(number) for number in numbers], receipt=True)
        for number in numbers:
            plant.confirmed(member, number)


async def _work_in_blocks(plant: Plant, member: Member, subscription: Subscription) -> None:
    """`async with message`: acknowledged when its block ends, and now and then with a receipt within it."""

    async def work() -> None:
        async for message in subscription:
            async with message:
                plant.handle(member, message)
                await plant.tarry(member)
                if member.moved % 25 == 0:
                    with suppress(StaleMessage):
                        await message.ack(receipt=True)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(work)


async def _work_in_batches(plant: Plant, member: Member, subscription: Subscription) -> None:
    """`receive_batch` and `ack_up_to`: a batch whose connection is gone by then comes again."""
    while batch := await subscription.receive_batch(50, linger=0.01):
        for message in batch:
            plant.handle(member, message)
        try:
            await subscription.ack_up_to(batch[-1])
        except StaleMessage:
            continue


async def _work_in_transactions(plant: Plant, member: Member, subscription: Subscription) -> None:
    """`client.transaction` and `tx.ack`: a batch that could not be committed comes again."""
    client = member.client
    assert client is not None
    while batch := await subscription.receive_batch(20, linger=0.01):
        for message in batch:
            plant.handle(member, message)
        try:
            async with client.transaction() as transaction:
                for message in batch:
                    await transaction.ack(message)
                await plant.tarry(member)
        except (StaleMessage, TransactionLost, OutcomeUnknown):
            continue


async def _work_in_pool(plant: Plant, member: Member, subscription: Subscription) -> None:
    """`subscription.work`: a pool that acknowledges what its handler returns from."""

    async def handler(message: Message) -> None:
        plant.handle(member, message)
        await plant.tarry(member)

    await subscription.work(handler, workers=5)


PUBLISHERS: Final[Mapping[Party, Callable[[Plant, Member, Client], Awaitable[None]]]] = {
    Party.WINDOW: _publish_in_window,
    Party.RECEIPTS: _publish_one_by_one,
    Party.BATCHES: _publish_batches,
}
WORKERS: Final[Mapping[Party, Callable[[Plant, Member, Subscription], Awaitable[None]]]] = {
    Party.ITERATION: _work_in_blocks,
    Party.CUMULATIVE: _work_in_batches,
    Party.POOL: _work_in_pool,
    Party.TRANSACTIONS: _work_in_transactions,
}


async def at_work(plant: Plant, member: Member) -> None:
    """Publish until there is nothing left, or handle messages; until the plant closes. Then leave in order."""
    async with plant.connect(member) as client:
        member.client = client
        async with trio.open_nursery() as watching:
            watching.start_soon(member.watch, client)
            if member.party in PUBLISHERS:
                await PUBLISHERS[member.party](plant, member, client)
                # It stays connected: the schedule may still have something for it.
                await plant.closing.wait()
            else:
                # One subscription for each connection: on Artemis a second one can strand what was being delivered.
                async with client.subscribe(plant.queue, prefetch=_PREFETCH) as subscription:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(WORKERS[member.party], plant, member, subscription)
                        await plant.closing.wait()
                        nursery.cancel_scope.cancel()
            watching.cancel_scope.cancel()
        member.last = client.statistics()
