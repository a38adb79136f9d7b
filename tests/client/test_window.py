"""The window of a publisher: numbers, and who waits for room."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_stomp.errors import ConnectionLost
from trio_stomp.session.unconfirmed import Publication, Unconfirmed
from trio_stomp.session.window import Window


def book() -> Unconfirmed:
    return Unconfirmed(max_messages=1000, max_octets=100_000)


def publish(unconfirmed: Unconfirmed, window: Window[Publication], octets: int = 10) -> Publication:
    return Publication(unconfirmed, unconfirmed.new_receipt_id(), "/queue/a", octets, b"", window)


@pytest.mark.parametrize(
    ("messages", "octets", "added", "next_octets", "has_room"),
    [
        (2, 100, [], 10, True),
        (2, 100, [10], 10, True),
        (2, 100, [10, 10], 10, False),
        (2, 100, [60], 41, False),
        (2, 100, [60], 40, True),
        # One that is larger than all goes by itself.
        (2, 100, [], 1000, True),
        (2, 100, [1000], 0, False),
    ],
)
def test_room_when_messages_are_on_their_way_then_as_the_bounds_say(
    messages: int, octets: int, added: list[int], next_octets: int, has_room: bool
) -> None:
    unconfirmed, window = book(), Window[Publication](messages, octets)
    for each in added:
        publish(unconfirmed, window, each)
    assert window.has_room(next_octets) is has_room


def test_counts_when_messages_are_confirmed_refused_and_given_up_then_they_add_up() -> None:
    unconfirmed, window = book(), Window[Publication](10, 1000)
    sent = [publish(unconfirmed, window) for _ in range(4)]
    unconfirmed.confirm([sent[2].receipt_id, sent[0].receipt_id, "nobody"])
    assert (window.in_flight, window.octets, window.confirmed, window.failed) == (2, 20, 2, {})
    sent[1].refused(ConnectionLost("no"))
    sent[3].give_up()
    sent[3].give_up()
    assert (window.in_flight, window.octets, window.confirmed) == (0, 0, 2)
    assert window.take_failed() == [sent[1], sent[3]]
    assert (len(unconfirmed), unconfirmed.octets) == (0, 0)


async def test_wait_when_many_are_confirmed_at_once_then_the_sender_is_woken_once() -> None:
    unconfirmed, window = book(), Window[Publication](4, 1000)
    sent = [publish(unconfirmed, window) for _ in range(4)]
    in_flight: list[int] = []

    async def wait() -> None:
        await window.wait_for_room(10)
        in_flight.append(window.in_flight)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        unconfirmed.confirm([each.receipt_id for each in sent[:3]])
    assert in_flight == [1]


async def test_wait_when_octets_are_freed_little_by_little_then_it_ends_when_they_suffice() -> None:
    unconfirmed, window = book(), Window[Publication](10, 100)
    sent = [publish(unconfirmed, window, 40) for _ in range(2)]
    ended = trio.Event()

    async def wait() -> None:
        await window.wait_for_room(90)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        unconfirmed.confirm([sent[0].receipt_id])
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        unconfirmed.confirm([sent[1].receipt_id])


async def test_wait_empty_when_the_last_is_settled_then_it_returns_whatever_became_of_it() -> None:
    unconfirmed, window = book(), Window[Publication](10, 100)
    first, last = (publish(unconfirmed, window) for _ in range(2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.wait_empty)
        nursery.start_soon(window.wait_empty)
        await trio.testing.wait_all_tasks_blocked()
        unconfirmed.confirm([first.receipt_id])
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2
        last.lost(ConnectionLost("gone"))
    assert window.take_failed() == [last]


async def test_wait_when_receipts_come_one_by_one_then_the_sender_sleeps_until_a_good_part_is_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    unconfirmed, window = book(), Window[Publication](40, 1000)
    sent = [publish(unconfirmed, window) for _ in range(40)]
    in_flight: list[int] = []

    async def wait() -> None:
        await window.wait_for_room(10)
        in_flight.append(window.in_flight)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for each in sent[:15]:
            await trio.testing.wait_all_tasks_blocked()
            unconfirmed.confirm([each.receipt_id])
    assert in_flight == [30]


async def test_wait_when_the_rest_is_never_confirmed_then_the_sender_goes_on_with_the_room_that_there_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    unconfirmed, window = book(), Window[Publication](40, 1000)
    sent = [publish(unconfirmed, window) for _ in range(40)]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.wait_for_room, 10)
        await trio.sleep(5)
        unconfirmed.confirm([sent[7].receipt_id])
    assert 5 < trio.current_time() - began < 5.01
