"""The buffer of a subscription, and the gate that holds the reader."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_stomp.errors import ConnectionLost, LocalProtocolError, SubscriptionOverflow
from trio_stomp.session.buffer import Gate, Inbox
from trio_stomp.session.failures import was_raised
from trio_stomp.types import Command, Frame, Headers, Overflow


def message(body: bytes = b"x") -> Frame:
    return Frame(command=Command.MESSAGE, body=body, footprint=len(body))


def is_closed(gate: Gate) -> bool:
    """Ask anew: type checkers take a property that was looked at once for what it was then."""
    return gate.is_closed


class Unsubscribed:
    """Counts how often the subscription was told to end."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def inbox_of(
    capacity: int = 2,
    overflow: Overflow = Overflow.WAIT,
    gate: Gate | None = None,
    on_overflow: Unsubscribed | None = None,
) -> Inbox:
    inbox = Inbox(
        name="subscription 's' to '/queue/a'",
        capacity=capacity,
        overflow=overflow,
        on_overflow=on_overflow or Unsubscribed(),
        keeps_after_loss=False,
        is_last=None,
    )
    inbox.attach(gate or Gate(1000))
    return inbox


def fill(inbox: Inbox, *bodies: bytes) -> None:
    inbox.put([message(body) for body in bodies])
    inbox.wake()


def test_inbox_when_filled_then_messages_come_in_order() -> None:
    inbox = inbox_of(10)
    fill(inbox, b"1", b"2", b"3")
    assert [inbox.take().body for _ in range(3)] == [b"1", b"2", b"3"]
    assert inbox.delivered == 3


