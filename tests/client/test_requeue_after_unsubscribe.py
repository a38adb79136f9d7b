"""Leaving subscriptions at RabbitMQ: what would stay locked is requeued, also what crosses the UNSUBSCRIBE.

The peer does what RabbitMQ was seen to do.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from trio_stomp import BrokerError, Client, NotSupportedError, SubscriptionOverflow
from trio_stomp.session.connection import Left
from trio_stomp.session.requeue_after_unsubscribe import RequeueAfterUnsubscribe
from trio_stomp.testing import ScriptedPeer, open_scripted_peer
from trio_stomp.types import AckName, Command, Frame, Headers

pytestmark = [pytest.mark.anyio, on_loops("trio")]

SESSION = "session-x"
RABBITMQ = "RabbitMQ/3.10.8"


@asynccontextmanager
async def rabbitmq(version: str = "1.2", server: str = RABBITMQ) -> AsyncGenerator[tuple[ScriptedPeer, Client]]:
    """A peer that says it is RabbitMQ, and a client connected to it; the test ends with the body."""
    async with open_scripted_peer(listen=False) as peer, trio.open_nursery() as nursery:
        connected: list[Client] = []

        async def accept() -> None:
            await peer.accept_connect(version=version, server=server, headers={"session": SESSION})

        async def connect() -> None:
            async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
                connected.append(client)
                await trio.sleep_forever()

        nursery.start_soon(accept)
        nursery.start_soon(connect)
        await trio.testing.wait_all_tasks_blocked()
        yield peer, connected[0]
        nursery.cancel_scope.cancel()


async def deliver(peer: ScriptedPeer, subscription_id: str, number: int | str) -> None:
    """Send a MESSAGE with this number, or with another name."""
    name = number if isinstance(number, str) else f"T_{subscription_id}@@{SESSION}@@{number}"
    headers = {"subscription": subscription_id, "destination": "/queue/a", "message-id": name, "ack": name}
    await peer.send(Command.MESSAGE, headers, b"")


def no_such(subscription_id: str) -> str:
    return f"There is no current subscription with tag 'T_{subscription_id}'."


async def swallow_late(peer: ScriptedPeer, subscription_id: str) -> None:
    """Send the ERROR that replaces a MESSAGE for a subscription that was left."""
    await peer.send(Command.ERROR, {"message": "Subscription not found"}, no_such(subscription_id).encode())


async def subscribed(
    peer: ScriptedPeer,
    client: Client,
    nursery: trio.Nursery,
    destination: str = "/queue/a",
    subscription_id: str = "mine",
    ack: AckName = "client-individual",
) -> trio.Event:
    """Subscribe, and leave once the returned event is set."""
    leave = trio.Event()

    async def subscribe() -> None:
        async with client.subscribe(destination, id=subscription_id, ack=ack, headers={"x-own": "1"}):
            await leave.wait()

    nursery.start_soon(subscribe)
    await peer.confirm(await peer.expect(Command.SUBSCRIBE, id=subscription_id))
    await trio.testing.wait_all_tasks_blocked()
    return leave


async def left(
    peer: ScriptedPeer,
    client: Client,
    nursery: trio.Nursery,
    destination: str = "/queue/a",
    subscription_id: str = "mine",
    ack: AckName = "client-individual",
) -> None:
    """Subscribe, and leave at once."""
    (await subscribed(peer, client, nursery, destination, subscription_id, ack)).set()
    await peer.expect(Command.UNSUBSCRIBE, id=subscription_id)


async def refused(peer: ScriptedPeer) -> Frame:
    return await peer.expect(Command.NACK)


# --- which deliveries came too late -----------------------------------------------------------------------------------

# A subscription, and the number of a MESSAGE for it, or another name of that, or None for an ERROR in its place.
Delivery = tuple[str, int | str | None]


async def refused_of(
    peer: ScriptedPeer, client: Client, nursery: trio.Nursery, deliveries: list[Delivery]
) -> list[int]:
    """What the client refuses: `mine` and `auto` were left, `other` is open, and `never` was not there."""
    leave = await subscribed(peer, client, nursery, "/queue/b", "other")
    await left(peer, client, nursery)
    await left(peer, client, nursery, subscription_id="auto", ack="auto")
    for subscription_id, number in deliveries:
        if number is None:
            await swallow_late(peer, subscription_id)
        else:
            await deliver(peer, subscription_id, number)
    await trio.testing.wait_all_tasks_blocked()
    await client.send("/queue/b", b"the connection lives")
    numbers: list[int] = []
    while (frame := await peer.next_frame()).command is Command.NACK:
        numbers.append(int(frame.headers["id"].removeprefix(f"T_other@@{SESSION}@@")))
    assert frame.command is Command.SEND
    leave.set()
    return numbers


@pytest.mark.parametrize(
    ("deliveries", "numbers"),
    [
        pytest.param([("mine", 4)], [4], id="a message has its own number"),
        pytest.param([("auto", 4), ("never", 5), ("mine", "ID:1")], [], id="of auto mode, of nobody, without a number"),
        # A delivery of auto mode uses up a number too, though there is nothing to give back.
        pytest.param(
            [("other", 1), ("mine", None), ("auto", None), ("mine", None), ("other", 5), ("other", 6), ("mine", None)],
            [2, 4, 7],
            id="errors count on from the newest message",
        ),
    ],
)
async def test_late_when_deliveries_come_after_unsubscribe_then_those_that_stay_locked_are_refused(
    deliveries: list[Delivery], numbers: list[int]
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        assert await refused_of(peer, client, nursery, deliveries) == numbers


@pytest.mark.parametrize(
    "first",
    [[("other", 2)], [("other", 1), ("other", 1)], [("other", "ID:1")]],
    ids=["a number is missing", "a number came twice", "no number"],
)
async def test_late_when_the_numbers_are_no_count_then_none_is_guessed_any_more(
    first: list[Delivery], caplog: pytest.LogCaptureFixture
) -> None:
    # What bears its own number is known all the same.
    later: list[Delivery] = [("mine", None), ("other", 3), ("mine", None), ("mine", 12)]
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        assert await refused_of(peer, client, nursery, first + later) == [12]
    assert caplog.text.count("does not number its deliveries") == 1


@pytest.mark.parametrize(
    ("server", "said", "body"),
    [
        (RABBITMQ, "Subscription not found", no_such("never")),
        (RABBITMQ, "Subscription not found", "Message has none"),
        (RABBITMQ, "not_found", no_such("mine")),
        ("ActiveMQ/6.1", "Subscription not found", no_such("mine")),
    ],
)
async def test_error_when_it_replaces_no_late_delivery_then_it_ends_the_connection(
    server: str, said: str, body: str
) -> None:
    async with rabbitmq(server=server) as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery)
        await peer.send(Command.ERROR, {"message": said}, body.encode())
        with trio.fail_after(60), pytest.raises(BrokerError, match=said):
            await client.wait_closed()


# --- how many are remembered ------------------------------------------------------------------------------------------

QUEUE = Left("/queue/a", headers=(), acknowledges=True)


def message(number: int) -> Headers:
    return Headers({"message-id": f"T_s-9@@session-x@@{number}"})


def test_messages_when_more_come_late_than_a_credit_can_allow_then_the_rest_is_not_noted() -> None:
    late = RequeueAfterUnsubscribe()
    late.remember("s-1", QUEUE)
    error, body = Headers({"message": "Subscription not found"}), no_such("s-1").encode()
    for number in range(1, 40_001):
        late.late_message(message(2 * number - 1), "s-1")
        assert late.is_late_delivery(error, body, newest=message(2 * number - 1), messages=number)
    assert list(late.numbers) == list(range(1, 65_537))


def test_subscriptions_when_very_many_are_left_then_the_oldest_is_forgotten() -> None:
    late = RequeueAfterUnsubscribe()
    for number in range(1024):
        late.remember(f"s-{number}", QUEUE)
    late.late_message(message(3), "s-0")
    late.remember("s-1024", QUEUE)
    late.late_message(message(4), "s-0")
    late.late_message(message(5), "s-1")
    late.late_message(message(6), "s-1024")
    assert list(late.numbers) == [3, 5, 6]


# --- refusing them ----------------------------------------------------------------------------------------------------


# In 1.1, the header message-id names a message; in 1.2, id does.
@pytest.mark.parametrize(("version", "header"), [("1.1", "message-id"), ("1.2", "id")])
async def test_late_when_another_subscription_is_open_then_refused_through_that_one(version: str, header: str) -> None:
    async with rabbitmq(version) as (peer, client), trio.open_nursery() as nursery:
        other = await subscribed(peer, client, nursery, "/queue/b", "other")
        await left(peer, client, nursery)
        await deliver(peer, "mine", 1)
        await swallow_late(peer, "mine")
        numbers = [(await refused(peer)).headers[header] for _ in range(2)]
        assert numbers == [f"T_other@@{SESSION}@@1", f"T_other@@{SESSION}@@2"]
        assert client.statistics().messages_unroutable == 2
        other.set()


async def test_overflow_when_messages_wait_then_they_are_refused_with_the_subscription() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:

        async def subscribe() -> None:
            with pytest.raises(SubscriptionOverflow):
                async with client.subscribe("/queue/a", id="mine", prefetch=2, overflow="error"):
                    await trio.sleep(1)

        nursery.start_soon(subscribe)
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, id="mine"))
        for number in (1, 2, 3):
            await deliver(peer, "mine", number)
        refusals = [Command.NACK] * 3
        with trio.fail_after(10):
            for command in (Command.BEGIN, *refusals, Command.UNSUBSCRIBE, Command.COMMIT):
                await peer.expect(command)


async def test_transaction_when_aborted_after_a_subscription_was_left_then_its_message_is_refused_too() -> None:
    """It was promised to the transaction when the subscription gave back what it held."""
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        other = await subscribed(peer, client, nursery, "/queue/b", "other")

        async def consume() -> None:
            async with client.transaction() as transaction:
                async with client.subscribe("/queue/a", id="mine") as subscription:
                    await transaction.ack(await anext(subscription))
                transaction.abort()

        nursery.start_soon(consume)
        await peer.expect(Command.BEGIN)
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, id="mine"))
        await deliver(peer, "mine", 1)
        for command in (Command.ACK, Command.UNSUBSCRIBE, Command.ABORT):
            await peer.expect(command)
        with trio.fail_after(10):
            assert (await refused(peer)).headers["id"] == f"T_other@@{SESSION}@@1"
        other.set()


async def test_late_when_no_other_subscription_is_open_then_a_helper_refuses_and_goes() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery)
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


async def test_late_when_the_helper_gets_nothing_then_it_goes_after_a_while() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery)
        await swallow_late(peer, "mine")
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, destination="/queue/a"))
        await refused(peer)
        refused_at = trio.current_time()
        await peer.expect(Command.UNSUBSCRIBE)
        assert trio.current_time() - refused_at == pytest.approx(0.2)
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_helpers_are_needed_again_and_again_then_each_has_an_id_of_its_own() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        ids: list[str] = []
        for _ in range(3):
            await left(peer, client, nursery)
            await swallow_late(peer, "mine")
            helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a", prefetch_count="1")
            ids.append(helper.headers["id"])
            await peer.confirm(helper)
            await refused(peer)
            await peer.expect(Command.UNSUBSCRIBE, id=ids[-1])
        assert ids == ["give-back-1", "give-back-2", "give-back-3"]


async def test_late_when_the_queue_went_with_its_subscriber_then_refused_at_the_next_occasion() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery, "/topic/a")
        await swallow_late(peer, "mine")
        await trio.testing.wait_all_tasks_blocked()
        next_one = await subscribed(peer, client, nursery, "/queue/b", "next")
        assert (await refused(peer)).headers["id"] == f"T_next@@{SESSION}@@1"
        next_one.set()


async def test_late_when_the_helper_is_refused_then_the_connection_has_ended_with_that() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery)
        await swallow_late(peer, "mine")
        await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        await peer.send(Command.ERROR, {"message": "access_refused"}, b"the rights were taken away")
        with pytest.raises(BrokerError, match="access_refused"):
            await client.wait_closed()
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().subscriptions == ()


async def test_late_when_the_helper_is_refused_and_the_connection_goes_on_then_no_other_one_is_tried() -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery)
        await swallow_late(peer, "mine")
        helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        await peer.send(Command.ERROR, {"message": "not now", "receipt-id": helper.headers["receipt"]})
        await trio.testing.wait_all_tasks_blocked()
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_a_durable_subscription_was_deleted_then_its_messages_are_passed_over() -> None:
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


async def test_late_when_version_1_0_then_no_nack_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with rabbitmq("1.0") as (peer, client), trio.open_nursery() as nursery:
        await left(peer, client, nursery, ack="client")
        with caplog.at_level(logging.WARNING, "trio_stomp"):
            await swallow_late(peer, "mine")
            await trio.testing.wait_all_tasks_blocked()
        assert "1 late messages stay locked" in caplog.text
        # Nor may another subscription acknowledge: its ACK would reach the locked one too.
        with pytest.raises(NotSupportedError, match="one such subscription for each connection"):
            async with client.subscribe("/queue/a", ack="client"):
                pass
        (await subscribed(peer, client, nursery, subscription_id="auto", ack="auto")).set()
