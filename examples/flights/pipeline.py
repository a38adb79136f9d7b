"""The pipeline: one producer, workers that route the late flights on, and a counter of those.

Three connections, as three services would have them: a broker that slows down a producer (RabbitMQ and ActiveMQ both
do, by not reading from its connection) must not slow down the workers that make room for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

import trio

import trio_stomp
from flights.ledger import Ledger
from flights.records import DelayReport, Flight

__all__ = ["Goodbye", "Plan", "run_pipeline"]

_JSON = "application/json"
# With one batch on its way to the broker and back, another one is being filled.
_PRODUCERS = 2
# A queue of a run that was killed goes by itself, on the broker that would keep it. Others take it for a plain header.
_QUEUE_HEADERS = {"x-expires": "600000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run does.

    Attributes:
        run: A name of this run's own, so that runs on one broker don't mix.
        workers: How many subscriptions share the work.
        prefetch: How many messages each of them may hold.
        batch: How many flights are confirmed together.
        late_minutes: How late is late.
        patience: After so many seconds in which nothing moved, what has not come is held to be lost.
    """

    run: str
    workers: int
    prefetch: int
    batch: int
    late_minutes: int
    patience: float

    @property
    def queue(self) -> str:
        """Where flights go."""
        return f"/queue/flights-{self.run}"

    @property
    def late_queue(self) -> str:
        """Where late flights go on to."""
        return f"/queue/flights-{self.run}-late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """How a run ended, at the broker.

    Attributes:
        server: What the broker says of itself.
        farewells: How each connection was left.
        left_over: Messages found in the queues afterwards.
    """

    server: str
    farewells: tuple[trio_stomp.Farewell, ...]
    left_over: int


async def run_pipeline(url: str, plan: Plan, flights: Iterable[Flight], ledger: Ledger) -> Goodbye:
    """Send all flights through the broker, until each has come to the end of its way or nothing moves any more.

    Raises:
        ConnectError: There is no such broker, or it does not let us in.
        ExceptionGroup: Of StompError: the broker went away, or refused something.

    Cancellation: the connections are closed at once; what was under way stays in the queues.
    """
    async with (
        trio_stomp.connect(url) as producer,
        trio_stomp.connect(url) as worker,
        trio_stomp.connect(url) as counter,
    ):
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            late = await stack.enter_async_context(_subscribe(counter, plan, plan.late_queue))
            nursery.start_soon(_count_late, late, ledger)
            for _ in range(plan.workers):
                departures = await stack.enter_async_context(_subscribe(worker, plan, plan.queue))
                nursery.start_soon(_work, worker, departures, plan, ledger)
            nursery.start_soon(_produce, producer, plan, flights, ledger)
            await _wait_end(ledger, plan.patience)
            nursery.cancel_scope.cancel()
        # Leaving the block says DISCONNECT too; said here, it tells how it ended.
        farewells = [await client.disconnect() for client in (producer, worker, counter)]
    left_over = await _sweep(url, plan, plan.queue) + await _sweep(url, plan, plan.late_queue)
    return Goodbye(server=worker.server or worker.profile.name, farewells=tuple(farewells), left_over=left_over)


def _subscribe(
    client: trio_stomp.Client, plan: Plan, queue: str
) -> AbstractAsyncContextManager[trio_stomp.Subscription]:
    return client.subscribe(queue, ack="client-individual", prefetch=plan.prefetch, headers=_QUEUE_HEADERS)


async def _wait_end(ledger: Ledger, patience: float) -> None:
    """Wait until all has arrived, or until nothing has moved for `patience` seconds."""
    moves = -1
    while not ledger.finished.is_set() and ledger.moves != moves:
        moves = ledger.moves
        with trio.move_on_after(patience):
            await ledger.finished.wait()


# --- the producer -------------------------------------------------------------------------------------------------


async def _produce(client: trio_stomp.Client, plan: Plan, flights: Iterable[Flight], ledger: Ledger) -> None:
    source = iter(flights)
    async with trio.open_nursery() as nursery:
        for _ in range(_PRODUCERS):
            nursery.start_soon(_send_batches, client, plan, source, ledger)
    ledger.all_sent()


async def _send_batches(client: trio_stomp.Client, plan: Plan, source: Iterator[Flight], ledger: Ledger) -> None:
    """Send batch after batch, each as a transaction: its COMMIT is answered when the broker has all of them."""
    while batch := list(itertools.islice(source, plan.batch)):
        await ledger.wait_room()
        async with client.transaction() as transaction:
            for flight in batch:
                headers = flight.headers() | _QUEUE_HEADERS
                await transaction.send(plan.queue, flight.to_json(), headers=headers, content_type=_JSON)
                ledger.sent += 1
        ledger.confirm(batch)


# --- the workers --------------------------------------------------------------------------------------------------


async def _work(client: trio_stomp.Client, departures: trio_stomp.Subscription, plan: Plan, ledger: Ledger) -> None:
    async for message in departures:
        # Leaving the block acknowledges the message, or refuses it when the block raises.
        async with message:
            report = DelayReport.of_json(message.json())
            late = report.is_late(plan.late_minutes)
            if late:
                await _route(client, plan, message)
        ledger.handle(report, routed=late)


async def _route(client: trio_stomp.Client, plan: Plan, message: trio_stomp.Message) -> None:
    """Move a message to the late queue: it is taken from the one and put into the other, or neither."""
    headers = {name: message.headers[name] for name in ("flight_id", "carrier", "origin")}
    async with client.transaction() as transaction:
        await transaction.ack(message)
        await transaction.send(
            plan.late_queue, message.body, headers=headers | _QUEUE_HEADERS, content_type=message.content_type
        )


async def _count_late(late_departures: trio_stomp.Subscription, ledger: Ledger) -> None:
    async for message in late_departures:
        async with message:
            report = DelayReport.of_json(message.json())
        ledger.count_late(report)


# --- afterwards ---------------------------------------------------------------------------------------------------


async def _sweep(url: str, plan: Plan, queue: str) -> int:
    """Empty a queue, which should be empty; returns how many messages it still held.

    A marker is sent behind everything else. When it comes, nothing is left: no waiting, and no guessing how long.
    """
    left_over = 0
    async with (
        trio_stomp.connect(url) as client,
        _subscribe(client, plan, queue) as rest,
    ):
        await client.send(queue, b"", headers={"marker": "end"} | _QUEUE_HEADERS, receipt=True)
        async for message in rest:
            await message.ack()
            if message.headers.get("marker") == "end":
                break
            left_over += 1
    return left_over
