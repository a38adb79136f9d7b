"""The book of a run: it must see what was lost, doubled or foreign, and know when all is done."""

from __future__ import annotations

import trio
import trio.testing
from flights.delays import CarrierDelays
from flights.ledger import Ledger
from flights.records import DelayReport, Flight


def flights(*numbers: int) -> list[Flight]:
    return [
        Flight(id=number, carrier="UA", number=1, origin="EWR", destination="IAH", hour="", delay=5)
        for number in numbers
    ]


def report(number: int, delay: int | None = 5) -> DelayReport:
    return DelayReport(id=number, carrier="UA", delay=delay)


def test_ledger_when_the_late_message_overtakes_the_commit_then_it_is_finished_all_the_same() -> None:
    ledger = Ledger(10)
    ledger.confirm(flights(1))
    ledger.all_sent()
    ledger.count_late(report(1, 90))
    assert not ledger.finished.is_set()
    ledger.handle(report(1, 90), routed=True)
    assert ledger.finished.is_set()
    assert ledger.strangers == []


def test_ledger_when_a_flight_comes_twice_then_it_is_doubled_and_counted_once() -> None:
    ledger = Ledger(10)
    ledger.confirm(flights(1))
    for _ in range(3):
        ledger.handle(report(1, 90), routed=False)
    ledger.routed.add(1)
    ledger.count_late(report(1, 90))
    ledger.count_late(report(1, 90))
    assert ledger.doubled == [1, 1, 1]
    assert ledger.delays == {"UA": CarrierDelays(flights=1, delay_minutes=90, late=1)}


def test_ledger_when_a_stranger_comes_then_it_makes_up_for_nobody() -> None:
    ledger = Ledger(10)
    ledger.confirm(flights(1))
    ledger.all_sent()
    ledger.handle(report(7), routed=False)
    assert not ledger.finished.is_set()
    assert (ledger.lost, ledger.strangers) == ([1], [7])


async def test_wait_room_when_several_producers_wait_then_all_go_on(autojump_clock: trio.testing.MockClock) -> None:
    """Each made an event of its own once, and all but the last slept for ever."""
    ledger = Ledger(2)
    ledger.confirm(flights(1, 2))
    went_on = 0

    async def producer() -> None:
        nonlocal went_on
        await ledger.wait_room()
        went_on += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(producer)
            await trio.testing.wait_all_tasks_blocked()
            assert went_on == 0
            ledger.handle(report(1), routed=False)
    assert went_on == 3
