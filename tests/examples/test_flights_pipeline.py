"""The pipeline against a broker in this process, and what it says when the broker or a stranger misbehaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import flights_demo
import pytest
import trio
import trio.testing
from flights import pipeline
from flights.ledger import Ledger
from flights.pipeline import Goodbye, Plan, run_pipeline
from flights.records import Flight

import trio_stomp
from tests.chaos.looking import wait_until
from trio_stomp import DisconnectResult
from trio_stomp.testing import Broker, BrokerOptions, DropLink, open_broker
from trio_stomp.types import Settlement

TOTAL = 120
# Every tenth of them is late.
LATE = TOTAL // 10
HANG_SECONDS = 120
# Less than what heart-beats bear, twice.
PATIENCE = 8.0


def plan(patience: float = HANG_SECONDS) -> Plan:
    return Plan(run="test", workers=2, prefetch=10, batch=25, late_minutes=60, patience=patience)


def flights() -> Iterator[Flight]:
    for number in range(1, TOTAL + 1):
        delay = 61 if number % 10 == 0 else 60
        yield Flight(id=number, carrier="UA", number=1, origin="EWR", destination="IAH", hour="", delay=delay)


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    async with open_broker() as broker:
        yield broker


async def run(broker: Broker, ledger: Ledger, *, patience: float = HANG_SECONDS) -> Goodbye:
    with trio.fail_after(HANG_SECONDS):
        return await run_pipeline(broker.url, plan(patience), flights(), ledger)


@pytest.mark.parametrize("window", [1, 30, 1000])
async def test_run_pipeline_when_all_is_well_then_every_flight_arrives_once(broker: Broker, window: int) -> None:
    ledger = Ledger(window)
    goodbye = await run(broker, ledger)
    assert ledger.handled.ids == set(range(1, TOTAL + 1))
    assert ledger.late.ids == ledger.routed.ids == set(range(10, TOTAL + 1, 10))
    assert ledger.delays["UA"].late == LATE
    assert (ledger.lost, ledger.doubled, ledger.strangers) == ([], [], [])
    assert goodbye.results == (DisconnectResult.RECEIPT,) * 3
    assert goodbye.left_over == 0
    assert broker.depth(plan().queue) == broker.depth(plan().late_queue) == 0


async def test_run_pipeline_when_somebody_takes_a_message_away_then_it_is_lost(
    broker: Broker, mock_clock: trio.testing.MockClock
) -> None:
    # Time passes as usual, and patience ends as soon as the rest has come: on any machine.
    mock_clock.rate = 1
    ledger = Ledger(1000)
    taken: list[int] = []
    ready = trio.Event()

    async def take_one() -> None:
        async with trio_stomp.connect(broker.url) as client, client.subscribe(plan().queue, prefetch=1) as subscription:
            ready.set()
            message = await anext(subscription)
            await message.ack(receipt=True)
            taken.append(int(message.headers["flight_id"]))

    async def end_patience() -> None:
        def the_rest_has_come() -> bool:
            handled = ledger.handled.ids
            return len(handled) == TOTAL - 1 and ledger.late.ids == {each for each in handled if each % 10 == 0}

        await wait_until(the_rest_has_come)
        # Once to find that something has moved, once to find that nothing has.
        for _ in range(2):
            mock_clock.jump(PATIENCE)
            await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_one)
        await ready.wait()
        nursery.start_soon(end_patience)
        await run(broker, ledger, patience=PATIENCE)
    assert len(taken) == 1
    assert ledger.lost == taken
    assert ledger.doubled == []
    assert not ledger.finished.is_set()


async def test_run_pipeline_when_a_message_is_there_twice_then_it_is_doubled(broker: Broker) -> None:
    ledger = Ledger(1000)
    first = next(flights())
    broker.publish(plan().queue, first.to_json(), list(first.headers().items()))
    await run(broker, ledger)
    assert ledger.doubled == [first.id]
    assert ledger.delays["UA"].flights == TOTAL


async def test_run_pipeline_when_the_link_breaks_then_it_says_so_and_does_not_hang(broker: Broker) -> None:
    broker.faults.plan(DropLink(after_received_bytes=5000), connections=1)
    errors: list[BaseException] = []
    try:
        await run(broker, Ledger(1000))
    except BaseExceptionGroup as group:
        # One or two producers are hit, as it happens.
        errors = list(flights_demo.leaves(group))
    lost = (trio_stomp.ConnectionLost, trio_stomp.TransactionLost, trio_stomp.OutcomeUnknown)
    assert errors
    assert all(isinstance(error, lost) for error in errors)


async def test_route_when_it_is_done_then_the_message_is_out_of_the_one_and_in_the_other(broker: Broker) -> None:
    flight = next(flights())
    broker.publish(plan().queue, flight.to_json(), list(flight.headers().items()))
    async with trio_stomp.connect(broker.url) as client, client.subscribe(plan().queue) as subscription:
        message = await anext(subscription)
        await pipeline._route(client, plan(), message)
        # By the transaction itself: whoever leaves it to `async with message` acknowledges after the COMMIT.
        assert message.settlement is Settlement.ACKED
        assert broker.unacknowledged(plan().queue) == broker.depth(plan().queue) == 0
    (routed,) = broker.messages(plan().late_queue)
    assert routed.body == flight.to_json()
    assert routed.headers["flight_id"] == str(flight.id)


async def test_route_when_the_late_queue_is_full_then_the_message_stays_where_it_was() -> None:
    flight = next(flights())
    async with open_broker(options=BrokerOptions(max_queue_length=1)) as broker:
        broker.publish(plan().late_queue, b"in the way")
        broker.publish(plan().queue, flight.to_json(), list(flight.headers().items()))
        with pytest.raises(trio_stomp.StompError):
            async with trio_stomp.connect(broker.url) as client, client.subscribe(plan().queue) as subscription:
                await pipeline._route(client, plan(), await anext(subscription))
        await broker.wait_until(lambda: not broker.sessions, timeout=60)
        assert [message.body for message in broker.messages(plan().queue)] == [flight.to_json()]
        assert [message.body for message in broker.messages(plan().late_queue)] == [b"in the way"]


async def test_sweep_when_messages_are_left_over_then_it_counts_and_removes_them(broker: Broker) -> None:
    for number in range(3):
        broker.publish(plan().queue, f"{number}")
    assert await pipeline._sweep(broker.url, plan(), plan().queue) == 3
    assert await pipeline._sweep(broker.url, plan(), plan().queue) == 0
    assert broker.depth(plan().queue) == 0
