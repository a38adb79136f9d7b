"""The registry of receipts: each is woken exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from trio_stomp import Publication
from trio_stomp.errors import BrokerError, ConnectionLost, DeliveryStatus
from trio_stomp.session.receipts import Receipts, Window


class Calls:
    """Counts how often it was called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def book(calls: Calls | None = None) -> Receipts:
    """The receipts of a session that is connected."""
    receipts = Receipts(max_messages=1000, max_bytes=100_000)
    receipts.connected(calls or Calls())
    return receipts


def publish(receipts: Receipts, window: Window | None = None, size: int = 10) -> Publication:
    receipt_id = receipts.new_id()
    message = Publication(f"{receipts.prefix}{receipt_id}", "/queue/a", size, receipt_id, b"SEND", window)
    receipts.enter(message)
    return message


def answer(receipts: Receipts, *messages: Publication) -> int:
    """Their RECEIPTs come; returns how many nothing awaits."""
    return receipts.confirm([each._receipt_id for each in messages])


def refused() -> BrokerError:
    return BrokerError(message="refused", headers={}, body=b"")


@pytest.mark.parametrize("kind", ["session", "publisher"])
def test_room_when_a_bound_is_reached_exactly_then_there_is_room_up_to_it_and_not_beyond(kind: str) -> None:
    receipts = Receipts(max_messages=3, max_bytes=100)
    window = Window(max_messages=3, max_bytes=100)
    bounded = receipts.unconfirmed if kind == "session" else window
    assert bounded.has_room(1000)
    publish(receipts, window, size=40)
    assert (bounded.has_room(60), bounded.has_room(61)) == (True, False)
    publish(receipts, window, size=40)
    assert (bounded.has_room(20), bounded.has_room(21)) == (True, False)
    publish(receipts, window, size=0)
    assert not bounded.has_room(0)


async def test_receipt_when_answered_then_the_waiter_goes_on() -> None:
    receipts = book()
    receipt = receipts.expect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receipt.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert receipts.confirm([receipt.id]) == 0
    assert len(receipts) == 0


async def test_receipt_when_answered_before_the_wait_then_it_does_not_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts = book()
    receipt = receipts.expect()
    receipts.confirm([receipt.id])
    with trio.fail_after(1):
        await receipt.wait()


def test_receipt_when_answered_twice_then_the_second_is_unexpected() -> None:
    receipts = book()
    receipt = receipts.expect()
    assert receipts.confirm([receipt.id]) == 0
    assert receipts.confirm([receipt.id]) == 1
    assert receipts.refuse(receipt.id, refused()) is False


async def test_receipt_when_refused_then_the_waiter_gets_the_error() -> None:
    receipts = book()
    receipt = receipts.expect()
    receipts.refuse(receipt.id, refused())
    with pytest.raises(BrokerError, match="refused"):
        await receipt.wait()


async def test_receipt_when_the_wait_is_cancelled_then_it_is_forgotten() -> None:
    receipts = book()
    receipt = receipts.expect()
    with trio.CancelScope() as scope:
        scope.cancel()
        await receipt.wait()
    assert scope.cancelled_caught
    assert len(receipts) == 0
    assert receipts.confirm([receipt.id]) == 1


async def test_receipts_when_the_connection_ends_then_all_get_exceptions_of_their_own() -> None:
    receipts = book()
    first, second = receipts.expect(), receipts.expect()
    receipts.lose_all(ConnectionLost("gone"), keep_messages=False)
    caught: list[ConnectionLost] = []
    for receipt in (first, second):
        with pytest.raises(ConnectionLost) as error:
            await receipt.wait()
        caught.append(error.value)
    assert caught[0] is not caught[1]
    receipts.lose_all(ConnectionLost("again"), keep_messages=False)


def test_receipts_when_one_is_expected_then_the_reader_is_told() -> None:
    calls = Calls()
    receipts = book(calls)
    receipt = receipts.expect()
    assert calls.count == 1
    receipts.expect_for(receipt)
    assert calls.count == 2


def test_receipts_when_ids_are_made_then_they_differ_and_are_plain() -> None:
    receipts = book()
    ids = {receipts.expect().id for _ in range(100)}
    assert len(ids) == 100
    assert all(id_.replace("-", "").isalnum() and id_.isascii() for id_ in ids)


def test_expected_when_the_frame_is_not_sent_then_nothing_is_left_behind() -> None:
    receipts = book()
    with pytest.raises(ValueError, match="not encodable"), receipts.expected():
        raise ValueError("not encodable")  # a stand-in for an encoding error
    assert len(receipts) == 0


