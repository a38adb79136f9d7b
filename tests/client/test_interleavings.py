"""Slow consumers, receipts and ERRORs in the orders that hurt: by name."""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import partial

import anyio
import pytest

import trio_stomp
from tests.client.clients import client_talking_to, pieces_of
from tests.kit.loops import LOOPS_OF_BROKER, on_loops, wait_all_tasks_blocked
from tests.kit.wire import Wire
from trio_stomp import (
    Client,
    ConnectionClosed,
    DisconnectResult,
    HeartBeatTimeout,
    Limits,
    RequestTimeout,
    SubscriptionOverflow,
)
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    HalfOpen,
    ReverseReceipts,
    ScriptedPeer,
    open_broker,
)
from trio_stomp.types import Command

pytestmark = [pytest.mark.anyio, on_loops(*LOOPS_OF_BROKER)]


def publish(broker: Broker, destination: str, count: int, size: int = 10) -> None:
    for number in range(count):
        broker.publish(destination, b"%0*d" % (size, number))


async def test_full_buffer_when_its_consumer_awaits_a_receipt_then_both_go_on(broker: Broker, client: Client) -> None:
    """The deadlock: a held reader holds back the RECEIPT that the consumer needs to free the buffer."""
    publish(broker, "/queue/a", 500, size=1000)
    async with client.subscribe("/queue/a", ack="auto", prefetch=2) as subscription:
        with anyio.fail_after(60):
            for number in range(500):
                message = await anext(subscription)
                assert int(message.body) == number
                await client.send("/queue/b", message.body, receipt=True)
    assert broker.depth("/queue/b") == 500


async def test_full_buffer_when_its_consumer_waits_for_room_to_send_then_both_go_on() -> None:
    """Neither side reads while both have more to write than the link holds: one of them has to go on reading."""
    async with open_broker(listen=False, options=BrokerOptions(outbox_bytes=10_000)) as broker:
        publish(broker, "/queue/a", 300, size=10_000)
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), outbox_bytes=1000) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=1) as subscription,
        ):
            with anyio.fail_after(60):
                for _ in range(300):
                    message = await anext(subscription)
                    await client.send("/queue/b", message.body * 3)
                await client.send("/queue/b", b"", receipt=True)
        assert broker.depth("/queue/b") == 301


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_full_buffer_when_its_consumer_writes_a_body_piece_by_piece_then_both_go_on(
    *, in_transaction: bool
) -> None:
    """The peer writes all of its messages before it reads again, and the link holds next to nothing."""
    wire = Wire()
    wire.to_server.capacity_bytes = wire.to_client.capacity_bytes = 100
    theirs = wire.server
    arrived = bytearray()

    async def serve() -> None:
        await theirs.receive_some()
        await theirs.send_all(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        subscribe = bytes(await theirs.receive_some())
        name = subscribe.partition(b"\nid:")[2].partition(b"\n")[0]
        for number in range(50):
            head = b"subscription:%s\nmessage-id:%d\ndestination:/queue/a" % (name, number)
            await theirs.send_all(b"MESSAGE\n%s\n\n%s\0" % (head, b"y" * 5000))
        async for data in theirs:
            arrived.extend(data)
            for receipt in re.findall(rb"\nreceipt:(\S+)", data):
                await theirs.send_all(b"RECEIPT\nreceipt-id:%s\n\n\0" % receipt)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        async with (
            trio_stomp.connect_stream(wire.client, outbox_bytes=1000, disconnect_timeout=1) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=1) as subscription,
        ):
            with anyio.fail_after(60):
                async with client.transaction() if in_transaction else nullcontext(client) as sender:
                    for _ in range(50):
                        message = await anext(subscription)
                        await sender.send("/queue/b", pieces_of(message.body * 3), content_length=15_000)
    assert arrived.count(b"y" * 15_000) == 50


async def test_full_buffer_when_its_consumer_awaits_a_reply_then_both_go_on(broker: Broker, client: Client) -> None:
    async def serve() -> None:
        async with (
            trio_stomp.connect_stream(broker.connect_stream()) as service,
            service.subscribe("/queue/questions", ack="auto") as questions,
        ):
            async for question in questions:
                await question.reply(question.body)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        async with client.subscribe("/queue/a", ack="auto", prefetch=2) as subscription:
            publish(broker, "/queue/a", 500, size=1000)
            with anyio.fail_after(60):
                for number in range(500):
                    message = await anext(subscription)
                    reply = await client.request("/queue/questions", message.body, timeout=30)
                    assert int(reply.body) == number
        group.cancel_scope.cancel()


