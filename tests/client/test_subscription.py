"""Subscriptions: made, iterated, bounded, left, restored in a stream."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, client_of_peer, fill
from tests.kit.loops import on_loops
from tests.kit.peer import PeerOptions
from trio_stomp import (
    BrokerError,
    Client,
    ConnectionLost,
    LocalProtocolError,
    NotSupportedError,
    QueueArguments,
    SubscriptionOverflow,
)
from trio_stomp.testing import Broker
from trio_stomp.types import AckName, Command, SubscribeOptions

pytestmark = [pytest.mark.anyio, on_loops("trio")]

# --- taking messages --------------------------------------------------------------------------------------------------


async def test_messages_when_a_1_0_broker_names_no_subscription_then_they_go_to_the_newest_that_is_open() -> None:
    """Row 10-SUB-15."""
    async with (
        client_of_peer(PeerOptions(server=None), versions=["1.0"]) as (client, peer),
        client.subscribe("/queue/a", ack="auto") as oldest,
    ):
        nameless = [("destination", "/queue/a"), ("message-id", "1")]
        peer.on[Command.SEND] = lambda frame: peer.send(Command.MESSAGE, nameless, frame.body)
        with trio.fail_after(60):
            async with client.subscribe("/queue/a", ack="auto") as older:
                async with client.subscribe("/queue/a", ack="auto") as newest:
                    await client.send("/queue/a", b"1")
                    assert (await anext(newest)).body == b"1"
                await client.send("/queue/a", b"2")
                assert (await anext(older)).body == b"2"
            await client.send("/queue/a", b"3")
            assert (await anext(oldest)).body == b"3"
        assert client.statistics().messages_unroutable == 0


async def test_iteration_when_the_subscription_is_left_then_it_stops(client: Client) -> None:
    async with client.subscribe("/queue/a") as subscription:
        pass
    assert [message async for message in subscription] == []
    assert await subscription.receive_batch(10) == []


async def test_receive_batch_when_more_come_then_no_more_than_asked(client: Client) -> None:
    await fill(client, "/queue/a", 10)
    async with client.subscribe("/queue/a") as subscription:
        assert len(await subscription.receive_batch(4, linger=1)) == 4
        assert len(await subscription.receive_batch(100, linger=1)) == 6


@pytest.mark.parametrize(("linger", "count"), [(0, 1), (0.5, 1), (0.9, 2)])
async def test_receive_batch_when_another_comes_meanwhile_then_it_is_taken_along(
    client: Client, linger: float, count: int
) -> None:
    async def send_late() -> None:
        await trio.sleep(0.7)
        await client.send("/queue/a", b"2")

    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(send_late)
        assert len(await subscription.receive_batch(10, linger=linger)) == count


async def test_receive_batch_when_cancelled_while_it_lingers_then_another_consumer_takes_its_messages(
    broker: Broker, client: Client
) -> None:
    taken: list[str] = []
    lingering = trio.CancelScope()
    async with client.subscribe("/queue/a") as subscription, trio.open_nursery() as nursery:

        async def linger() -> None:
            with lingering:
                await subscription.receive_batch(10, linger=60)

        async def take() -> None:
            async with await anext(subscription) as message:
                taken.append(message.text)

        for consume in (linger, take):
            nursery.start_soon(consume)
            await trio.testing.wait_all_tasks_blocked()
        await client.send("/queue/a", "1")
        await trio.sleep(1)
        assert taken == []
        lingering.cancel()
        await trio.sleep(1)
        assert taken == ["1"]
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize(("ack", "handed_out"), [("auto", [b"0", b"1", b"2"]), ("client-individual", [])])
async def test_subscription_when_the_link_is_lost_then_what_needs_no_ack_is_handed_out_before_iteration_raises(
    ack: AckName, handed_out: list[bytes], broker: Broker
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", ack=ack) as subscription:
            await trio.testing.wait_all_tasks_blocked()
            broker.drop_connections()
            await trio.testing.wait_all_tasks_blocked()
            assert [(await anext(subscription)).body for _ in handed_out] == handed_out
            with pytest.raises(ConnectionLost):
                await anext(subscription)


async def test_drop_oldest_when_consumers_are_slow_then_the_newest_are_there(client: Client) -> None:
    async with client.subscribe("/topic/t", ack="auto", prefetch=3, overflow="drop-oldest") as subscription:
        await fill(client, "/topic/t", 10)
        await client.send("/queue/b", b"", receipt=True)
        await trio.testing.wait_all_tasks_blocked()
        assert [(await anext(subscription)).body for _ in range(3)] == [b"7", b"8", b"9"]
        assert subscription.statistics().dropped == 7


# --- options, and what leaving does -----------------------------------------------------------------------------------


async def test_prefetch_when_set_then_no_more_are_under_way(client: Client, broker: Broker) -> None:
    await fill(client, "/queue/a", 20)
    async with client.subscribe("/queue/a", prefetch=5) as subscription:
        first = await anext(subscription)
        await trio.testing.wait_all_tasks_blocked()
        assert broker.unacknowledged("/queue/a") == 5
        assert subscription.statistics().buffered == 4
        await first.ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 5


async def test_leaving_when_messages_are_not_settled_then_they_go_back_in_order(client: Client, broker: Broker) -> None:
    """Row 1x-UNSUB-1."""
    await fill(client, "/queue/a", 6)
    async with client.subscribe("/queue/a", prefetch=5) as subscription:
        await (await anext(subscription)).ack()
        await anext(subscription)
    await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
    assert [frame.body for frame in broker.messages("/queue/a")] == [b"1", b"2", b"3", b"4", b"5"]


async def test_leaving_when_rabbitmq_then_given_back_in_a_transaction_around_unsubscribe() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker):
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", prefetch=3) as subscription:
            await anext(subscription)
            await trio.testing.wait_all_tasks_blocked()
        await client.send("/queue/other", b"", receipt=True)
        received = broker.statistics().received
        assert received[Command.NACK] == 3
        assert received[Command.BEGIN] == received[Command.COMMIT] == received[Command.UNSUBSCRIBE] == 1
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.depth("/queue/a") == 3


@pytest.mark.parametrize("server", ["RabbitMQ/3.10.8", "ActiveMQ/6.1", "trio-stomp-testing/1"])
async def test_durable_subscription_when_deleted_then_the_broker_forgets_it(server: str) -> None:
    async with client_of(server, headers={"client-id": "me"}) as (client, broker):
        async with client.subscribe("/topic/t", durable="mine"):
            pass
        broker.publish("/topic/t", b"while away")
        async with client.subscribe("/topic/t", durable="mine") as subscription:
            assert (await anext(subscription)).body == b"while away"
            await subscription.delete()
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)
            with pytest.raises(LocalProtocolError, match="was left already"):
                await subscription.delete()
        broker.publish("/topic/t", b"nobody is told")
        async with client.subscribe("/topic/t", durable="mine") as subscription:
            with trio.move_on_after(1):
                await anext(subscription)
                pytest.fail("the broker had kept it")


async def test_delete_when_not_durable_then_error(client: Client) -> None:
    async with client.subscribe("/topic/t") as subscription:
        with pytest.raises(LocalProtocolError, match="is not durable: leaving it is enough"):
            await subscription.delete()
        await client.send("/topic/t", b"1")
        assert (await anext(subscription)).body == b"1"


async def test_durable_when_the_broker_wants_a_client_id_and_there_is_none_then_error() -> None:
    async with client_of("ActiveMQ/6.1") as (client, _):
        with pytest.raises(LocalProtocolError, match=r"at ActiveMQ Classic belongs to a client-id, .* has none"):
            client.subscribe("/topic/t", durable="mine")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"stream_offset": "first"}, "does not support streams"),
        ({"no_local": True}, "does not support no_local"),
        ({"queue_arguments": QueueArguments(type="quorum")}, "does not support queue arguments"),
    ],
)
async def test_subscription_when_the_broker_has_no_such_thing_then_nothing_is_sent(
    client: Client, broker: Broker, options: SubscribeOptions, refusal: str
) -> None:
    with pytest.raises(NotSupportedError, match=refusal):
        client.subscribe("/queue/a", **options)
    await client.send("/queue/b", b"", receipt=True)
    assert Command.SUBSCRIBE not in broker.statistics().received


async def test_browse_when_messages_wait_then_they_are_shown_and_stay(client: Client, broker: Broker) -> None:
    for number in range(3):
        await client.send("/queue/a", b"%d" % number, headers={"odd": str(number % 2)})
    async with client.subscribe("/queue/a", browse=True) as browser:
        assert browser.ack_mode == "auto"
        assert [message.body async for message in browser] == [b"0", b"1", b"2"]
        await client.send("/queue/a", b"3")
        assert await browser.receive_batch(10) == []
    async with client.subscribe("/queue/a", browse=True, selector="odd = 1", prefetch=1) as browser:
        assert [message.body for message in await browser.receive_batch(10, linger=5)] == [b"1"]
    assert broker.depth("/queue/a") == 4


async def test_browse_when_nothing_is_there_then_it_ends_at_once(client: Client) -> None:
    for destination in ("/queue/empty", "/topic/t"):
        async with client.subscribe(destination, browse=True) as browser:
            assert [message.body async for message in browser] == []


async def test_browse_when_1_0_then_not_supported(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client:
        with pytest.raises(NotSupportedError, match=r"in STOMP 1\.1 and 1\.2 only"):
            client.subscribe("/queue/a", browse=True)


async def test_stream_when_auto_then_error_because_it_is_read_by_credit(client: Client) -> None:
    with pytest.raises(LocalProtocolError, match="a stream is read by credit"):
        async with client.subscribe("/queue/a", ack="auto", stream_offset="first"):
            pytest.fail("it was taken")


async def test_subscription_when_refused_then_broker_error(client: Client) -> None:
    """Row 1x-SUB-4."""
    with pytest.raises(BrokerError):
        async with client.subscribe("/queue/a", selector="nonsense ("):
            raise AssertionError


async def test_subscription_when_it_overflowed_unseen_then_leaving_raises(client: Client) -> None:
    with pytest.raises(SubscriptionOverflow, match=r"more than 2 messages waited.*prefetch, which is 2"):
        async with client.subscribe("/queue/a", ack="auto", prefetch=2, overflow="error"):
            await fill(client, "/queue/a", 10)
            await client.send("/queue/b", b"", receipt=True)
            await trio.testing.wait_all_tasks_blocked()
    await client.send("/queue/b", b"the connection goes on", receipt=True)


async def test_subscription_when_refused_and_the_connection_goes_on_then_its_id_is_free_again() -> None:
    async with client_of_peer(PeerOptions(server="ActiveMQ/6.1")) as (client, peer):
        peer.on[Command.SUBSCRIBE] = lambda frame: peer.refuse(frame, "not now", names=True)
        with pytest.raises(BrokerError, match="not now"):
            async with client.subscribe("/queue/a", id="s"):
                pytest.fail("it was taken")
        # Nothing takes this one.
        peer.deliver("s")
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().messages_unroutable == 1
        del peer.on[Command.SUBSCRIBE]
        async with client.subscribe("/queue/a", id="s") as subscription:
            peer.deliver("s")
            await (await anext(subscription)).ack(receipt=True)


# --- the block --------------------------------------------------------------------------------------------------------


async def test_nack_when_the_message_is_of_a_stream_then_refused_here() -> None:
    async with (
        client_of("RabbitMQ/3.10.8") as (client, _),
        client.subscribe("/queue/a", stream_offset="first") as subscription,
    ):
        await client.send("/queue/a", b"", headers={"x-stream-offset": "0"})
        message = await anext(subscription)
        with pytest.raises(NotSupportedError, match="RabbitMQ has no NACK"):
            await message.nack()
        await message.ack(receipt=True)


async def test_iteration_when_nobody_settles_then_warned_once_that_the_prefetch_is_exhausted(
    broker: Broker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await client.send("/queue/a", str(number))
    async with client.subscribe("/queue/a", prefetch=2) as messages:
        held = [await anext(messages) for _ in range(2)]
        with trio.move_on_after(29.9):
            await anext(messages)
        assert "are not settled" not in caplog.text
        with trio.move_on_after(30.1):
            await anext(messages)
        assert "are not settled" in caplog.text
        with trio.move_on_after(300):
            await anext(messages)
        warnings = [record.getMessage() for record in caplog.records if "are not settled" in record.getMessage()]
        assert len(warnings) == 1
        assert warnings[0].startswith("subscription to '/queue/a' waits: 2 messages are not settled")
        for message in held:
            await message.ack()
        assert (await anext(messages)).text == "2"


async def test_iteration_when_each_wait_is_short_and_nothing_is_settled_then_warned_after_the_same_time(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop that looks at a flag once a second would otherwise wait in silence."""
    for number in range(3):
        await client.send("/queue/a", str(number))
    async with client.subscribe("/queue/a", prefetch=2) as messages:
        assert [message.text async for message in messages.messages(timeout=1)] == ["0", "1"]
        for _ in range(28):
            assert [message async for message in messages.messages(timeout=1)] == []
        assert "are not settled" not in caplog.text
        for _ in range(2):
            assert [message async for message in messages.messages(timeout=1)] == []
    assert caplog.text.count("are not settled") == 1


async def test_iteration_when_it_waits_long_with_room_in_the_prefetch_then_not_warned(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a", prefetch=2) as messages:
        with trio.move_on_after(300):
            while True:
                await anext(messages)
    assert "are not settled" not in caplog.text


async def test_taking_when_messages_wait_then_it_can_be_cancelled_all_the_same_and_takes_none(
    broker: Broker, client: Client
) -> None:
    async with client.subscribe("/queue/a", ack="auto") as messages:
        for number in range(3):
            broker.publish("/queue/a", b"%d" % number)
        await trio.sleep(1)
        with trio.CancelScope() as alone:
            alone.cancel()
            await anext(messages)
        with trio.CancelScope() as in_batches:
            in_batches.cancel()
            await messages.receive_batch(3)
        assert alone.cancelled_caught
        assert in_batches.cancelled_caught
        assert [message.body for message in await messages.receive_batch(3)] == [b"0", b"1", b"2"]