def test_message_when_answered_or_refused_then_it_is_settled_once() -> None:
    receipts = book()
    one, other = (publish(receipts) for _ in range(2))
    assert len(receipts) == 2
    assert answer(receipts, one) == 0
    assert receipts.refuse(one._receipt_id, refused()) is False
    assert receipts.refuse(other._receipt_id, refused()) is True
    assert (one.delivery, other.delivery) == (DeliveryStatus.CONFIRMED, DeliveryStatus.REJECTED)
    assert len(receipts) == len(receipts.messages) == receipts.unconfirmed.messages == receipts.unconfirmed.bytes == 0


def test_message_when_its_connection_has_ended_and_another_follows_then_only_that_one_answers() -> None:
    receipts = book()
    one = publish(receipts)
    receipts.lose_all(ConnectionLost("gone"), keep_messages=True)
    assert answer(receipts, one) == 1
    assert receipts.refuse(one._receipt_id, refused()) is False
    assert (len(receipts), list(receipts.messages.values()), one.is_settled) == (0, [one], False)
    receipts.connected(Calls())
    assert len(receipts) == 1
    assert answer(receipts, one) == 0
    assert one.delivery is DeliveryStatus.CONFIRMED


async def test_message_when_settled_twice_then_the_first_counts(autojump_clock: trio.testing.MockClock) -> None:
    receipts = book()
    one = publish(receipts)
    assert answer(receipts, one) == 0
    receipts.reject(one, refused())
    receipts.lose(one, ConnectionLost("gone"))
    receipts.give_up(one)
    await one.wait()
    assert one.delivery is DeliveryStatus.CONFIRMED
    assert one.body_bytes == 10
    assert repr(one) == f"<Publication {one.id} to '/queue/a': confirmed>"


async def test_message_when_lost_for_good_then_each_task_that_waits_gets_an_exception_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts = book()
    one = publish(receipts)
    caught: list[ConnectionLost] = []

    async def wait() -> None:
        with pytest.raises(ConnectionLost) as info:
            await one.wait()
        caught.append(info.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.sleep(1)
        receipts.lose_all(ConnectionLost("another follows"), keep_messages=True)
        await trio.sleep(1)
        assert caught == []
        receipts.lose_all(ConnectionLost("gone"), keep_messages=False)
        receipts.lose_all(ConnectionLost("again"), keep_messages=False)
    assert caught[0] is not caught[1]
    assert str(one.error) == "gone"
    assert one.delivery is DeliveryStatus.UNKNOWN


async def test_message_when_one_of_the_tasks_that_wait_is_cancelled_then_the_others_wait_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts = book()
    one = publish(receipts)
    woken: list[float] = []

    async def wait(seconds: float) -> None:
        with trio.move_on_after(seconds):
            await one.wait()
            woken.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        for seconds in (1, 5, 2, 9):
            nursery.start_soon(wait, seconds)
        await trio.sleep(3)
        answer(receipts, one)
    assert [each - began for each in woken] == [pytest.approx(3)] * 2
    assert one.is_settled
    await one.wait()


@pytest.mark.parametrize("wait", [Publication.wait, Publication.wait_settled])
async def test_message_when_settled_already_then_waiting_for_it_can_be_cancelled_all_the_same(
    wait: Callable[[Publication], Awaitable[None]],
) -> None:
    receipts = book()
    one = publish(receipts)
    answer(receipts, one)
    with trio.CancelScope() as scope:
        scope.cancel()
        await wait(one)
    assert scope.cancelled_caught
    await wait(one)


@pytest.mark.parametrize("end", ["confirmed", "refused", "given up", "lost"])
async def test_room_when_a_message_is_settled_then_the_next_one_goes_on(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    receipts = Receipts(max_messages=1, max_bytes=100)
    receipts.connected(Calls())
    first = publish(receipts)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receipts.unconfirmed.acquire, 10, trio.lowlevel.checkpoint)
            await trio.testing.wait_all_tasks_blocked()
            match end:
                case "confirmed":
                    answer(receipts, first)
                case "refused":
                    receipts.refuse(first._receipt_id, refused())
                case "given up":
                    receipts.give_up(first)
                case _:
                    receipts.lose(first, ConnectionLost("gone"))


async def test_wait_none_when_the_last_is_answered_then_it_returns() -> None:
    receipts = book()
    first, second = receipts.expect(), receipts.expect()
    returned: list[int] = []

    async def wait() -> None:
        await receipts.wait_none()
        returned.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        receipts.confirm([first.id])
        await trio.testing.wait_all_tasks_blocked()
        assert returned == []
        receipts.confirm([second.id])
    assert returned == [1, 1]


async def test_wait_none_when_the_connection_ends_then_it_returns_though_messages_stay() -> None:
    receipts = book()
    one = publish(receipts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receipts.wait_none)
        await trio.testing.wait_all_tasks_blocked()
        receipts.lose_all(ConnectionLost("gone"), keep_messages=True)
        # The next one may begin before the task runs.
        receipts.connected(Calls())
    assert not one.is_settled


async def test_wait_none_when_a_block_holds_it_then_it_returns_at_its_end() -> None:
    receipts = book()
    async with trio.open_nursery() as nursery:
        with receipts.held():
            nursery.start_soon(receipts.wait_none)
            await trio.testing.wait_all_tasks_blocked()
            receipts.confirm([receipts.expect().id])
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == 1
        with trio.fail_after(5):
            while nursery.child_tasks:
                await trio.testing.wait_all_tasks_blocked()


# --- a publisher's window -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "size", "added", "next_bytes", "has_room"),
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
    messages: int, size: int, added: list[int], next_bytes: int, has_room: bool
) -> None:
    receipts, window = book(), Window(messages, size)
    for each in added:
        publish(receipts, window, each)
    assert window.has_room(next_bytes) is has_room