async def test_memory_when_only_a_reply_is_awaited_then_the_reader_is_held_at_the_hard_limit_and_nothing_fails(
    broker: Broker,
) -> None:
    async with (
        trio_stomp.connect_stream(broker.connect_stream(), limits=Limits(undelivered_bytes=500_000)) as client,
        client.subscribe("/queue/a", ack="auto", prefetch=10) as subscription,
    ):
        with pytest.raises(RequestTimeout):
            # From now on there is a subscription for replies, too.
            await client.request("/queue/unanswered", b"", timeout=1)
        publish(broker, "/queue/a", 5000, size=1000)
        with pytest.raises(RequestTimeout):
            await client.request("/queue/unanswered", b"", timeout=10)
        assert 400_000 < client.statistics().undelivered_bytes <= 500_000 + 2.5 * 64 * 1024
        for number in range(5000):
            assert int((await anext(subscription)).body) == number


async def test_disconnect_when_a_full_subscription_holds_the_reader_then_its_receipt_is_read_and_messages_stay(
    broker: Broker, client: Client
) -> None:
    publish(broker, "/queue/a", 1000, size=1000)
    async with client.subscribe("/queue/a", ack="auto", prefetch=2) as subscription:
        await anyio.sleep(5)
        assert client.statistics().reads_paused > 0
        with anyio.fail_after(1):
            assert await client.disconnect() is DisconnectResult.RECEIPT
        for number in range(1000):
            assert int((await anext(subscription)).body) == number
        with pytest.raises(ConnectionClosed):
            await anext(subscription)


async def test_memory_when_the_reader_must_go_on_then_the_hard_limit_ends_the_subscription_alone(
    broker: Broker,
) -> None:
    publish(broker, "/queue/a", 5000, size=1000)
    limits = Limits(undelivered_bytes=500_000)
    async with trio_stomp.connect_stream(broker.connect_stream(), limits=limits) as client:
        # From now on there is a subscription for replies, too.
        with pytest.raises(RequestTimeout):
            await client.request("/queue/unanswered", b"", timeout=1)
        broker.faults.now(DelayReceipts(seconds=50))
        with pytest.raises(SubscriptionOverflow, match=r"'/queue/a'.*undelivered_bytes.*prefetch, which is 10"):
            async with client.subscribe("/queue/a", ack="auto", prefetch=10) as subscription:
                with anyio.fail_after(200):
                    await client.send("/queue/b", b"1", receipt=True)
                assert client.statistics().undelivered_bytes <= 600_000
                while True:
                    await anext(subscription)
        with anyio.fail_after(60):
            await client.send("/queue/b", b"the connection goes on", receipt=True)
    assert broker.depth("/queue/b") == 2


async def test_memory_when_a_browser_has_its_last_message_and_the_hard_limit_is_exceeded_then_it_does_not_just_end(
    broker: Broker,
) -> None:
    publish(broker, "/queue/a", 40, size=100)
    limits = Limits(undelivered_bytes=20_000)
    async with trio_stomp.connect_stream(broker.connect_stream(), limits=limits) as client:
        broker.faults.now(DelayReceipts(seconds=50))
        async with client.subscribe("/queue/a", browse=True) as browser:
            await client.send("/queue/b", b"1", receipt=True)
            with pytest.raises(SubscriptionOverflow, match="undelivered_bytes is 20000"):
                await anext(browser)


async def test_memory_when_what_waits_reaches_the_hard_limit_then_only_one_byte_more_fails() -> None:
    async def waiting_bytes(limits: Limits) -> int:
        waiting = 0
        async with (
            open_broker(listen=False) as broker,
            trio_stomp.connect_stream(broker.connect_stream(), limits=limits) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=1),
            anyio.create_task_group() as group,
        ):
            broker.faults.now(DelayReceipts(seconds=50))
            group.start_soon(partial(client.send, "/queue/b", b"", receipt=True))
            await wait_all_tasks_blocked()
            publish(broker, "/queue/a", 3, size=1000)
            await anyio.sleep(10)
            waiting = client.statistics().undelivered_bytes
        # The message is confirmed by now.
        return waiting  # noqa: RET504  # for all that mypy knows, the block swallows errors

    enough = await waiting_bytes(Limits())
    assert enough > 3000
    assert await waiting_bytes(Limits(undelivered_bytes=enough)) == enough
    with pytest.raises(SubscriptionOverflow):
        await waiting_bytes(Limits(undelivered_bytes=enough - 1))


