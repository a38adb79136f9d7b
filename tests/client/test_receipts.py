"""The registry of receipts: each is woken exactly once."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_stomp.errors import BrokerError, ConnectionLost, Delivery
from trio_stomp.session.receipts import Receipts
from trio_stomp.session.unconfirmed import Publication, Unconfirmed


class Calls:
    """Counts how often it was called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def no_messages() -> Unconfirmed:
    return Unconfirmed(max_messages=9, max_octets=99)


def refused() -> BrokerError:
    return BrokerError(message="refused", headers={}, body=b"")


async def test_receipt_when_answered_then_the_waiter_goes_on() -> None:
    receipts = Receipts(Calls(), no_messages())
    receipt = receipts.expect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receipt.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert receipts.confirm([receipt.id]) == 0
    assert len(receipts) == 0


async def test_receipt_when_answered_before_the_wait_then_it_does_not_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    receipts = Receipts(Calls(), no_messages())
    receipt = receipts.expect()
    receipts.confirm([receipt.id])
    with trio.fail_after(1):
        await receipt.wait()


def test_receipt_when_answered_twice_then_the_second_is_unexpected() -> None:
    receipts = Receipts(Calls(), no_messages())
    receipt = receipts.expect()
    assert receipts.confirm([receipt.id]) == 0
    assert receipts.confirm([receipt.id]) == 1
    assert receipts.refuse(receipt.id, refused()) is False


async def test_receipt_when_refused_then_the_waiter_gets_the_error() -> None:
    receipts = Receipts(Calls(), no_messages())
    receipt = receipts.expect()
    receipts.refuse(receipt.id, refused())
    with pytest.raises(BrokerError, match="refused"):
        await receipt.wait()


async def test_receipt_when_the_wait_is_cancelled_then_it_is_forgotten() -> None:
    receipts = Receipts(Calls(), no_messages())
    receipt = receipts.expect()
    with trio.CancelScope() as scope:
        scope.cancel()
        await receipt.wait()
    assert scope.cancelled_caught
    assert len(receipts) == 0
    assert receipts.confirm([receipt.id]) == 1


async def test_receipts_when_the_connection_ends_then_all_get_exceptions_of_their_own() -> None:
    receipts = Receipts(Calls(), no_messages())
    first, second = receipts.expect(), receipts.expect()
    assert receipts.lose_all(ConnectionLost("gone")) is True
    caught: list[ConnectionLost] = []
    for receipt in (first, second):
        with pytest.raises(ConnectionLost) as error:
            await receipt.wait()
        caught.append(error.value)
    assert caught[0] is not caught[1]
    assert receipts.lose_all(ConnectionLost("again")) is False


def test_receipts_when_one_is_expected_then_the_reader_is_told() -> None:
    calls = Calls()
    receipts = Receipts(calls, no_messages())
    receipts.expect()
    assert calls.count == 1


def test_receipts_when_ids_are_made_then_they_differ_and_are_plain() -> None:
    receipts = Receipts(Calls(), no_messages())
    ids = {receipts.expect().id for _ in range(100)}
    assert len(ids) == 100
    assert all(id_.replace("-", "").isalnum() and id_.isascii() for id_ in ids)


def test_expected_when_the_frame_is_not_sent_then_nothing_is_left_behind() -> None:
    receipts = Receipts(Calls(), no_messages())
    with pytest.raises(ValueError, match="not encodable"), receipts.expected():
        raise ValueError("not encodable")  # a stand-in for an encoding error
    assert len(receipts) == 0


def test_message_when_answered_or_refused_then_it_is_settled_once() -> None:
    book = no_messages()
    receipts = Receipts(Calls(), book)
    one, other = (Publication(book, book.new_receipt_id(), "/queue/a", 0, b"") for _ in range(2))
    assert len(receipts) == 2
    assert receipts.confirm([one.receipt_id]) == 0
    assert receipts.refuse(one.receipt_id, refused()) is False
    assert receipts.refuse(other.receipt_id, refused()) is True
    assert (one.delivery, other.delivery) == (Delivery.CONFIRMED, Delivery.REJECTED)
    assert len(receipts) == len(book) == 0


def test_message_when_its_connection_has_ended_and_another_follows_then_only_that_one_answers() -> None:
    book = no_messages()
    old, new = Receipts(Calls(), book), Receipts(Calls(), book)
    one = Publication(book, book.new_receipt_id(), "/queue/a", 0, b"")
    book.outlives = True
    assert old.lose_all(ConnectionLost("gone")) is True
    assert old.confirm([one.receipt_id]) == 1
    assert old.refuse(one.receipt_id, refused()) is False
    assert (len(old), len(new), one.is_settled) == (0, 1, False)
    assert new.confirm([one.receipt_id]) == 0
    assert one.delivery is Delivery.CONFIRMED


async def test_wait_none_when_the_last_is_answered_then_it_returns() -> None:
    receipts = Receipts(Calls(), no_messages())
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
