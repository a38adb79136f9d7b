"""The programs of a run: tasks that send, and tasks that receive, in every way that the client has."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import anyio

from tests.simulation.ledger import Delivery, Entry, Kind, Outcome
from tests.simulation.seams import link_of_client, link_of_message
from trio_stomp import (
    AckMode,
    Client,
    Message,
    NotSupportedError,
    OutgoingMessage,
    Publisher,
    Retry,
    StompError,
    Subscription,
    Transaction,
)
from trio_stomp.types import Phase, Settlement, TransactionState

if TYPE_CHECKING:
    from tests.simulation.scenario import World

__all__ = ["DEAD", "SERVICE", "Consumer", "Job", "Producer"]

SERVICE: Final = "/queue/service"
DEAD: Final = "/queue/dead"

# How many messages one of a publisher's tasks sends, at most.
_MOST_SENDS: Final = 8


class LeaveError(Exception):
    """A program leaves a block."""


class Job:
    """A task of a program. It goes on with the next client where the one before has failed.

    Args:
        world: The run.
        number: Its number.

    Attributes:
        number: Its number.
        now: What it does, for the report of a hang.
        is_done: Whether it has nothing more to do.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.ledger = world.ledger
        self.number = number
        self.chance = random.Random(f"{world.seed}/job/{number}")  # noqa: S311  # not a secret
        self.now = "waits for its client"
        self.is_done = False

    async def run(self, client: Client) -> None:
        """Do its work, until it is done or the client has failed for good."""
        raise NotImplementedError

    def new(
        self, destination: str, kind: Kind, *, size: int = 0, transaction: int = 0, sender: int | None = None
    ) -> Entry:
        """Enter a message that this task is about to send."""
        size = size or self.chance.choice((1, 20, 20, 20, 100, 1500))
        sender, persistent = self.number if sender is None else sender, self.chance.random() < 0.5
        return self.ledger.new(sender, destination, kind, size, persistent=persistent, transaction=transaction)

    @contextmanager
    def sending(self, client: Client, entries: Sequence[Entry], good: Outcome) -> Generator[None]:
        """Note how the sending of messages ends."""
        outcome, before = Outcome.UNKNOWN, link_of_client(client)
        try:
            yield
            outcome = good
        except LeaveError:
            pass
        except StompError as error:
            self.world.failed(self, error)
        finally:
            same = before if link_of_client(client) is before else None
            for entry in entries:
                if entry.outcome is Outcome.OPEN:
                    self.ledger.ended(entry, outcome, same)

    async def send_transaction(
        self,
        client: Client,
        destination: str,
        count: int,
        *,
        leaves: bool = False,
        message: Message | None = None,
        received: Entry | None = None,
        sender: int | None = None,
    ) -> None:
        """Send messages in a transaction, and acknowledge one that was received."""
        number = self.world.new_transaction()
        entries = [self.new(destination, Kind.TRANSACTED, transaction=number, sender=sender) for _ in range(count)]
        transaction: Transaction | None = None
        with self.sending(client, entries, Outcome.CONFIRMED):
            try:
                async with client.transaction() as transaction:
                    for entry in entries:
                        await transaction.send(entry.destination, entry.body, persistent=entry.persistent)
                        await anyio.sleep(self.chance.choice((0, 0, 0.05)))
                    if message is not None:
                        await transaction.ack(message)
                    if leaves:
                        raise LeaveError  # a program may leave a block so
            finally:
                state = TransactionState.ABORTED if transaction is None else transaction.state
                if state is not TransactionState.COMMITTED:
                    unknown = state is TransactionState.UNKNOWN
                    for entry in entries:
                        self.ledger.ended(entry, Outcome.UNKNOWN if unknown else Outcome.NEVER)
                if received is not None and state in (TransactionState.COMMITTED, TransactionState.UNKNOWN):
                    received.handled += 1