async def test_memory_when_a_quarter_of_the_limit_waits_then_the_reader_is_held_one_byte_beyond_it() -> None:
    async def waiting_bytes_and_held(limits: Limits) -> tuple[int, int]:
        async with (
            open_broker(listen=False) as broker,
            trio_stomp.connect_stream(broker.connect_stream(), limits=limits) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=100),
        ):
            publish(broker, "/queue/a", 3, size=1000)
            await anyio.sleep(10)
            statistics = client.statistics()
            return statistics.undelivered_bytes, statistics.reads_paused

    enough, _ = await waiting_bytes_and_held(Limits())
    assert await waiting_bytes_and_held(Limits(undelivered_bytes=4 * enough)) == (enough, 0)
    assert await waiting_bytes_and_held(Limits(undelivered_bytes=4 * enough - 1)) == (enough, 1)


async def test_memory_when_the_subscription_that_holds_the_reader_is_left_then_the_others_go_on(
    broker: Broker, client: Client
) -> None:
    async with client.subscribe("/queue/b", ack="auto") as other:
        async with client.subscribe("/queue/a", ack="auto", prefetch=10):
            publish(broker, "/queue/a", 5000, size=1000)
            await anyio.sleep(10)
            assert client.statistics().reads_paused > 0
        publish(broker, "/queue/b", 1, size=10)
        with anyio.fail_after(60):
            assert len((await anext(other)).body) == 10


async def test_watchdog_when_the_reader_is_held_then_it_does_not_take_our_silence_for_the_brokers() -> None:
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker:
        publish(broker, "/queue/a", 2000, size=1000)
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
            client.subscribe("/queue/a", ack="auto", prefetch=10) as subscription,
        ):
            await anyio.sleep(60)
            # Ours went on: the broker has not given us up.
            assert client.statistics().heart_beats_sent > 60
            for number in range(2000):
                assert int((await anext(subscription)).body) == number


async def test_watchdog_when_the_reader_goes_on_then_the_broker_has_all_of_its_time_again() -> None:
    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(heart_beat=(10, 0))
        await peer.expect(Command.SUBSCRIBE, id="s")
        for number in range(2):
            await deliver(peer, number)
        await anyio.sleep(30)
        await deliver(peer, 2)
        await peer.expect(Command.UNSUBSCRIBE)
        await peer.expect_disconnect()

    async def deliver(peer: ScriptedPeer, number: int) -> None:
        headers = {"subscription": "s", "message-id": str(number), "destination": "/queue/a"}
        await peer.send(Command.MESSAGE, headers, b"%d" % number)

    async with (
        client_talking_to(serve, heart_beat=(0, 10), heart_beat_margin=2.5) as client,
        client.subscribe("/queue/a", id="s", ack="auto", prefetch=1) as subscription,
    ):
        await anyio.sleep(24)
        assert client.statistics().reads_paused == 1
        # Nothing was read in the first 24 seconds, so 6 more in silence are no reason to give up.
        for number in range(3):
            assert int((await anext(subscription)).body) == number


async def test_watchdog_when_the_reader_was_held_before_then_it_still_finds_a_dead_broker() -> None:
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(1, 1))) as broker:
        publish(broker, "/queue/a", 1000, size=1000)
        with pytest.raises(HeartBeatTimeout):
            async with (
                trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client,
                client.subscribe("/queue/a", ack="auto", prefetch=10) as subscription,
            ):
                await anyio.sleep(10)
                assert client.statistics().reads_paused > 0
                for _ in range(1000):
                    await anext(subscription)
                broker.faults.now(HalfOpen())
                with anyio.fail_after(60):
                    await anext(subscription)


async def test_receipts_when_they_come_in_reverse_then_each_finds_its_own(broker: Broker) -> None:
    """Row draft-RCPT-5."""
    broker.faults.plan(ReverseReceipts(group=5))
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=1) as client:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(partial(client.send, "/queue/a", b"", receipt=True))


async def test_subscriptions_when_one_consumer_is_stuck_in_client_mode_then_the_other_goes_on(
    broker: Broker, client: Client
) -> None:
    publish(broker, "/queue/stuck", 1000)
    publish(broker, "/queue/busy", 1000)
    async with (
        client.subscribe("/queue/stuck", prefetch=5) as stuck,
        client.subscribe("/queue/busy", prefetch=5) as busy,
    ):
        with anyio.fail_after(60):
            for _ in range(1000):
                async with await anext(busy):
                    pass
        assert stuck.statistics().buffered == 5
        assert client.statistics().reads_paused == 0
