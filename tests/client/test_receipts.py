"""Receipts: each call gets its own answer, exactly once; those that belong to a lost connection count no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from tests.kit.loops import on_loops
from trio_stomp import Client, OutgoingMessage, Publication
from trio_stomp.errors import BrokerError, ConnectionLost, DeliveryStatus, LocalProtocolError
from trio_stomp.session.receipts import Receipts
from trio_stomp.testing import Broker, DelayReceipts, DropLink, SwallowReceipts

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_receipts_when_the_connection_ends_then_all_that_wait_get_exceptions_of_their_own(
    client: Client, broker: Broker
) -> None:
    caught: list[ConnectionLost] = []

    async def lose(wait: Callable[[], Awaitable[None]]) -> None:
        with pytest.raises(ConnectionLost) as error:
            await wait()
        caught.append(error.value)

    async with client.subscribe("/queue/a") as subscription, client.publisher() as publisher:
        await client.send_many([OutgoingMessage("/queue/a", b"")] * 2)
        messages = await subscription.receive_batch(2, linger=1)
        broker.faults.now(SwallowReceipts(count=None))
        publication = await publisher.send("/queue/b", b"")
        waits: list[Callable[[], Awaitable[None]]] = [partial(each.ack, receipt=True) for each in messages]
        async with trio.open_nursery() as nursery:
            for wait in (*waits, publication.wait, publication.wait):
                nursery.start_soon(lose, wait)
            await trio.testing.wait_all_tasks_blocked()
            broker.faults.now(DropLink())
    assert len({id(error) for error in caught}) == 4
    assert publication.delivery is DeliveryStatus.UNKNOWN
    assert str(publication.error) == str(caught[0])


async def test_publication_when_one_of_the_tasks_that_wait_is_cancelled_then_the_others_wait_on(
    client: Client, broker: Broker
) -> None:
    broker.faults.now(DelayReceipts(seconds=3))
    woken: list[float] = []

    async def wait(seconds: float) -> None:
        with trio.move_on_after(seconds):
            await publication.wait()
            woken.append(trio.current_time() - began)

    async with client.publisher() as publisher:
        publication, began = await publisher.send("/queue/a", b""), trio.current_time()
        async with trio.open_nursery() as nursery:
            for seconds in (1, 5, 2, 9):
                nursery.start_soon(wait, seconds)
    assert woken == [pytest.approx(3)] * 2


async def test_receipts_when_a_frame_cannot_be_encoded_then_none_is_awaited(client: Client) -> None:
    bad = {"a": "\0"}
    await client.send("/queue/a", b"")
    async with client.subscribe("/queue/a") as subscription, client.publisher() as publisher:
        message = await anext(subscription)
        calls: list[Callable[[], Awaitable[object]]] = [
            partial(client.send, "/queue/a", b"", headers=bad, receipt=True),
            partial(client.send, "/remote-temp-queue/session-1.x", b"", headers=bad),  # a reply
            partial(publisher.send, "/queue/a", b"", headers=bad),
            partial(publisher.send, "/queue/a", b"", headers=list(bad.items())),
            partial(message.ack, headers=bad, receipt=True),
            client.subscribe("/queue/b", headers=bad).__aenter__,
        ]
        for call in calls:
            with pytest.raises(LocalProtocolError):
                await call()
            assert client.statistics().receipts_pending == client.statistics().unconfirmed == 0
        await message.ack(receipt=True)


# --- the registry, at moments that only a connection meets ------------------------------------------------------------


def registry() -> Receipts:
    """The receipts of a session that is connected."""
    receipts = Receipts(max_messages=1000, max_bytes=100_000)
    receipts.connected(lambda: None)
    return receipts


def publish(receipts: Receipts) -> Publication:
    receipt_id = receipts.new_id()
    message = Publication(f"{receipts.prefix}{receipt_id}", "/queue/a", 10, receipt_id, b"SEND")
    receipts.enter(message)
    return message


def refused() -> BrokerError:
    return BrokerError(message="refused", headers={}, body=b"")


def test_message_when_its_connection_has_ended_and_another_follows_then_only_that_one_answers() -> None:
    receipts = registry()
    one = publish(receipts)
    receipts.lose_all(ConnectionLost("gone"), keep_messages=True)
    assert receipts.confirm([one._receipt_id]) == 1
    assert receipts.refuse(one._receipt_id, refused()) is False
    assert (len(receipts), list(receipts.messages.values()), one.is_settled) == (0, [one], False)
    receipts.connected(lambda: None)
    assert len(receipts) == 1
    assert receipts.confirm([one._receipt_id]) == 0
    assert one.delivery is DeliveryStatus.CONFIRMED


async def test_message_when_settled_twice_then_the_first_counts() -> None:
    receipts = registry()
    one = publish(receipts)
    assert receipts.confirm([one._receipt_id]) == 0
    assert receipts.refuse(one._receipt_id, refused()) is False
    receipts.reject(one, refused())
    receipts.lose(one, ConnectionLost("gone"))
    receipts.give_up(one)
    await one.wait()
    assert one.delivery is DeliveryStatus.CONFIRMED
    assert len(receipts) == receipts.unconfirmed.messages == receipts.unconfirmed.bytes == 0


async def test_wait_none_when_the_connection_ends_then_it_returns_though_messages_stay() -> None:
    receipts = registry()
    one = publish(receipts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receipts.wait_none)
        await trio.testing.wait_all_tasks_blocked()
        receipts.lose_all(ConnectionLost("gone"), keep_messages=True)
        # The next one may begin before the task runs.
        receipts.connected(lambda: None)
    assert not one.is_settled


async def test_wait_none_when_a_block_holds_it_then_it_returns_at_its_end() -> None:
    receipts = registry()
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
