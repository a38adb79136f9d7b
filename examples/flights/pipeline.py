"""The pipeline: one producer, workers that route late flights, and a counter of those.

Each has its own connection, like separate services: when a broker slows down a producer (RabbitMQ and ActiveMQ stop
reading from its connection), the workers must continue.
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
# While one batch is being confirmed, the next one is filled.
_PRODUCERS = 2
# Deletes the queue of a killed run on RabbitMQ; other brokers ignore the header.
_QUEUE_HEADERS = {"x-expires": "600000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a run.

    Attributes:
        run: A unique name, so that runs on one broker do not mix.
        workers: How many subscriptions share the work.
        prefetch: The prefetch of each subscription.
        batch: The number of flights per transaction.
        late_minutes: Flights with a longer delay are late.
        patience: Seconds without progress before missing flights count as lost.
    """

    run: str
    workers: int
    prefetch: int
    batch: int
    late_minutes: int
    patience: float

    @property
    def queue(self) -> str:
        """The queue of all flights."""
        return f"/queue/flights-{self.run}"

    @property
    def late_queue(self) -> str:
        """The queue of late flights."""
        return f"/queue/flights-{self.run}-late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """How the connections of a run ended.

    Attributes:
        server: The name and version of the broker.
        results: How each connection ended.
        left_over: Messages found in the queues afterward.
    """

    server: str
    results: tuple[trio_stomp.DisconnectResult, ...]
    left_over: int


async def run_pipeline(url: str, plan: Plan, flights: Iterable[Flight], ledger: Ledger) -> Goodbye:
    """Send all flights through the broker, until each is processed or there is no more progress.

    Raises:
        ConnectError: The broker is unreachable, or refuses the login.
        ExceptionGroup: Of StompError: the connection was lost, or the broker refused a frame.

    Cancellation: the connections are closed at once; unprocessed flights stay in the queues.
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
        # Leaving the block disconnects too, but does not return how that ended.
        results = [await client.disconnect() for client in (producer, worker, counter)]
    left_over = await _sweep(url, plan, plan.queue) + await _sweep(url, plan, plan.late_queue)
    return Goodbye(server=worker.server or worker.profile.name, results=tuple(results), left_over=left_over)


def _subscribe(
    client: trio_stomp.Client, plan: Plan, queue: str
) -> AbstractAsyncContextManager[trio_stomp.Subscription]:
    return client.subscribe(queue, ack="client-individual", prefetch=plan.prefetch, headers=_QUEUE_HEADERS)


async def _wait_end(ledger: Ledger, patience: float) -> None:
    """Wait until every flight has arrived, or until there is no progress for `patience` seconds."""
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
    """Send batches, each in a transaction whose COMMIT the broker confirms."""
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
        # The block sends ACK if it succeeds, and NACK if it raises.
        async with message:
            report = DelayReport.of_json(message.json())
            late = report.is_late(plan.late_minutes)
            if late:
                await _route(client, plan, message)
        ledger.handle(report, routed=late)


async def _route(client: trio_stomp.Client, plan: Plan, message: trio_stomp.Message) -> None:
    """Move a message to the late queue, in one transaction."""
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


# --- afterward ----------------------------------------------------------------------------------------------------


async def _sweep(url: str, plan: Plan, queue: str) -> int:
    """Empty a queue; returns the number of messages, which should be 0.

    A marker is sent last. When it arrives, the queue is empty, without guessing how long to wait.
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
