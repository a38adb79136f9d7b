"""The pump: actions in order, none waited for, bounded."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator

import pytest
import trio

from trio_stomp.blocking.pump import Pump
from trio_stomp.blocking.trio_thread import TrioThread, open_trio_thread
from trio_stomp.errors import StompError

Action = Callable[[], Awaitable[None]]


@pytest.fixture
def thread() -> Generator[TrioThread]:
    with open_trio_thread() as opened:
        yield opened


@pytest.fixture
def pump(thread: TrioThread) -> Pump:
    pump = Pump(thread)
    thread.serve(pump.run)
    return pump


def no_failure(error: StompError) -> None:
    raise error


def noting(notes: list[int], number: int) -> Action:
    async def note() -> None:
        await trio.lowlevel.checkpoint()
        notes.append(number)

    return note


def finish(pump: Pump, thread: TrioThread) -> None:
    thread.call(lambda: pump.wait_done(pump.newest))


def test_actions_when_added_then_done_in_order(thread: TrioThread, pump: Pump) -> None:
    notes: list[int] = []
    for number in range(1000):
        pump.add(noting(notes, number), 0, no_failure)
    finish(pump, thread)

    assert notes == list(range(1000))


def test_actions_when_added_by_threads_then_each_keeps_its_order(thread: TrioThread, pump: Pump) -> None:
    notes: list[int] = []

    def add_all(start: int) -> None:
        for number in range(start, start + 500):
            pump.add(noting(notes, number), 0, no_failure)

    threads = [threading.Thread(target=add_all, args=(start,)) for start in (0, 1000, 2000)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    finish(pump, thread)

    assert sorted(notes) == [*range(500), *range(1000, 1500), *range(2000, 2500)]
    for start in (0, 1000, 2000):
        mine = [number for number in notes if start <= number < start + 500]
        assert mine == sorted(mine)


def test_number_when_its_action_is_done_then_told(thread: TrioThread, pump: Pump) -> None:
    gate = trio.Event()
    first = pump.add(gate.wait, 0, no_failure)
    second = pump.add(noting([], 0), 0, no_failure)

    assert (pump.is_done(first), pump.is_done(second), pump.newest) == (False, False, second)
    thread.soon(gate.set)
    finish(pump, thread)
    assert (pump.is_done(first), pump.is_done(second)) == (True, True)


def test_action_when_it_fails_then_told_and_the_next_is_done(thread: TrioThread, pump: Pump) -> None:
    failed: list[StompError] = []
    notes: list[int] = []
    error = StompError("no")

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    pump.add(fail, 0, failed.append)
    pump.add(noting(notes, 1), 0, no_failure)
    finish(pump, thread)

    assert failed == [error]
    assert notes == [1]


def test_add_when_the_pump_is_full_then_waits_for_room(thread: TrioThread, pump: Pump) -> None:
    gate = trio.Event()
    added = threading.Event()
    pump.add(gate.wait, 900_000, no_failure)

    def add_another() -> None:
        pump.add(noting([], 0), 900_000, no_failure)
        added.set()

    another = threading.Thread(target=add_another)
    another.start()
    assert not added.wait(0.05)
    assert pump.newest == 1
    thread.soon(gate.set)
    another.join(60)

    assert added.is_set()


def test_add_when_one_alone_is_larger_than_the_bound_then_taken(thread: TrioThread, pump: Pump) -> None:
    notes: list[int] = []
    pump.add(noting(notes, 1), 10_000_000, no_failure)
    finish(pump, thread)

    assert notes == [1]
