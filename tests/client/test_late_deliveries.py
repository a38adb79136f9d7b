"""Finding out which deliveries met an UNSUBSCRIBE."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_stomp.protocol import Headers
from trio_stomp.session.late_deliveries import LateDeliveries, Left

QUEUE = Left(destination="/queue/a", headers=(), settles=True)
AUTO = Left(destination="/queue/b", headers=(), settles=False)


def message(number: int) -> Headers:
    return Headers({"message-id": f"T_s-9@@session-x@@{number}"})


def swallow(late: LateDeliveries, subscription_id: str, newest: int | None = None, *, messages: int = 0) -> bool:
    """An ERROR comes after so many MESSAGEs, the newest of which bears a number."""
    return late.swallowed(
        Headers({"message": "Subscription not found"}),
        b"There is no current subscription with tag 'T_%b'." % subscription_id.encode(),
        newest=None if newest is None else message(newest),
        messages=messages,
    )


def taken(late: LateDeliveries) -> list[int]:
    numbers = list(late.numbers)
    assert late.forget_numbers() == len(numbers)
    return numbers


def book() -> LateDeliveries:
    late = LateDeliveries(enabled=True)
    late.leave("s-1", QUEUE)
    late.leave("s-2", AUTO)
    return late


def test_message_when_it_comes_late_then_its_own_number_is_noted() -> None:
    late = book()
    late.came(message(4), "s-1")
    assert late.last is QUEUE
    assert taken(late) == [4]
    assert not late.numbers


def test_message_when_of_auto_mode_or_of_nobody_then_not_noted() -> None:
    late = book()
    late.came(message(4), "s-2")
    late.came(message(5), "s-7")
    late.came(message(6), None)
    late.came(Headers({"message-id": "ID:1"}), "s-1")
    late.came(Headers(), "s-1")
    assert taken(late) == []


def test_message_when_more_come_late_than_a_credit_can_allow_then_the_rest_is_not_noted() -> None:
    late = book()
    for number in range(1, 40_001):
        late.came(message(2 * number - 1), "s-1")
        swallow(late, "s-1", 2 * number - 1, messages=number)
    assert taken(late) == list(range(1, 65_537))


def test_swallowed_when_several_follow_a_message_then_they_count_on_from_it() -> None:
    late = book()
    assert swallow(late, "s-1", 7, messages=7)
    # A delivery of auto mode uses up a number too, though there is nothing to give back.
    assert swallow(late, "s-2", 7, messages=7)
    assert swallow(late, "s-1", 7, messages=7)
    assert taken(late) == [8, 10]
    assert swallow(late, "s-1", 12, messages=9)
    assert taken(late) == [13]


def test_swallowed_when_no_message_ever_came_then_the_first_number_is_one() -> None:
    late = book()
    assert swallow(late, "s-1")
    assert taken(late) == [1]


@pytest.mark.parametrize(
    ("newest", "messages"), [(8, 7), (6, 7), (None, 7)], ids=["a number is missing", "a number came twice", "no number"]
)
def test_swallowed_when_the_numbers_are_no_count_then_none_is_guessed_any_more(
    newest: int | None, messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    late = book()
    assert swallow(late, "s-1", newest, messages=messages)
    assert swallow(late, "s-1", 9, messages=8)
    assert swallow(late, "s-1", 11, messages=9)
    assert taken(late) == []
    assert caplog.text.count("does not number its deliveries") == 1
    # What bears its own number is known all the same.
    late.came(message(12), "s-1")
    assert taken(late) == [12]


def test_swallowed_when_nothing_was_left_then_the_error_concerns_somebody() -> None:
    late = book()
    assert not swallow(late, "s-7", 1, messages=1)
    assert not late.swallowed(Headers({"message": "not_found"}), b"", newest=message(1), messages=1)
    error = Headers({"message": "Subscription not found"})
    assert not late.swallowed(error, b"Message has none", newest=message(1), messages=1)


def test_book_when_the_broker_keeps_nothing_locked_then_nothing_is_noted() -> None:
    late = LateDeliveries(enabled=False)
    late.leave("s-1", QUEUE)
    late.came(message(4), "s-1")
    assert not swallow(late, "s-1", 4, messages=4)
    assert taken(late) == []


def test_book_when_very_many_are_left_then_the_oldest_is_forgotten() -> None:
    late = book()
    for number in range(1024):
        late.leave(f"t-{number}", QUEUE)
    late.came(message(4), "s-1")
    assert taken(late) == []
    late.came(message(5), "t-1023")
    assert taken(late) == [5]


async def test_waiting_when_something_changes_then_woken(autojump_clock: trio.testing.MockClock) -> None:
    late = book()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late.wait_change)
        await trio.testing.wait_all_tasks_blocked()
        late.came(message(4), "s-1")
