"""Restoring a connection: what stands again, in which order, and who is found guilty of an ERROR without a name."""

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import lose_after
from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, Peer, PeerOptions
from tests.kit.reconnecting import Host, PeerHost, TappedHost, reconnecting, reconnecting_to_peers
from tests.kit.tapped_stream import frames_of
from trio_stomp import BrokerError, Client, DeliveryStatus, DisconnectResult, Message, Publication, UnconfirmedError
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    DropLink,
    SwallowReceipts,
    open_broker,
)
from trio_stomp.types import Command, Frame, ProfileName, Version

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@asynccontextmanager
async def rabbit() -> AsyncGenerator[Broker]:
    """A broker that passes for RabbitMQ, whose ERRORs name nothing."""
    async with open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.13.0")) as broker:
        yield broker


async def test_restoring_when_connected_again_then_subscriptions_come_before_unconfirmed_messages() -> None:
    def prepare(peer: Peer, number: int) -> None:
        if number == 1:
            peer.on[Command.SEND] = lambda _: peer.hang_up()

    async with reconnecting_to_peers(prepare) as (client, host), client.subscribe("/queue/a"):
        await client.send("/queue/b", b"", receipt=True)
    _, peer = host.peers
    assert peer.commands[1:] == [Command.SUBSCRIBE, Command.SEND, Command.UNSUBSCRIBE, Command.DISCONNECT]


@pytest.mark.parametrize("subscribed", [True, False], ids=["subscribed", "unsubscribed"])
async def test_disconnect_when_subscriptions_are_restored_one_by_one_then_disconnect_is_answered(
    subscribed: bool,
) -> None:
    results: list[DisconnectResult] = []

    def prepare(peer: Peer, number: int) -> None:
        if number == 2:
            peer.silent |= {Command.SUBSCRIBE, Command.DISCONNECT}

    async def answer_late(peer: Peer) -> None:
        for command in (Command.SUBSCRIBE, Command.DISCONNECT):
            await peer.wait_for(command)
            await trio.sleep(1)
            peer.answer_kept_back()

    async with (
        reconnecting_to_peers(prepare, PeerOptions(server=RABBITMQ)) as (client, host),
        trio.open_nursery() as nursery,
    ):
        async with client.subscribe("/queue/a"), client.subscribe("/queue/b"):
            host.peers[0].error("some frame is wrong")
            await trio.sleep(1)
            nursery.start_soon(answer_late, host.peers[1])
            if subscribed:
                results.append(await client.disconnect())
        if not subscribed:
            results.append(await client.disconnect())
    assert results == [DisconnectResult.RECEIPT]
    assert len(host.peers[1].of(Command.SUBSCRIBE)) == 1


async def test_browse_when_the_link_is_lost_then_it_ends_rather_than_show_everything_twice() -> None:
    async with reconnecting_to_peers(peer_options=PeerOptions(server="ActiveMQ/6.1.8")) as (client, host):
        async with client.subscribe("/queue/a", browse=True) as browser:
            await host.takes(browser)
            host.lose()
            with trio.fail_after(60), pytest.raises(trio_stomp.ConnectionLost):
                await anext(browser)
        await trio.sleep(5)
        assert client.statistics().reconnections == 1
    first, second = host.peers
    assert first.of(Command.SUBSCRIBE)[0].headers["browser"] == "true"
    assert Command.SUBSCRIBE not in second.commands


class StreamHost(TappedHost):
    """A host that tells where the client begins to read the stream on each of its connections."""

    def fill(self, *offsets: int | None) -> None:
        for offset in offsets:
            headers = [] if offset is None else [("x-stream-offset", str(offset))]
            self.broker.publish("/queue/a", b"", headers)

    def begun(self) -> list[str]:
        frames = [frame for link in self.links for frame in frames_of(link.sent)[0]]
        return [frame.headers["x-stream-offset"] for frame in frames if frame.command is Command.SUBSCRIBE]

    async def lose(self) -> None:
        self.broker.faults.now(DropLink())
        await trio.sleep(20)


@pytest.mark.parametrize(
    ("offsets", "settled", "goes_on"),
    [
        ((), (), "first"),
        ((None, None), (0,), "first"),
        ((7, 8, 9), (), "offset=7"),
        ((7, 8, 9), (0,), "offset=8"),
        ((7, 8, 9), (0, 2), "offset=8"),
        ((7, 8, 9), (0, 1, 2), "offset=10"),
    ],
)
async def test_stream_when_the_link_is_lost_then_it_goes_on_with_the_oldest_unsettled_message(
    offsets: tuple[int | None, ...], settled: tuple[int, ...], goes_on: str
) -> None:
    async with rabbit() as broker:
        host = StreamHost(broker)
        async with reconnecting(host) as client, client.subscribe("/queue/a", stream_offset="first") as subscription:
            host.fill(*offsets)
            messages = [await anext(subscription) for _ in offsets]
            for index in settled:
                await messages[index].ack(receipt=True)
            await host.lose()
            assert host.begun() == ["first", goes_on]
            host.fill(10)
            for _ in range(len(offsets) - len(settled) + 1):
                await (await anext(subscription)).ack(receipt=True)