async def test_wait_when_empty_then_woken_by_the_chunk() -> None:
    inbox = inbox_of()
    results: list[bool] = []

    async def wait() -> None:
        results.append(await inbox.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        fill(inbox, b"1")
    assert results == [True]


async def test_put_when_a_consumer_waits_then_asks_for_wake_and_not_otherwise() -> None:
    inbox = inbox_of()
    assert inbox.put([message()]) is False
    inbox.take()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert inbox.put([message()]) is True
        inbox.wake()


async def test_wake_when_more_messages_than_consumers_then_each_consumer_gets_one() -> None:
    inbox = inbox_of(10)
    taken: list[bytes] = []

    async def consume() -> None:
        await inbox.wait()
        taken.append(inbox.take().body)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        fill(inbox, b"1", b"2", b"3", b"4")
    assert sorted(taken) == [b"1", b"2", b"3"]
    assert len(inbox) == 1


async def test_wait_when_cancelled_then_no_message_is_lost() -> None:
    inbox = inbox_of()
    with trio.CancelScope() as scope:
        scope.cancel()
        await inbox.wait()
    fill(inbox, b"1")
    assert await inbox.wait()
    assert inbox.take().body == b"1"


async def test_gate_when_count_is_over_the_capacity_then_closed_until_taken() -> None:
    gate = Gate(1000)
    inbox = inbox_of(2, gate=gate)
    fill(inbox, b"1", b"2")
    assert not is_closed(gate)
    fill(inbox, b"3")
    assert is_closed(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.wait_change)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.holds
        inbox.take()
    assert not is_closed(gate)


def test_gate_when_bytes_are_over_the_soft_limit_then_closed_whatever_the_count() -> None:
    gate = Gate(10)
    inbox = inbox_of(100, gate=gate)
    fill(inbox, b"x" * 10)
    assert not is_closed(gate)
    fill(inbox, b"x")
    assert is_closed(gate)
    inbox.take()
    assert not is_closed(gate)
    assert gate.held_bytes == 1


def test_inbox_when_detached_then_neither_its_old_gate_nor_that_of_another_inbox_is_touched() -> None:
    gate = Gate(10)
    one, other = inbox_of(1, gate=gate), inbox_of(1, gate=gate)
    for inbox in (one, other):
        inbox.keeps_after_loss = True
        fill(inbox, b"1", b"22")
        inbox.detach()
    assert (gate.held_bytes, is_closed(gate)) == (0, False)
    # Both fill up and are emptied while there is no connection.
    fill(one, b"x" * 100)
    assert [one.take().body for _ in range(3)] == [b"1", b"22", b"x" * 100]
    again = Gate(1000)
    one.attach(again)
    other.attach(again)
    assert again.held_bytes == 3
    assert [other.take().body, other.take().body] == [b"1", b"22"]
    assert (gate.held_bytes, again.held_bytes) == (0, 0)


async def test_overflow_error_when_full_then_consumers_get_it_and_broker_is_told() -> None:
    told = Unsubscribed()
    gate = Gate(1000)
    inbox = inbox_of(2, Overflow.ERROR, gate, told)
    fill(inbox, b"1", b"2", b"3")
    with pytest.raises(SubscriptionOverflow, match=r"'/queue/a'.*prefetch, which is 2"):
        await inbox.wait()
    assert told.count == 1
    assert gate.held_bytes == 0
    fill(inbox, b"4")
    assert len(inbox) == 0


def test_drop_oldest_when_full_then_the_newest_are_kept_and_the_rest_counted() -> None:
    gate = Gate(1000)
    inbox = inbox_of(2, Overflow.DROP_OLDEST, gate)
    fill(inbox, b"1", b"2", b"3", b"4")
    assert [inbox.take().body for _ in range(2)] == [b"3", b"4"]
    assert inbox.dropped == 2
    assert gate.held_bytes == 0


async def test_fail_when_buffer_is_kept_then_it_is_handed_out_before_the_error() -> None:
    inbox, failure = inbox_of(), ConnectionLost("gone")
    fill(inbox, b"1")
    inbox.fail(failure, keep=True)
    assert await inbox.wait()
    inbox.take()
    assert not was_raised(failure)
    with pytest.raises(ConnectionLost):
        await inbox.wait()
    assert was_raised(failure)


async def test_fail_when_buffer_is_not_kept_then_the_error_comes_at_once() -> None:
    inbox = inbox_of()
    fill(inbox, b"1")
    inbox.fail(ConnectionLost("gone"), keep=False)
    inbox.fail(ConnectionLost("later"), keep=False)
    with pytest.raises(ConnectionLost, match="gone"):
        await inbox.wait()


async def test_end_when_consumers_wait_then_they_stop() -> None:
    inbox = inbox_of()
    results: list[bool] = []

    async def wait() -> None:
        results.append(await inbox.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        inbox.end()
    assert results == [False, False]


def test_drain_when_messages_wait_then_they_are_taken_out_and_the_gate_opens() -> None:
    gate = Gate(1000)
    inbox = inbox_of(1, gate=gate)
    fill(inbox, b"1", b"2")
    assert [left.body for left in inbox.drain()] == [b"1", b"2"]
    assert not is_closed(gate)
    assert gate.held_bytes == 0


async def test_wait_count_when_enough_came_then_it_returns() -> None:
    inbox = inbox_of(10)
    fill(inbox, b"1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.wait_count, 3)
        await trio.testing.wait_all_tasks_blocked()
        fill(inbox, b"2")
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        fill(inbox, b"3")


def test_overflow_when_named_wrongly_then_error() -> None:
    with pytest.raises(LocalProtocolError, match="wait, error, drop-oldest"):
        Overflow.of("block")


async def test_inbox_when_the_last_message_came_then_the_rest_is_handed_out_and_it_ends() -> None:
    inbox = Inbox(
        name="browser",
        capacity=2,
        overflow=Overflow.WAIT,
        on_overflow=Unsubscribed(),
        keeps_after_loss=False,
        is_last=lambda headers: "end" in headers,
    )
    inbox.attach(Gate(1000))
    fill(inbox, b"1")
    end = Frame(command=Command.MESSAGE, headers=Headers({"end": "true"}), body=b"")
    inbox.put([message(b"2"), end, message(b"behind the end")])
    assert inbox.is_over
    assert await inbox.wait()
    assert [inbox.take().body, inbox.take().body] == [b"1", b"2"]
    assert not await inbox.wait()
    fill(inbox, b"late")
    assert len(inbox) == 0


async def test_inbox_when_the_last_message_comes_then_waiting_consumers_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox = Inbox(
        name="browser",
        capacity=2,
        overflow=Overflow.WAIT,
        on_overflow=Unsubscribed(),
        keeps_after_loss=False,
        is_last=lambda _headers: True,
    )
    stopped: list[bool] = []

    async def consume() -> None:
        stopped.append(await inbox.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        fill(inbox, b"")
    assert stopped == [False, False]