def test_counts_when_messages_are_confirmed_refused_and_given_up_then_they_add_up() -> None:
    receipts, window = book(), Window(10, 1000)
    sent = [publish(receipts, window) for _ in range(4)]
    receipts.confirm([sent[2]._receipt_id, sent[0]._receipt_id, "nobody"])
    assert (window.messages, window.bytes, window.confirmed, window.failed) == (2, 20, 2, {})
    receipts.reject(sent[1], ConnectionLost("no"))
    receipts.give_up(sent[3])
    receipts.give_up(sent[3])
    assert (window.messages, window.bytes, window.confirmed) == (0, 0, 2)
    assert window.take_failed() == [sent[1], sent[3]]
    assert (len(receipts), receipts.unconfirmed.messages, receipts.unconfirmed.bytes) == (0, 0, 0)


async def test_wait_when_many_are_confirmed_at_once_then_the_sender_is_woken_once() -> None:
    receipts, window = book(), Window(4, 1000)
    sent = [publish(receipts, window) for _ in range(4)]
    in_flight: list[int] = []

    async def wait() -> None:
        await window.acquire(10, trio.lowlevel.checkpoint)
        in_flight.append(window.messages)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        answer(receipts, *sent[:3])
    assert in_flight == [1]


async def test_wait_when_a_quarter_of_the_window_is_free_then_it_ends_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts, window = book(), Window(4, 1000)
    sent = [publish(receipts, window) for _ in range(4)]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.acquire, 10, trio.lowlevel.checkpoint)
        await trio.testing.wait_all_tasks_blocked()
        answer(receipts, sent[0])
    assert trio.current_time() == began


async def test_wait_when_bytes_are_freed_little_by_little_then_it_ends_when_they_suffice() -> None:
    receipts, window = book(), Window(10, 100)
    sent = [publish(receipts, window, 40) for _ in range(2)]
    ended = trio.Event()

    async def wait() -> None:
        await window.acquire(90, trio.lowlevel.checkpoint)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        answer(receipts, sent[0])
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        answer(receipts, sent[1])


async def test_wait_empty_when_the_last_is_settled_then_it_returns_whatever_became_of_it() -> None:
    receipts, window = book(), Window(10, 100)
    first, last = (publish(receipts, window) for _ in range(2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.wait_empty)
        nursery.start_soon(window.wait_empty)
        await trio.testing.wait_all_tasks_blocked()
        answer(receipts, first)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2
        receipts.lose(last, ConnectionLost("gone"))
    assert window.take_failed() == [last]


async def test_wait_when_receipts_come_one_by_one_then_the_sender_sleeps_until_a_good_part_is_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts, window = book(), Window(40, 1000)
    sent = [publish(receipts, window) for _ in range(40)]
    in_flight: list[int] = []

    async def wait() -> None:
        await window.acquire(10, trio.lowlevel.checkpoint)
        in_flight.append(window.messages)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for each in sent[:15]:
            await trio.testing.wait_all_tasks_blocked()
            answer(receipts, each)
    assert in_flight == [30]


async def test_wait_when_the_rest_is_never_confirmed_then_the_sender_goes_on_with_the_room_that_there_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts, window = book(), Window(40, 1000)
    sent = [publish(receipts, window) for _ in range(40)]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.acquire, 10, trio.lowlevel.checkpoint)
        await trio.sleep(5)
        answer(receipts, sent[7])
    assert 5 < trio.current_time() - began < 5.01
