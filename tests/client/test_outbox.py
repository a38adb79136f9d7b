"""The outbox: whole frames, in order, bounded."""

from __future__ import annotations

import trio
import trio.testing

from trio_stomp.session.outbox import Outbox


def is_full(outbox: Outbox) -> bool:
    """Ask anew: type checkers take a property that was looked at once for what it was then."""
    return outbox.is_full


def is_idle(outbox: Outbox) -> bool:
    """As `is_full`."""
    return outbox.is_idle


async def test_take_when_several_frames_wait_then_they_come_in_one_piece_and_in_order() -> None:
    outbox = Outbox(1000)
    for frame in (b"a", b"b", b"c"):
        outbox.append(frame)
    assert await outbox.take() == b"abc"
    assert outbox.waiting_bytes == 3
    outbox.written()
    assert outbox.waiting_bytes == 0


async def test_take_when_one_frame_waits_then_it_is_not_copied() -> None:
    outbox = Outbox(1000)
    frame = b"x" * 100
    outbox.append(frame)
    assert await outbox.take() is frame


async def test_take_when_empty_then_it_waits_for_an_append() -> None:
    outbox = Outbox(1000)
    taken: list[bytes] = []

    async def take() -> None:
        taken.append(await outbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        outbox.append(b"a")
    assert taken == [b"a"]


async def test_take_when_cancelled_then_nothing_was_taken() -> None:
    outbox = Outbox(1000)
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.take()
    outbox.append(b"a")
    assert await outbox.take() == b"a"


async def test_outbox_when_above_high_water_then_full_until_written() -> None:
    outbox = Outbox(2)
    outbox.append(b"ab")
    assert not is_full(outbox)
    outbox.append(b"c")
    assert is_full(outbox)
    # What the writer has in hand counts: it is not with the operating system yet.
    await outbox.take()
    assert is_full(outbox)
    outbox.written()
    assert not is_full(outbox)


async def test_wait_for_room_when_written_then_all_waiters_go_on() -> None:
    outbox = Outbox(0)
    outbox.append(b"x")
    went_on: list[int] = []

    async def wait() -> None:
        await outbox.wait_for_room()
        went_on.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert outbox.waiting_tasks == 2
        await outbox.take()
        outbox.written()
    assert went_on == [1, 1]
    assert outbox.waiting_tasks == 0


async def test_close_when_somebody_waits_then_all_go_on() -> None:
    outbox = Outbox(0)
    outbox.append(b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.wait_for_room)
        nursery.start_soon(outbox.wait_empty)
        await trio.testing.wait_all_tasks_blocked()
        outbox.close()
    assert not is_full(outbox)


async def test_wait_empty_when_taken_but_not_written_then_it_still_waits() -> None:
    outbox = Outbox(1000)
    outbox.append(b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.wait_empty)
        await outbox.take()
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        outbox.written()


async def test_append_when_a_part_is_written_then_only_the_rest_waits() -> None:
    outbox = Outbox(1000)
    taken: list[bytes] = []

    async def take() -> None:
        taken.append(await outbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        assert outbox.is_idle
        outbox.append(b"ab", written=2)
        await trio.testing.wait_all_tasks_blocked()
        assert not taken
        outbox.append(b"cde", written=1)
    assert taken == [b"de"]
    assert outbox.waiting_bytes == 2


async def test_loan_when_frames_wait_before_it_then_they_are_taken_first_and_later_ones_after_it() -> None:
    outbox = Outbox(1000)
    outbox.append(b"a")
    loan = outbox.lend(10)
    outbox.append(b"b")
    outbox.append(b"c")
    taken: list[bytes] = []

    async def write() -> None:
        for _ in range(2):
            taken.append(await outbox.take())
            outbox.written()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == [b"a"]
        assert loan.granted.is_set()
        assert outbox.waiting_bytes == 12
        outbox.count(loan, 4)
        assert outbox.waiting_bytes == 8
        outbox.give_back(loan)
    assert taken == [b"a", b"bc"]
    assert outbox.waiting_bytes == 0


async def test_loan_when_given_back_before_its_turn_then_the_writer_passes_over_it() -> None:
    outbox = Outbox(1000)
    loan = outbox.lend(10)
    outbox.append(b"a")
    outbox.give_back(loan)

    with trio.fail_after(1):
        assert await outbox.take() == b"a"
    outbox.written()
    assert outbox.waiting_bytes == 0


async def test_append_when_the_writer_sleeps_then_the_outbox_is_not_idle_any_more() -> None:
    outbox = Outbox(1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.take)
        await trio.testing.wait_all_tasks_blocked()
        assert is_idle(outbox)
        outbox.append(b"a")
        # A frame written directly now would come before this one.
        assert not is_idle(outbox)


async def test_loan_when_the_writer_sleeps_then_wakes_it_and_the_outbox_is_not_idle() -> None:
    outbox = Outbox(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.take)
        await trio.testing.wait_all_tasks_blocked()
        assert outbox.is_idle
        loan = outbox.lend(10)
        await loan.granted.wait()
        assert not is_idle(outbox)
        assert is_full(outbox)
        outbox.give_back(loan)
        outbox.append(b"a")


async def test_loan_when_the_outbox_is_closed_then_its_scope_is_cancelled() -> None:  # noqa: ASYNC124  # scopes belong to a loop
    outbox = Outbox(1000)
    loan = outbox.lend(10)
    outbox.close()
    assert loan.scope.cancel_called