class Producer(Job):
    """Sends messages, one way after the other.

    Args:
        world: The run.
        number: Its number.
        destinations: Where to.
        steps: How many times it sends something.
    """

    def __init__(self, world: World, number: int, destinations: Sequence[str], steps: int) -> None:
        super().__init__(world, number)
        self._destinations = destinations
        self._steps = steps
        self._ways: Sequence[Callable[[Client, str], Awaitable[None]]] = (
            self.plain,
            self.plain,
            self.confirmed,
            self.confirmed,
            self.many,
            self.windowed,
            self.windowed,
            self.transacted,
            self.large,
            self.streamed,
            self.request,
        )

    async def run(self, client: Client) -> None:
        """Send until all steps are done."""
        chance = self.chance
        while self._steps and client.state.phase is not Phase.CLOSED:
            self._steps -= 1
            way, destination = chance.choice(self._ways), chance.choice(self._destinations)
            self.now = f"{way.__name__} to {destination}"
            limit = chance.choice((0.0, 0.001, 0.01, 0.1, 1.0)) if chance.random() < self.world.cancels else math.inf
            if limit == math.inf or (self.ledger.is_calm and way == self.streamed):
                await way(client, destination)
            else:
                with anyio.move_on_after(limit):
                    await way(client, destination)
            await anyio.sleep(chance.choice((0, 0, 0.01, 0.3, self.world.pause)))
        self.is_done = not self._steps

    async def plain(self, client: Client, destination: str) -> None:
        """Send without a receipt."""
        entry = self.new(destination, Kind.PLAIN)
        with self.sending(client, [entry], Outcome.SENT):
            await client.send(destination, entry.body, persistent=entry.persistent)

    async def confirmed(self, client: Client, destination: str, size: int = 0) -> None:
        """Send and wait for the RECEIPT."""
        entry = self.new(destination, Kind.CONFIRMED, size=size)
        with self.sending(client, [entry], Outcome.CONFIRMED):
            await client.send(destination, entry.body, persistent=entry.persistent, receipt=True)

    async def large(self, client: Client, destination: str) -> None:
        """Send a body that takes many writes."""
        await self.confirmed(client, destination, self.chance.randrange(5_000, 60_000))

    async def streamed(self, client: Client, destination: str) -> None:
        """Send a body that is read while it is written."""
        confirmed = self.chance.random() < 0.5
        entry = self.new(
            destination, Kind.CONFIRMED if confirmed else Kind.PLAIN, size=self.chance.randrange(100, 20_000)
        )
        body = entry.body

        async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
            for start in range(0, len(body), 4096):
                await anyio.sleep(self.chance.choice((0, 0.01)))
                yield body[start : start + 4096]

        with self.sending(client, [entry], Outcome.CONFIRMED if confirmed else Outcome.SENT):
            await client.send(
                destination, pieces(), content_length=len(body), receipt=confirmed, persistent=entry.persistent
            )

    async def many(self, client: Client, destination: str) -> None:
        """Send many in one call."""
        confirmed = self.chance.random() < 0.5
        kind = Kind.CONFIRMED if confirmed else Kind.PLAIN
        entries = [self.new(destination, kind) for _ in range(self.chance.randrange(1, 8))]
        with self.sending(client, entries, Outcome.CONFIRMED if confirmed else Outcome.SENT):
            await client.send_many(
                [OutgoingMessage(destination, each.body, persistent=each.persistent) for each in entries],
                receipt=confirmed,
            )

    async def windowed(self, client: Client, destination: str) -> None:
        """Send through a publisher, from one task or several, and perhaps leave it early."""
        window, tasks = self.chance.choice((1, 2, 5)), self.chance.choice((1, 1, 3))
        entries = [
            [self.new(destination, Kind.CONFIRMED, sender=1000 * (self.number + 1) + task) for _ in range(count)]
            for task, count in enumerate(self.chance.choices(range(1, _MOST_SENDS), k=tasks))
        ]
        leaves_after = self.chance.choice((math.inf, math.inf, 3))
        errors: list[Exception] = []
        with self.sending(client, list(chain(*entries)), Outcome.CONFIRMED):
            async with client.publisher(max_in_flight=window) as publisher, anyio.create_task_group() as senders:
                for each in entries:
                    senders.start_soon(self._publish, publisher, window, each, leaves_after, errors)
            # What ends one of the tasks must not end the others.
            for error in errors:
                raise error

    async def _publish(
        self, publisher: Publisher, window: int, entries: Sequence[Entry], most: float, errors: list[Exception]
    ) -> None:
        try:
            for number, entry in enumerate(entries):
                if number >= most:
                    errors.append(LeaveError())
                    return
                publication = await publisher.send(entry.destination, entry.body, persistent=entry.persistent)
                if publisher.in_flight > window:
                    self.ledger.trouble("window", f"{publisher.in_flight} messages in a window of {window}")
                if self.chance.random() < 0.3:
                    await publication.wait()
                    self.ledger.ended(entry, Outcome.CONFIRMED)
        except StompError as error:
            errors.append(error)

    async def transacted(self, client: Client, destination: str) -> None:
        """Send in a transaction, and commit it or not."""
        await self.send_transaction(client, destination, self.chance.randrange(1, 5), leaves=self.chance.random() < 0.3)

    async def request(self, client: Client, destination: str) -> None:
        """Send a request, and wait for its reply."""
        del destination
        entry = self.new(SERVICE, Kind.REQUEST)
        with self.sending(client, [entry], Outcome.CONFIRMED):
            reply = await client.request(SERVICE, entry.body, timeout=60, persistent=entry.persistent)
            if reply.body != b"re:%d" % entry.number:
                self.ledger.trouble("phantom", f"the reply to #{entry.number} is {reply.body[:40]!r}")


