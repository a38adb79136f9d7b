"""The lane: it runs work in order, without a waiting caller, within bounds, and shows failures later."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio

from trio_stomp.bridge import Bridge, Lane
from trio_stomp.errors import ConnectionClosed, StompError

Action = Callable[[], Awaitable[None]]

color = contextvars.ContextVar("color", default="none")


@pytest.fixture
def lane(bridge: Bridge) -> Lane:
    return Lane(bridge)


async def succeed() -> str:
    await trio.lowlevel.checkpoint()
    return "done"


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise StompError("no")


def noting(notes: list[int], number: int) -> Action:
    async def note() -> None:
        await trio.lowlevel.checkpoint()
        notes.append(number)

    return note


def test_actions_when_posted_then_done_in_order(lane: Lane) -> None:
    notes: list[int] = []
    for number in range(1000):
        lane.post(noting(notes, number))
    lane.catch_up()

    assert notes == list(range(1000))
    assert lane.is_empty


def test_actions_when_posted_by_threads_then_each_keeps_its_order(lane: Lane) -> None:
    notes: list[int] = []

    def post_all(start: int) -> None:
        for number in range(start, start + 500):
            lane.post(noting(notes, number))

    threads = [threading.Thread(target=post_all, args=(start,)) for start in (0, 1000, 2000)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    lane.catch_up()

    assert sorted(notes) == [*range(500), *range(1000, 1500), *range(2000, 2500)]
    for start in (0, 1000, 2000):
        mine = [number for number in notes if start <= number < start + 500]
        assert mine == sorted(mine)


def test_posted_when_it_was_done_then_told(bridge: Bridge, lane: Lane) -> None:
    gate = trio.Event()
    first, second = lane.post(gate.wait), lane.post(noting([], 0))

    assert (first.done, second.done, lane.is_empty) == (False, False, False)
    bridge.soon(gate.set)
    lane.catch_up()
    assert (first.done, second.done) == (True, True)


def test_post_when_too_much_waits_then_waits_for_room(bridge: Bridge, lane: Lane) -> None:
    gate = trio.Event()
    posted = threading.Event()
    lane.post(gate.wait, 900_000)

    def post_another() -> None:
        lane.post(noting([], 0), 900_000)
        posted.set()

    another = threading.Thread(target=post_another)
    another.start()
    assert not posted.wait(0.05)
    bridge.soon(gate.set)
    another.join(60)

    assert posted.is_set()


def test_post_when_one_alone_is_larger_than_the_bound_then_taken(lane: Lane) -> None:
    notes: list[int] = []
    lane.post(noting(notes, 1), 10_000_000)
    lane.catch_up()

    assert notes == [1]


def test_post_when_the_bridge_is_closed_then_refused() -> None:
    bridge = Bridge()
    bridge.start()
    lane = Lane(bridge)
    bridge.close()

    for _ in range(2):
        with pytest.raises(ConnectionClosed):
            lane.post(succeed)


def test_call_when_something_was_posted_then_comes_after_it(lane: Lane) -> None:
    notes: list[str] = []

    async def slow() -> None:
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        notes.append("posted")

    async def called() -> None:
        await trio.lowlevel.checkpoint()
        notes.append("called")

    posted = lane.post(slow)
    lane.call(called)

    assert notes == ["posted", "called"]
    assert posted.done


# --- failures -------------------------------------------------------------------------------------------------------


def test_failure_when_posted_then_raised_by_the_next_call_once_and_says_so(bridge: Bridge, lane: Lane) -> None:
    gate, notes = trio.Event(), list[int]()
    lane.post(gate.wait)
    lane.post(fail)
    lane.post(noting(notes, 1))
    bridge.soon(gate.set)

    with pytest.raises(StompError, match="no") as caught:
        lane.call(succeed)

    assert "an earlier call" in caught.value.__notes__[0]
    assert lane.call(succeed) == "done"
    assert notes == [1]


def test_failure_when_it_is_known_then_raised_by_the_next_post(lane: Lane) -> None:
    lane.post(fail)
    lane.call(succeed, raises_earlier=False)

    with pytest.raises(StompError):
        lane.post(succeed)


def test_failure_when_of_a_branch_then_raised_there_alone(lane: Lane) -> None:
    branch = lane.branch()
    branch.post(fail)

    assert lane.call(succeed) == "done"
    with pytest.raises(StompError):
        branch.catch_up()
    branch.catch_up()


# --- the context of the caller --------------------------------------------------------------------------------------


def post_in_red(lane: Lane, action: Action) -> None:
    context = contextvars.copy_context()
    context.run(color.set, "red")
    context.run(lane.post, action)


@pytest.mark.parametrize("keeps", [False, True])
def test_action_when_it_waits_then_sees_the_context_of_its_caller_only_if_asked(bridge: Bridge, *, keeps: bool) -> None:
    lane, seen = Lane(bridge, keeps_context=keeps), list[str]()

    async def look() -> None:
        seen.append(color.get())
        await trio.lowlevel.checkpoint()
        seen.append(color.get())
        color.set("blue")
        await trio.lowlevel.checkpoint()
        seen.append(color.get())

    post_in_red(lane.branch(), look)
    lane.catch_up()

    assert seen == (["red", "red", "blue"] if keeps else ["none", "none", "blue"])
    assert color.get() == "none"


def test_action_when_it_raises_in_its_context_then_that_very_error(bridge: Bridge) -> None:
    lane = Lane(bridge, keeps_context=True)
    post_in_red(lane, fail)

    with pytest.raises(StompError, match="no"):
        lane.catch_up()


def test_action_when_canceled_in_its_context_then_it_may_clean_up(bridge: Bridge) -> None:
    lane, seen = Lane(bridge, keeps_context=True), list[str]()
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            seen.append(color.get())

    post_in_red(lane, wait)
    assert begun.wait(60)
    bridge.close()

    assert seen == ["red"]


def test_action_when_it_catches_what_is_thrown_then_goes_on(bridge: Bridge) -> None:
    lane, seen = Lane(bridge, keeps_context=True), list[str]()

    async def wait() -> None:
        with trio.move_on_after(0):
            await trio.sleep_forever()
        seen.append(color.get())

    post_in_red(lane, wait)
    lane.catch_up()

    assert seen == ["red"]
