"""Finding out which deliveries met an UNSUBSCRIBE."""

from __future__ import annotations

import trio
import trio.testing

from trio_stomp.client.late_deliveries import LateDeliveries, Left
from trio_stomp.protocol import Headers

QUEUE = Left(destination="/queue/a", headers=(), settles=True)
AUTO = Left(destination="/queue/b", headers=(), settles=False)


def message(number: int) -> Headers:
    return Headers({"message-id": f"T_s-9@@session-x@@{number}"})


def swallow(late: LateDeliveries, subscription_id: str, newest: Headers | None) -> bool:
    error = Headers({"message": "Subscription not found"})
    return late.swallowed(
        error, b"There is no current subscription with tag 'T_%b'." % subscription_id.encode(), newest
    )


def book() -> LateDeliveries:
    late = LateDeliveries(enabled=True)
    late.leave("s-1", QUEUE)
    late.leave("s-2", AUTO)
    return late


def test_message_when_it_comes_late_then_its_own_number_is_noted() -> None:
    late = book()
    late.came(message(4), "s-1")
    assert late.take() == [4]
    assert late.last is QUEUE
    assert late.numbers == []


def test_message_when_of_auto_mode_or_of_nobody_then_not_noted() -> None:
    late = book()
    late.came(message(4), "s-2")
    late.came(message(5), "s-7")
    late.came(message(6), None)
    late.came(Headers({"message-id": "ID:1"}), "s-1")
    late.came(Headers(), "s-1")
    assert late.take() == []


def test_swallowed_when_several_follow_a_message_then_they_count_on_from_it() -> None:
    late = book()
    newest = message(7)
    assert swallow(late, "s-1", newest)
    # A delivery of auto mode uses up a number too, though there is nothing to give back.
    assert swallow(late, "s-2", newest)
    assert swallow(late, "s-1", newest)
    assert late.take() == [8, 10]
    assert swallow(late, "s-1", message(11))
    assert late.take() == [12]


def test_swallowed_when_no_message_ever_came_then_the_first_number_is_one() -> None:
    late = book()
    assert swallow(late, "s-1", None)
    assert late.take() == [1]


def test_swallowed_when_nothing_was_left_then_the_error_concerns_somebody() -> None:
    late = book()
    assert not swallow(late, "s-7", message(1))
    assert not late.swallowed(Headers({"message": "not_found"}), b"", message(1))
    assert not late.swallowed(Headers({"message": "Subscription not found"}), b"Message has none", message(1))


def test_book_when_the_broker_keeps_nothing_locked_then_nothing_is_noted() -> None:
    late = LateDeliveries(enabled=False)
    late.leave("s-1", QUEUE)
    late.came(message(4), "s-1")
    assert not swallow(late, "s-1", message(4))
    assert late.take() == []


def test_book_when_very_many_are_left_then_the_oldest_is_forgotten() -> None:
    late = book()
    for number in range(1024):
        late.leave(f"t-{number}", QUEUE)
    late.came(message(4), "s-1")
    assert late.take() == []
    late.came(message(5), "t-1023")
    assert late.take() == [5]


async def test_waiting_when_something_changes_then_woken(autojump_clock: trio.testing.MockClock) -> None:
    late = book()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late.wait_change)
        await trio.testing.wait_all_tasks_blocked()
        late.came(message(4), "s-1")