class Consumer(Job):
    """Receives messages of one queue, one subscription after the other, until the run is over.

    Args:
        world: The run.
        number: Its number.
        destination: The queue.
        onward: Where it sends messages in transactions.
    """

    def __init__(self, world: World, number: int, destination: str, onward: str | None) -> None:
        super().__init__(world, number)
        self._destination = destination
        self._onward = onward
        self._subscriptions = 0
        # What was taken from the current subscription.
        self._taken: list[tuple[Message, Delivery]] = []
        self._ways: Sequence[Callable[[Client, Subscription], Awaitable[None]]] = (
            self.iterate,
            self.iterate,
            self.batches,
            self.several,
            self.work,
        )

    async def run(self, client: Client) -> None:
        """Receive until canceled."""
        chance = self.chance
        while client.state.phase is not Phase.CLOSED:
            is_auto = self._destination in self.ledger.auto
            way = chance.choice(self._ways[:-1] if is_auto else self._ways)
            ack = AckMode.AUTO if is_auto else AckMode.CLIENT_INDIVIDUAL
            # An ACK in the other mode is for all earlier messages too, those that other tasks hold among them.
            if not is_auto and way not in (self.several, self.work) and chance.random() < 0.3:
                ack = AckMode.CLIENT
            self.now = f"{way.__name__} from {self._destination} in mode {ack}"
            self._subscriptions += 1
            try:
                with anyio.move_on_after(chance.choice((math.inf, 5, 1, 0.1)) if not self.ledger.is_calm else math.inf):
                    async with client.subscribe(
                        self._destination, ack=ack, prefetch=chance.choice((1, 2, 10, 100))
                    ) as s:
                        await way(client, s)
            except LeaveError:
                pass
            except StompError as error:
                self.world.failed(self, error)
            finally:
                for message, delivery in self._taken:
                    delivery.settled = message.settlement in (Settlement.ACKED, Settlement.AUTO)
                self._taken.clear()
            await anyio.sleep(chance.choice((0, 0.01, 0.5)))

    def _take(self, message: Message) -> Entry | None:
        """Enter a delivery."""
        subscription = (self.number, self._subscriptions)
        delivery = Delivery(link_of_message(message), subscription, redelivered=message.redelivered)
        self._taken.append((message, delivery))
        return self.ledger.delivered(message.body, self._destination, delivery)

    def _leaves_after(self, some: Sequence[float]) -> float:
        # What has come in auto mode and is not taken is lost when it is left.
        stays = self.ledger.is_calm and self._destination in self.ledger.auto
        return math.inf if stays else self.chance.choice((math.inf, *some))

    async def iterate(self, client: Client, subscription: Subscription) -> None:
        """Take messages one by one, and leave after some."""
        left = self._leaves_after((1, 5, 30))
        async for message in subscription:
            entry = self._take(message)
            await self._handle(client, message, entry)
            left -= 1
            if left <= 0:
                return

    async def several(self, client: Client, subscription: Subscription) -> None:
        """Take messages in several tasks, of which all but one stop waiting now and then, and soon for good."""
        async with anyio.create_task_group() as tasks:
            for task, rounds in enumerate((math.inf, 5, 5, 5)):
                # Each sends in an order of its own.
                sender = 1000 * (self.number + 1) + task
                tasks.start_soon(self._take_some, client, subscription, rounds, sender, tasks.cancel_scope)

    async def _take_some(
        self, client: Client, subscription: Subscription, rounds: float, sender: int, scope: anyio.CancelScope
    ) -> None:
        limits = (math.inf,) if rounds == math.inf else (0.001, 0.01, 0.05, 0.2)
        try:
            while rounds > 0:
                message = None
                with anyio.move_on_after(self.chance.choice(limits)):
                    message = await anext(subscription)
                if message is not None:
                    await self._handle(client, message, self._take(message), sender)
                rounds -= 1
        except (LeaveError, StopAsyncIteration):
            scope.cancel()
        except StompError as error:
            self.world.failed(self, error)
            scope.cancel()

    async def batches(self, client: Client, subscription: Subscription) -> None:
        """Take messages many at a time."""
        left = self._leaves_after((2, 10))
        while batch := await subscription.receive_batch(
            self.chance.choice((1, 3, 100)), linger=self.chance.choice((0, 0.05))
        ):
            entries = [self._take(message) for message in batch]
            if self._destination in self.ledger.auto or self._destination == SERVICE:
                for message, entry in zip(batch, entries, strict=True):
                    await self._handle(client, message, entry)
            else:
                await self._pause()
                for entry in filter(None, entries):
                    entry.handled += 1
                await self._settle(partial(subscription.ack_up_to, batch[-1]))
            left -= 1
            if left <= 0:
                return

    async def work(self, client: Client, subscription: Subscription) -> None:
        """Let a pool of workers take messages; some handlers fail once, some for good."""
        chance = self.chance
        seen: set[int] = set()

        async def handle(message: Message) -> None:
            entry = self.ledger.find(message.body, self._destination)
            # A handler gets a message again after it has failed.
            if id(message) not in seen:
                seen.add(id(message))
                self._take(message)
            await self._pause()
            if entry is not None and self._destination != SERVICE and chance.random() < 0.1:
                entry.has_failed = True
                raise LeaveError
            await self._reply(client, message, entry)
            if entry is not None:
                entry.handled += 1

        await subscription.work(
            handle,
            workers=chance.choice((1, 3)),
            key=lambda message: self._sender_of(message.body),
            retry=Retry(attempts=2, first_delay=0.1, random=chance.random),
            dead_letter=DEAD,
            report_blocking_after=math.inf,
        )

    def _sender_of(self, body: bytes) -> int:
        entry = self.ledger.find(body, self._destination)
        return -1 if entry is None else entry.sender

    async def _handle(self, client: Client, message: Message, entry: Entry | None, sender: int | None = None) -> None:
        """Handle a message, and settle it in one of many ways."""
        await self._pause()
        chance = self.chance
        if message.settlement is Settlement.AUTO:
            if entry is not None:
                entry.handled += 1
            return
        await self._reply(client, message, entry)
        way = chance.choice(("ack", "ack", "ack", "block", "block", "receipt", "nack", "fail", "transaction", "keep"))
        if (
            way == "transaction"
            and self._onward is not None
            and message.subscription.ack_mode is AckMode.CLIENT_INDIVIDUAL
        ):
            await self.send_transaction(client, self._onward, 1, message=message, received=entry, sender=sender)
        elif way == "fail" and client.profile.name != "ActiveMQ Artemis" and self._destination != SERVICE:
            raise LeaveError
        elif way == "nack" and self._destination != SERVICE:
            await self._settle(message.nack)
        else:
            if entry is not None:
                entry.handled += 1
            if way == "block":
                async with message:
                    await self._pause()
            else:
                await self._settle(partial(message.ack, receipt=way == "receipt"))

    async def _settle(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Acknowledge or refuse, or see that it is too late for that."""
        try:
            await settle()
        except NotSupportedError:
            # The broker would drop the message: it stays unsettled until the subscription is left.
            raise LeaveError from None
        except StompError as error:
            self.world.failed(self, error)

    async def _reply(self, client: Client, message: Message, entry: Entry | None) -> None:
        """Answer a request."""
        to = message.headers.get("reply-to")
        if entry is None or to is None or entry.kind is not Kind.REQUEST:
            return
        if message.redelivered and not self.ledger.is_calm:
            # The ERROR for a requester that has gone may have ended the last client, and would end each one.
            return
        if entry.outcome is not Outcome.OPEN and self.ledger.is_calm:
            # The same ERROR, for one that has canceled its request and left.
            return
        try:
            await client.send(
                to, b"re:%d" % entry.number, headers={"correlation-id": message.headers["correlation-id"]}
            )
        except StompError as error:
            self.world.failed(self, error)

    async def _pause(self) -> None:
        await anyio.sleep(self.chance.choice((0, 0, 0, 0.01, 0.2)))
