"""Leaving subscriptions at RabbitMQ: what would stay locked is requeued, also what crosses the UNSUBSCRIBE."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import BrokerError, Client, NotSupportedError
from trio_stomp.brokers import ACTIVEMQ
from trio_stomp.session.connection import Left, Unsubscribing
from trio_stomp.session.requeue_after_unsubscribe import (
    RequeueAfterUnsubscribe,
    unsubscribing_at,
)
from trio_stomp.testing import ScriptedPeer, open_scripted_peer
from trio_stomp.types import AckName, Command, Frame, Headers

# --- which deliveries came too late -----------------------------------------------------------------------------------

QUEUE = Left("/queue/a", headers=(), acknowledges=True)
AUTO = Left("/queue/b", headers=(), acknowledges=False)


def message(number: int) -> Headers:
    return Headers({"message-id": f"T_s-9@@session-x@@{number}"})


def swallow(
    late: RequeueAfterUnsubscribe, subscription_id: str, newest: int | None = None, *, messages: int = 0
) -> bool:
    """An ERROR comes after so many MESSAGEs, the newest of which bears a number."""
    return late.is_late_delivery(
        Headers({"message": "Subscription not found"}),
        b"There is no current subscription with tag 'T_%b'." % subscription_id.encode(),
        newest=None if newest is None else message(newest),
        messages=messages,
    )


def taken(late: RequeueAfterUnsubscribe) -> list[int]:
    numbers = list(late.numbers)
    late.numbers.clear()
    return numbers


def book() -> RequeueAfterUnsubscribe:
    late = RequeueAfterUnsubscribe()
    late.remember("s-1", QUEUE)
    late.remember("s-2", AUTO)
    return late


def test_message_when_it_comes_late_then_its_own_number_is_noted() -> None:
    late = book()
    late.late_message(message(4), "s-1")
    assert late.last is QUEUE
    assert taken(late) == [4]
    assert not late.numbers


def test_message_when_of_auto_mode_or_of_nobody_then_not_noted() -> None:
    late = book()
    late.late_message(message(4), "s-2")
    late.late_message(message(5), "s-7")
    late.late_message(message(6), None)
    late.late_message(Headers({"message-id": "ID:1"}), "s-1")
    late.late_message(Headers(), "s-1")
    assert taken(late) == []


def test_message_when_more_come_late_than_a_credit_can_allow_then_the_rest_is_not_noted() -> None:
    late = book()
    for number in range(1, 40_001):
        late.late_message(message(2 * number - 1), "s-1")
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
    late.late_message(message(12), "s-1")
    assert taken(late) == [12]


def test_swallowed_when_nothing_was_left_then_the_error_concerns_somebody() -> None:
    late = book()
    assert not swallow(late, "s-7", 1, messages=1)
    assert not late.is_late_delivery(Headers({"message": "not_found"}), b"", newest=message(1), messages=1)
    error = Headers({"message": "Subscription not found"})
    assert not late.is_late_delivery(error, b"Message has none", newest=message(1), messages=1)


def test_strategy_when_the_broker_requeues_by_itself_then_nothing_is_noted() -> None:
    plain = unsubscribing_at(ACTIVEMQ)
    assert type(plain) is Unsubscribing
    plain.late_message(message(4), "s-1")
    error = Headers({"message": "Subscription not found"})
    body = b"There is no current subscription with tag 'T_s-1'."
    assert not plain.is_late_delivery(error, body, newest=message(4), messages=4)


def test_book_when_very_many_are_left_then_the_oldest_is_forgotten() -> None:
    late = book()
    for number in range(1022):
        late.remember(f"t-{number}", QUEUE)
    late.late_message(message(3), "s-1")
    assert taken(late) == [3]
    for number in range(1022, 1024):
        late.remember(f"t-{number}", QUEUE)
    late.late_message(message(4), "s-1")
    assert taken(late) == []
    late.late_message(message(5), "t-1023")
    assert taken(late) == [5]


# --- refusing them, against a peer that does what RabbitMQ was seen to do --------------------------------------------

SESSION = "session-x"


@asynccontextmanager
async def rabbitmq(version: str = "1.2") -> AsyncGenerator[tuple[ScriptedPeer, Client]]:
    """A peer that says it is RabbitMQ, and a client connected to it; the test ends with the body."""
    async with open_scripted_peer(listen=False) as peer, trio.open_nursery() as nursery:
        connected: list[Client] = []

        async def accept() -> None:
            await peer.accept_connect(version=version, server="RabbitMQ/3.10.8", headers={"session": SESSION})

        async def connect() -> None:
            async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
                connected.append(client)
                await trio.sleep_forever()

        nursery.start_soon(accept)
        nursery.start_soon(connect)
        await trio.testing.wait_all_tasks_blocked()
        yield peer, connected[0]
        nursery.cancel_scope.cancel()


async def deliver(peer: ScriptedPeer, subscription_id: str, number: int) -> None:
    name = f"T_{subscription_id}@@{SESSION}@@{number}"
    headers = {"subscription": subscription_id, "destination": "/queue/a", "message-id": name, "ack": name}
    await peer.send(Command.MESSAGE, headers, b"%d" % number)


async def swallow_late(peer: ScriptedPeer, subscription_id: str) -> None:
    body = f"There is no current subscription with tag 'T_{subscription_id}'.".encode()
    await peer.send(Command.ERROR, {"message": "Subscription not found"}, body)


class Subscribed:
    """A subscription of the client, kept in a task of its own until `leave`."""

    def __init__(self, client: Client, destination: str, subscription_id: str, ack: AckName) -> None:
        self._client, self._destination, self._id = client, destination, subscription_id
        self._ack: AckName = ack
        self._left = trio.Event()

    async def run(self) -> None:
        async with self._client.subscribe(self._destination, id=self._id, ack=self._ack, headers={"x-own": "1"}):
            await self._left.wait()

    def leave(self) -> None:
        self._left.set()


async def subscribed(
    peer: ScriptedPeer,
    client: Client,
    nursery: trio.Nursery,
    destination: str = "/queue/a",
    subscription_id: str = "mine",
    ack: AckName = "client-individual",
) -> Subscribed:
    subscription = Subscribed(client, destination, subscription_id, ack)
    nursery.start_soon(subscription.run)
    await peer.confirm(await peer.expect(Command.SUBSCRIBE, id=subscription_id))
    await trio.testing.wait_all_tasks_blocked()
    return subscription


async def refused(peer: ScriptedPeer) -> Frame:
    return await peer.expect(Command.NACK)


# In 1.1, the header message-id names a message; in 1.2, id does.
@pytest.mark.parametrize(("version", "header"), [("1.1", "message-id"), ("1.2", "id")])
async def test_late_when_another_subscription_is_open_then_refused_through_that_one(
    autojump_clock: trio.testing.MockClock, version: str, header: str
) -> None:
    async with rabbitmq(version) as (peer, client), trio.open_nursery() as nursery:
        other = await subscribed(peer, client, nursery, "/queue/b", "other")
        mine = await subscribed(peer, client, nursery)
        mine.leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await deliver(peer, "mine", 1)
        await swallow_late(peer, "mine")
        numbers = [(await refused(peer)).headers[header] for _ in range(2)]
        assert numbers == [f"T_other@@{SESSION}@@1", f"T_other@@{SESSION}@@2"]
        assert client.statistics().messages_unroutable == 2
        other.leave()


async def test_late_when_no_other_subscription_is_open_then_a_helper_refuses_and_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow_late(peer, "mine")
        helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a", prefetch_count="1", x_own="1")
        id_ = helper.headers["id"]
        await peer.confirm(helper)
        assert (await refused(peer)).headers["id"] == f"T_{id_}@@{SESSION}@@1"
        # It is given the message again, and holds it until its credit is used up and nothing can meet its leaving.
        await deliver(peer, id_, 2)
        delivered_at = trio.current_time()
        for command in (Command.BEGIN, Command.NACK, Command.UNSUBSCRIBE, Command.COMMIT):
            await peer.expect(command)
        assert trio.current_time() == delivered_at
        assert client.statistics().subscriptions == ()


async def test_late_when_the_helper_gets_nothing_then_it_goes_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow_late(peer, "mine")
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, destination="/queue/a"))
        await refused(peer)
        refused_at = trio.current_time()
        await peer.expect(Command.UNSUBSCRIBE)
        assert trio.current_time() - refused_at == pytest.approx(0.2)
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_helpers_are_needed_again_and_again_then_each_has_an_id_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        ids: list[str] = []
        for _ in range(3):
            (await subscribed(peer, client, nursery)).leave()
            await peer.expect(Command.UNSUBSCRIBE, id="mine")
            await swallow_late(peer, "mine")
            helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a", prefetch_count="1")
            ids.append(helper.headers["id"])
            await peer.confirm(helper)
            await refused(peer)
            await peer.expect(Command.UNSUBSCRIBE, id=ids[-1])
        assert ids == ["give-back-1", "give-back-2", "give-back-3"]


async def test_late_when_the_queue_went_with_its_subscriber_then_refused_at_the_next_occasion(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery, "/topic/a")).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow_late(peer, "mine")
        await trio.testing.wait_all_tasks_blocked()
        next_one = await subscribed(peer, client, nursery, "/queue/b", "next")
        assert (await refused(peer)).headers["id"] == f"T_next@@{SESSION}@@1"
        next_one.leave()


async def test_late_when_the_helper_is_refused_then_the_connection_has_ended_with_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow_late(peer, "mine")
        await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        await peer.send(Command.ERROR, {"message": "access_refused"}, b"the rights were taken away")
        with pytest.raises(BrokerError, match="access_refused"):
            await client.wait_closed()
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().subscriptions == ()


async def test_late_when_the_helper_is_refused_and_the_connection_goes_on_then_no_other_one_is_tried(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow_late(peer, "mine")
        helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        await peer.send(Command.ERROR, {"message": "not now", "receipt-id": helper.headers["receipt"]})
        await trio.testing.wait_all_tasks_blocked()
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_a_durable_subscription_was_deleted_then_its_messages_are_passed_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its queue is gone, so nothing is to be requeued, and an ERROR in place of a message is no failure."""
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:

        async def delete() -> None:
            async with client.subscribe("/topic/a", id="mine", durable="d") as subscription:
                await subscription.delete()

        nursery.start_soon(delete)
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, id="mine"))
        deletion = await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await deliver(peer, "mine", 1)
        await swallow_late(peer, "mine")
        await peer.confirm(deletion)
        await peer.expect_silence(5)
        assert client.statistics().messages_unroutable == 2
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_version_1_0_then_no_nack_and_a_warning_says_so(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with rabbitmq("1.0") as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery, ack="client")).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        with caplog.at_level(logging.WARNING, "trio_stomp"):
            await swallow_late(peer, "mine")
            await trio.testing.wait_all_tasks_blocked()
        assert "1 late messages stay locked" in caplog.text
        # Nor may another subscription acknowledge: its ACK would reach the locked one too.
        with pytest.raises(NotSupportedError, match="one such subscription for each connection"):
            async with client.subscribe("/queue/a", ack="client"):
                pass
        (await subscribed(peer, client, nursery, subscription_id="auto", ack="auto")).leave()