async def test_stream_when_the_link_is_lost_again_then_what_was_redelivered_and_settled_is_not_read_once_more() -> None:
    async with rabbit() as broker:
        host = StreamHost(broker)
        async with reconnecting(host) as client, client.subscribe("/queue/a", stream_offset="first") as subscription:
            host.fill(7, 8, 9)
            # Once the link is lost, these three cannot be settled.
            stale = [await anext(subscription) for _ in range(3)]
            await host.lose()
            for _ in stale:
                await (await anext(subscription)).ack(receipt=True)
            await host.lose()
            assert host.begun() == ["first", "offset=7", "offset=10"]


async def test_stream_when_a_message_was_promised_to_a_transaction_then_it_was_not_settled() -> None:
    async with rabbit() as broker:
        host = StreamHost(broker)
        async with reconnecting(host) as client, client.subscribe("/queue/a", stream_offset="first") as subscription:
            host.fill(7, 8)
            async with client.transaction() as transaction:
                await transaction.ack(await anext(subscription))
                await (await anext(subscription)).ack(receipt=True)
                transaction.abort()
            await host.lose()
            assert host.begun() == ["first", "offset=7"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_stream_when_each_message_is_settled_before_the_next_then_at_most_the_last_one_is_kept(
    is_lost: bool,
) -> None:
    """A stream may be read for years."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, Message) for each in gc.get_objects())

    before = alive()
    async with rabbit() as broker:
        host = StreamHost(broker)
        host.fill(*range(50))
        async with reconnecting(host) as client, client.subscribe("/queue/a", stream_offset="first") as subscription:
            if is_lost:
                await anext(subscription)
                await host.lose()
            for _ in range(50):
                await (await anext(subscription)).ack()
            assert alive() - before <= 1


async def test_message_when_its_connection_is_lost_then_it_is_stale_and_comes_again(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with reconnecting(broker) as client, client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", "x", receipt=True)
        message = await anext(subscription)
        async with message:
            broker.faults.now(DropLink())
            await trio.sleep(20)
            assert message.is_stale
        assert "handled but is stale" in caplog.text
        with pytest.raises(trio_stomp.StaleMessage, match="its connection is gone") as stale:
            await message.ack()
        assert isinstance(stale.value.__cause__, trio_stomp.ConnectionLost)
        with pytest.raises(trio_stomp.StaleMessage):
            await message.nack()
        assert client.statistics().stale_messages == 3
        again = await anext(subscription)
        assert (again.text, again.redelivered) == ("x", True)
        assert again.stable_id == message.stable_id
        await again.ack()


async def test_messages_when_they_wait_in_the_buffer_at_a_loss_then_they_come_once(broker: Broker) -> None:
    async with reconnecting(broker) as client, client.subscribe("/queue/a", prefetch=3) as subscription:
        for number in range(5):
            broker.publish("/queue/a", b"%d" % number)
        await trio.sleep(1)
        held = client.statistics().undelivered_bytes
        assert subscription.statistics().buffered == 3
        broker.faults.now(DropLink())
        await trio.sleep(5)
        assert client.statistics().reconnections == 1
        assert subscription.statistics().buffered == 3
        assert held <= client.statistics().undelivered_bytes < 1.5 * held
        bodies: list[bytes] = []
        for _ in range(5):
            message = await anext(subscription)
            bodies.append(message.body)
            await message.ack(receipt=True)
        assert bodies == [b"0", b"1", b"2", b"3", b"4"]
        assert client.statistics().undelivered_bytes == 0


async def test_ack_when_the_broker_refuses_it_and_ends_the_connection_then_the_error_says_so(broker: Broker) -> None:
    """The connection is gone, but the message is not merely stale."""
    async with reconnecting(broker) as client, client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", "x", receipt=True)
        message = await anext(subscription)
        broker.faults.now(SwallowReceipts())

        async def refuse() -> None:
            await trio.sleep(1)
            broker.faults.send_error("not yours", receipt_id="r-3")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)
            with pytest.raises(BrokerError, match="not yours"):
                await message.ack(receipt=True)
        assert client.statistics().errors_received == 1


async def test_subscriptions_when_the_next_broker_does_not_support_one_then_the_others_are_restored() -> None:
    async with open_broker(listen=False, options=BrokerOptions(server="ActiveMQ/6.1.8")) as old, rabbit() as new:
        host = Host(old)
        async with (
            reconnecting(host, new) as client,
            client.subscribe("/queue/a", selector="color = 'red'") as selected,
            client.subscribe("/queue/b") as plain,
        ):
            host.go_down()
            with pytest.raises(trio_stomp.NotSupportedError):
                await anext(selected)
            new.publish("/queue/b", b"1")
            with trio.fail_after(10):
                assert (await anext(plain)).body == b"1"


@pytest.mark.parametrize("profile", [None, "spring"])
async def test_subscriptions_when_one_has_failed_before_the_loss_then_the_others_are_restored(
    broker: Broker, profile: ProfileName | None
) -> None:
    async with (
        reconnecting(broker, profile=profile) as client,
        client.subscribe("/queue/a", ack="auto", prefetch=1, overflow="error") as failed,
        client.subscribe("/queue/b", ack="auto") as first,
        client.subscribe("/queue/c", ack="auto") as second,
    ):
        for _ in range(3):
            broker.publish("/queue/a", b"too many")
        await trio.sleep(1)
        broker.faults.now(DropLink())
        await trio.sleep(20)
        for destination, subscription in (("/queue/b", first), ("/queue/c", second)):
            broker.publish(destination, b"1")
            with trio.fail_after(10):
                assert (await anext(subscription)).body == b"1"
        with pytest.raises(trio_stomp.SubscriptionOverflow):
            await anext(failed)


async def test_message_when_an_error_names_nothing_then_it_is_found_out_and_the_others_are_confirmed() -> None:
    accepted: list[bytes] = []

    def prepare(peer: Peer, _number: int) -> None:
        """Hang up with an ERROR, as RabbitMQ does on what it refuses."""

        def take(frame: Frame) -> None:
            if frame.body == b"POISON":
                peer.error("access_refused", body=b"you may not")
                peer.hang_up()
                peer.on[Command.SEND] = lambda _: None
            else:
                accepted.append(frame.body)
                peer.confirm(frame)

        peer.on[Command.SEND] = take

    async with reconnecting_to_peers(prepare, PeerOptions(server=RABBITMQ)) as (client, host):
        with pytest.raises(UnconfirmedError) as caught:
            async with client.publisher() as publisher:
                for body in ("a", "b", "POISON", "c", "d"):
                    await publisher.send("/queue/a", body)
        (message,) = caught.value.messages
        assert message.delivery is DeliveryStatus.REJECTED
        assert "access_refused" in message.reason
        assert set(accepted) == {b"a", b"b", b"c", b"d"}
        assert client.statistics().reconnections == 2
        assert len(host.dialed) == 3


async def test_subscription_when_its_connection_was_lost_then_an_error_of_the_next_one_is_not_about_it() -> None:
    def prepare(peer: Peer, number: int) -> None:
        """Fail; then be lost while a subscription is restored alone; then fail before another one is."""

        def connect(_frame: Frame) -> None:
            peer.accept()
            if number == 3:
                peer.error("access_refused")

        def subscribe(frame: Frame) -> None:
            if number == 2:
                peer.hang_up()
                return
            peer.confirm(frame)
            if number == 1:
                peer.error("access_refused")
            else:
                peer.deliver(frame.headers["id"], b"x")

        peer.on.update({Command.CONNECT: connect, Command.SUBSCRIBE: subscribe})

    async with reconnecting_to_peers(prepare, PeerOptions(server=RABBITMQ)) as (client, host):
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            assert (await anext(subscription)).text == "x"
    assert len(host.dialed) == 4


async def be_refused(client: Client) -> None:
    """Let a plain send be refused, and wait for the next connection."""
    await client.send("/queue/closed", b"")
    await trio.sleep(20)
    assert client.state.healthy


async def test_subscription_when_later_messages_are_refused_then_it_goes_on(refusing: PeerHost) -> None:
    done: list[int] = []
    # That a plain one was refused is raised at the end.
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing) as client, client.subscribe("/queue/open") as subscription:
            for number in range(3):
                await be_refused(client)
                await client.send("/queue/open", str(number))
                async with await anext(subscription) as message:
                    assert message.text == str(number)
                done.append(number)
    assert done == [0, 1, 2]


async def test_confirmed_messages_when_plain_ones_are_refused_before_then_each_is_confirmed(refusing: PeerHost) -> None:
    done: list[int] = []
    # That a plain one was refused is raised at the end.
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing) as client:
            for number in range(3):
                await client.send("/queue/closed", b"")
                # It is in flight when the ERROR comes, is sent again alone, and was not to blame.
                await client.send("/queue/open", b"", receipt=True)
                await be_refused(client)
                async with client.publisher() as publisher:
                    await publisher.send("/queue/open", b"")
                    await client.send("/queue/closed", b"")
                done.append(number)
    assert done == [0, 1, 2]


async def test_transaction_when_the_link_is_lost_then_it_says_so_and_its_commit_goes_nowhere_else(
    broker: Broker,
) -> None:
    async with reconnecting(broker) as client:
        with pytest.raises(trio_stomp.TransactionLost, match="nothing in it takes effect"):
            async with client.transaction() as tx:
                await tx.send("/queue/a", "1")
                broker.faults.now(DropLink())
                await trio.sleep(20)
        await client.send("/queue/b", b"", receipt=True)
    assert broker.depth("/queue/a") == 0


async def test_run_transaction_when_the_link_is_lost_then_the_whole_runs_again(broker: Broker) -> None:
    runs = 0

    async def work(tx: trio_stomp.Transaction) -> str:
        nonlocal runs
        runs += 1
        await tx.send("/queue/a", "1")
        if runs < 3:
            broker.faults.now(DropLink())
            await trio.sleep(20)
        await tx.send("/queue/a", "2")
        return "done"

    async with reconnecting(broker) as client:
        assert await client.run_transaction(work) == "done"
        assert runs == 3
        assert broker.depth("/queue/a") == 2
        runs = 0
        with pytest.raises(trio_stomp.TransactionLost):
            await client.run_transaction(work, attempts=2)
        assert runs == 2


async def test_run_transaction_when_the_outcome_is_unknown_then_it_is_not_run_again(broker: Broker) -> None:
    runs = 0

    async def work(tx: trio_stomp.Transaction) -> None:
        nonlocal runs
        runs += 1
        await tx.send("/queue/a", "1")
        broker.faults.now(SwallowReceipts())

    async with reconnecting(broker) as client, trio.open_nursery() as nursery:
        nursery.start_soon(lose_after, 5, broker)
        with pytest.raises(trio_stomp.OutcomeUnknown):
            await client.run_transaction(work)
    assert runs == 1


async def test_run_transaction_when_no_connection_follows_then_it_is_not_run_again(
    broker: Broker, client: Client
) -> None:
    runs = 0

    async def work(tx: trio_stomp.Transaction) -> None:
        nonlocal runs
        runs += 1
        broker.faults.now(DropLink())
        await trio.sleep(5)
        await tx.send("/queue/a", "1")

    with pytest.raises(trio_stomp.TransactionLost):
        await client.run_transaction(work)
    assert runs == 1


async def test_restoring_when_the_one_that_is_waited_for_is_given_up_then_it_goes_on() -> None:
    """Found by the model: a careful restoration waited for ever for a message whose sender was cancelled."""
    async with rabbit() as broker, reconnecting(broker) as client:
        broker.faults.plan(SwallowReceipts(count=1), connections=None)
        broker.faults.now(SwallowReceipts(count=1))
        with trio.move_on_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(client.send, "/queue/a", b"1", receipt=True))
                await trio.sleep(1)
                broker.faults.send_error("something is wrong")
        with trio.fail_after(60):
            await client.send("/queue/b", b"2")


async def test_restoring_when_one_of_many_is_given_up_meanwhile_then_the_later_ones_are_sent_again() -> None:
    async with rabbit() as broker, reconnecting(broker) as client:
        # After an ERROR that names nothing, each waits for the RECEIPT of the one before it.
        broker.faults.plan(DelayReceipts(command=Command.SEND, seconds=5))
        broker.faults.now(SwallowReceipts(count=3))
        given_up = trio.CancelScope()

        async def give_up() -> None:
            with given_up:
                await client.send("/queue/a", b"2", receipt=True)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(client.send, "/queue/a", b"1", receipt=True))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(give_up)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(partial(client.send, "/queue/a", b"3", receipt=True))
                await trio.testing.wait_all_tasks_blocked()
                assert client.statistics().unconfirmed == 3
                broker.faults.send_error("something is wrong")
                await trio.sleep(3)
                given_up.cancel()
        assert [message.body for message in broker.messages("/queue/a")[3:]] == [b"1", b"3"]


async def test_message_when_the_next_broker_speaks_a_version_that_cannot_carry_it_then_only_that_one_fails(
    broker: Broker,
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(versions=[Version.V1_1])) as other:
        first, second = Host(broker), Host(other)
        async with reconnecting(first, second) as client:
            sent: list[Publication] = []
            with pytest.raises(UnconfirmedError, match=r"1 message was not confirmed.*'\\r'"):
                async with client.publisher() as publisher:
                    broker.faults.now(SwallowReceipts(count=2))
                    # STOMP 1.1 has no escape for it.
                    sent.append(await publisher.send("/queue/a", b"1", headers={"a": "b\rc"}))
                    sent.append(await publisher.send("/queue/a", b"2"))
                    await trio.sleep(1)
                    first.go_down()
        assert [each.delivery for each in sent] == [DeliveryStatus.UNKNOWN, DeliveryStatus.CONFIRMED]
        assert other.depth("/queue/a") == len(second.dialed) == 1
