"""Confirmed messages: what is sent again after a loss, and what is not."""

from collections.abc import AsyncGenerator
from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import ConnectionLost, LocalProtocolError
from trio_stomp.testing import Broker, DelayReceipts, DropLink, ScriptedPeer, SwallowReceipts, open_scripted_peer
from trio_stomp.types import Command, Frame


async def taken(broker: Broker, count: int) -> list[str]:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            return [(await anext(subscription)).text for _ in range(count)]


async def test_ids_when_made_then_unique_in_all_clients(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    ids: set[str] = set()
    for _ in range(2):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client, client.publisher() as publisher:
            ids |= {(await publisher.send("/queue/a", b"")).id for _ in range(3)}
    assert len(ids) == 6
    # What every broker takes, and every header.
    assert all(id_.replace("-", "").isalnum() and id_.isascii() for id_ in ids)


async def test_room_when_messages_or_bytes_are_many_then_the_next_waits(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(
        broker.connect_stream(), unconfirmed_messages=2, unconfirmed_bytes=1000
    ) as client:
        broker.faults.now(DelayReceipts(seconds=10, count=None))
        began = trio.current_time()
        ended: dict[str, float] = {}

        async def send(name: str, body_bytes: int, after: float) -> None:
            await trio.sleep(after)
            await client.send("/queue/a", b"x" * body_bytes, receipt=True)
            ended[name] = trio.current_time() - began

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "first", 400, 0)
            nursery.start_soon(send, "second", 400, 0.1)
            nursery.start_soon(send, "too many", 1, 0.2)
            await trio.sleep(1)
            assert client.statistics().unconfirmed == 2
            nursery.start_soon(send, "larger than all", 5000, 0)
    assert ended["first"] < 11
    assert ended["too many"] >= 20
    # It goes alone, and it goes.
    assert ended["larger than all"] >= 20


async def test_send_when_the_link_is_lost_before_its_receipt_then_sent_again_with_the_same_id(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        broker.faults.now(SwallowReceipts())

        async def cut() -> None:
            await trio.sleep(1)
            broker.faults.now(DropLink())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            await client.send("/queue/a", b"x", receipt=True)
        assert client.statistics().resent == 1
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            first, second = [await anext(subscription) for _ in range(2)]
        assert first.stable_id == second.stable_id == first.headers["dedup-id"]


async def test_send_when_several_are_unconfirmed_then_they_are_sent_again_in_order_before_anything_new(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host = Host(broker)
    async with reconnecting(host) as client:
        broker.faults.now(DropLink(after_received_bytes=200))  # the first of them does not even arrive

        async def send(number: int) -> None:
            await trio.sleep(number / 100)
            await client.send("/queue/a", str(number), receipt=True)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(send, number)
    first_arrivals = list(dict.fromkeys(await taken(broker, broker.depth("/queue/a"))))
    assert first_arrivals == [str(number) for number in range(10)]


async def test_send_when_confirmed_then_never_sent_again(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        for number in range(5):
            await client.send("/queue/a", str(number), receipt=True)
            broker.faults.now(DropLink())
            await trio.sleep(20)
        assert client.statistics().resent == 0
    assert broker.depth("/queue/a") == 5


async def test_send_when_its_sender_is_cancelled_then_it_is_not_sent_again(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host = Host(broker)
    async with reconnecting(host) as client:
        broker.faults.now(SwallowReceipts())
        with trio.move_on_after(1):
            await client.send("/queue/a", b"x", receipt=True)
        assert client.statistics().unconfirmed == 0
        assert client.statistics().receipts_pending == 0
        broker.faults.now(DropLink())
        await trio.sleep(10)
        assert client.statistics().reconnections == 1
    assert broker.depth("/queue/a") == 1


async def test_send_when_it_has_an_id_of_its_own_then_that_is_kept(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        await client.send("/queue/a", b"x", headers={"dedup-id": "order-17"}, receipt=True)
        async with client.subscribe("/queue/a") as subscription:
            message = await anext(subscription)
    assert message.headers.get_all("dedup-id") == ("order-17",)
    assert message.stable_id == "order-17"


SERVERS = [
    ("RabbitMQ/4.3.6", "amqp-message-id"),
    ("ActiveMQ-Artemis/2.44.0", "_AMQ_DUPL_ID"),
    ("ActiveMQ/6.1.8", "dedup-id"),
    ("SomeBroker/1", "dedup-id"),
]


@pytest.mark.parametrize("policy", [None, trio_stomp.Reconnect()], ids=["once", "reconnecting"])
@pytest.mark.parametrize(("server", "name"), SERVERS)
async def test_send_when_confirmed_in_any_way_then_each_has_an_id_where_the_broker_keeps_it(
    server: str, name: str, policy: trio_stomp.Reconnect | None, autojump_clock: trio.testing.MockClock
) -> None:
    sent: list[Frame] = []

    async def pieces() -> AsyncGenerator[bytes]:  # noqa: ASYNC900, ASYNC124  # what a program sends
        yield b"pie"
        yield b"ces"

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(server=server)
        while not sent or sent[-1].command is not Command.DISCONNECT:
            sent.append(await peer.next_frame())
            if "receipt" in sent[-1].headers:
                await peer.confirm(sent[-1])

    async with open_scripted_peer(listen=True) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)
        async with trio_stomp.connect(peer.url, reconnect=policy, heart_beat=(0, 0)) as client:
            await client.send("/queue/a", b"bytes", receipt=True)
            await client.send("/queue/a", "text", headers=[("a", "b:c")], receipt=True)
            await client.send("/queue/a", pieces(), content_length=6, receipt=True)
            async with client.publisher() as publisher:
                await publisher.send("/queue/a", b"published")
                await publisher.send_many([trio_stomp.OutgoingMessage("/queue/a", b"one of many")])
            await client.send("/queue/a", b"own", headers={name: "own"}, receipt=True)
            await client.send("/queue/a", b"not confirmed")

    ids = [frame.headers.get_all(name) for frame in sent if frame.command is Command.SEND]
    assert [len(each) for each in ids] == [1] * 6 + [0]
    assert len(set(ids)) == 7
    assert ids[5] == ("own",)


async def test_send_when_there_is_no_reconnection_then_a_loss_raises(
    broker: Broker, client: trio_stomp.Client, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.now(SwallowReceipts())

    async def cut() -> None:
        await trio.sleep(1)
        broker.faults.now(DropLink())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut)
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"x", receipt=True)


async def test_publication_when_a_header_cannot_be_sent_then_nothing_is_left_in_the_book(
    client: trio_stomp.Client, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(LocalProtocolError):
        await client.send("/queue/a", b"x", headers={"a": "b\0"}, receipt=True)
    assert client.statistics().unconfirmed == 0
    assert client.statistics().receipts_pending == 0


async def test_room_when_a_message_is_given_up_then_the_next_one_goes(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async def give_up_after_a_second(client: trio_stomp.Client) -> None:
        with trio.move_on_after(1):
            await client.send("/queue/a", b"1", receipt=True)

    async with trio_stomp.connect_stream(broker.connect_stream(), unconfirmed_messages=1) as client:
        broker.faults.now(SwallowReceipts(command=Command.SEND))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up_after_a_second, client)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(partial(client.send, "/queue/a", b"2", receipt=True))
            await trio.sleep(0.5)
            assert broker.depth("/queue/a") == 1
            await trio.sleep(1)
            assert broker.depth("/queue/a") == 2
            nursery.cancel_scope.cancel()
