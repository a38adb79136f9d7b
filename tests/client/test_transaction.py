"""Transactions: together or not at all, and what is left when the link goes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, client_of_peer, client_talking_to, delivered, pieces_of
from tests.kit.loops import lasting, on_loops
from tests.kit.peer import RABBITMQ, Peer, PeerOptions
from tests.kit.reconnecting import reconnecting
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import (
    BrokerError,
    Client,
    CommitTimeout,
    ConnectionClosed,
    LocalProtocolError,
    NotSupportedError,
    OutgoingMessage,
    StaleMessage,
    SubscriptionOverflow,
    Transaction,
    TransactionLost,
)
from trio_stomp.brokers import ACTIVEMQ
from trio_stomp.testing import (
    Broker,
    DelayReceipts,
    DropLink,
    ScriptedPeer,
    StallReading,
    SwallowReceipts,
)
from trio_stomp.types import AckName, Command, Settlement, TransactionState

pytestmark = [pytest.mark.anyio, on_loops("trio")]

ARTEMIS = "ActiveMQ-Artemis/2.44"
LARGE = b"x" * 1_000_000


class HandlerError(Exception):
    """What a handler raises."""


async def test_transaction_when_block_ends_well_then_all_takes_effect(client: Client, broker: Broker) -> None:
    """Rows all-TX-3, all-SEND-3, all-ACK-2."""
    await client.send("/queue/in", b"1", receipt=True)
    async with client.subscribe("/queue/in") as subscription:
        message = await anext(subscription)
        async with client.transaction() as transaction:
            await transaction.send("/queue/out", b"2")
            await transaction.ack(message)
            await client.send("/queue/other", b"", receipt=True)
            assert broker.depth("/queue/out") == 0
            assert message.settlement.value == "in a transaction"
        assert transaction.state is TransactionState.COMMITTED
        assert message.settlement is Settlement.ACKED
        assert broker.depth("/queue/out") == 1
        assert broker.unacknowledged("/queue/in") == 0


async def test_transaction_when_block_raises_then_nothing_does_and_the_error_is_itself(
    client: Client, broker: Broker
) -> None:
    """Row all-TX-4."""
    await client.send("/queue/in", b"1", receipt=True)
    raised = HandlerError()
    async with client.subscribe("/queue/in") as subscription:
        message = await anext(subscription)
        with pytest.raises(HandlerError) as caught:
            async with client.transaction() as transaction:
                await transaction.send("/queue/out", b"2")
                await transaction.ack(message)
                raise raised
        assert caught.value is raised
        assert message.settlement is Settlement.UNSETTLED
        await message.ack(receipt=True)
    assert broker.depth("/queue/out") == 0
    assert broker.statistics().received[Command.ABORT] == 1


async def test_transaction_when_over_then_its_verbs_are_refused(client: Client) -> None:
    """Row all-TX-7."""
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        async with client.transaction() as transaction:
            pass
        with pytest.raises(LocalProtocolError, match="is committed"):
            await transaction.ack(message)
        assert message.settlement is Settlement.UNSETTLED
    for call in (
        transaction.send("/queue/a", b""),
        transaction.send("/queue/a", pieces_of(b"1"), content_length=1),
        transaction.send_many([]),
        transaction.commit(),
    ):
        with pytest.raises(LocalProtocolError, match="is committed"):
            await call
    with pytest.raises(LocalProtocolError, match="is committed"):
        transaction.abort()


async def test_transaction_when_ended_by_hand_then_leaving_does_not_end_it_again(
    client: Client, broker: Broker
) -> None:
    async with client.transaction() as transaction:
        await transaction.send("/queue/a", b"1")
        await transaction.commit()
    async with client.transaction() as transaction:
        await transaction.send("/queue/a", b"2")
        transaction.abort()
    await client.send("/queue/b", b"", receipt=True)
    assert [frame.body for frame in broker.messages("/queue/a")] == [b"1"]


async def test_transactions_when_several_are_open_then_their_ids_differ(client: Client) -> None:
    """Row 12-TX-2."""
    ids: list[str] = []

    async def work(transaction: Transaction) -> None:
        await trio.lowlevel.checkpoint()
        ids.append(transaction.id)

    async with client.transaction() as first, client.transaction() as second:
        ids += [first.id, second.id]
    await client.run_transaction(work)
    assert ids == ["tx-1", "tx-2", "tx-3"]


async def test_send_when_the_link_is_lost_before_its_source_is_read_then_lost(broker: Broker) -> None:
    async with reconnecting(broker) as client:
        with pytest.raises(TransactionLost, match="nothing in it takes effect"):
            async with client.transaction() as transaction:
                broker.faults.now(DropLink())
                await trio.sleep(5)
                await transaction.send("/queue/a", pieces_of(b"1"), content_length=1)


async def test_transaction_when_message_is_of_another_connection_then_refused(client: Client, broker: Broker) -> None:
    await client.send("/queue/a", b"1")
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as other,
        client.subscribe("/queue/a") as subscription,
        other.transaction() as transaction,
    ):
        message = await anext(subscription)
        with pytest.raises(LocalProtocolError, match="another connection"):
            await transaction.ack(message)
        assert message.settlement is Settlement.UNSETTLED


async def test_nack_when_in_a_transaction_then_decided_with_it_and_it_may_say_requeue(
    broker: Broker, client: Client
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        async with client.transaction() as transaction:
            await transaction.nack(message)
        assert message.settlement is Settlement.NACKED
        again = await anext(subscription)
        assert again.redelivered
        async with client.transaction() as transaction:
            await transaction.nack(again, requeue=False)
    assert broker.depth("/queue/dead-letter") == 1


async def test_nack_when_activemq_then_not_supported_in_a_transaction() -> None:
    async with client_of("ActiveMQ/6.1") as (client, _):
        await client.send("/queue/a", b"1", headers={"persistent": "true"})
        async with client.subscribe("/queue/a") as subscription, client.transaction() as transaction:
            message = await anext(subscription)
            with pytest.raises(NotSupportedError, match="does not support NACK in a transaction"):
                await transaction.nack(message)


async def test_ack_when_artemis_and_aborted_then_the_message_is_open() -> None:
    async with client_of(ARTEMIS, versions=["1.1"]) as (client, _):
        await client.send("/queue/a", b"1")
        async with client.subscribe("/queue/a") as subscription:
            message = await anext(subscription)
            async with client.transaction() as transaction:
                await transaction.ack(message)
                transaction.abort()
            assert message.settlement is Settlement.UNSETTLED
            await message.ack(receipt=True)


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_subscription_when_left_before_the_end_of_its_transaction_on_artemis_then_that_comes_first(
    *, ack: AckName, is_committed: bool
) -> None:
    """Its ACKs follow the COMMIT, and Artemis takes none for a subscription that was left."""
    async with client_of_peer(PeerOptions(server=ARTEMIS), versions=["1.1"]) as (client, peer):
        async with client.transaction() as second, client.transaction() as first:
            async with client.subscribe("/queue/a", ack=ack) as subscription:
                for body in (b"1", b"2", b"3"):
                    peer.deliver(subscription.id, body)
                messages = [await anext(subscription) for _ in range(3)]
                await first.ack(messages[0])
                await second.ack(messages[1])
            with pytest.raises(StaleMessage):
                await messages[2].ack()
            await client.send("/queue/b", b"", receipt=True)
            assert Command.UNSUBSCRIBE not in peer.commands
            if not is_committed:
                first.abort()
                second.abort()
        await client.send("/queue/b", b"", receipt=True)
        settled = [each for each in peer.commands if each in (Command.COMMIT, Command.ACK, Command.UNSUBSCRIBE)]
        assert settled == ([Command.COMMIT, Command.ACK] * 2 if is_committed else []) + [Command.UNSUBSCRIBE]
        assert all(each.is_stale for each in messages)


async def test_subscription_when_left_before_the_end_of_its_transaction_in_client_mode_then_that_comes_first() -> None:
    """ActiveMQ Classic forgets the ACKs of a subscription that is left before COMMIT."""
    async with client_of_peer(PeerOptions(server="ActiveMQ/6.1"), versions=["1.1"]) as (client, peer):
        async with client.transaction() as transaction, client.subscribe("/queue/a", ack="client") as subscription:
            for body in (b"1", b"2"):
                peer.deliver(subscription.id, body)
            messages = [await anext(subscription) for _ in range(2)]
            await transaction.ack(messages[1])
        await client.send("/queue/b", b"", receipt=True)
        assert peer.commands[-4:] == [Command.ACK, Command.COMMIT, Command.UNSUBSCRIBE, Command.SEND]
        assert [each.settlement for each in messages] == [Settlement.ACKED] * 2


@pytest.mark.parametrize("same", ["destination", "id"])
async def test_subscription_when_left_and_opened_again_before_commit_on_artemis_then_the_new_one_gets_messages(
    same: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of_peer(PeerOptions(server=ARTEMIS)) as (client, peer), client.transaction() as transaction:
        async with client.subscribe("/queue/a", id="s") as subscription:
            await transaction.ack(await delivered(peer, subscription))
        id_, destination = ("s", "/queue/b") if same == "id" else ("t", "/queue/a")
        async with client.subscribe(destination, id=id_):
            assert peer.commands[-2:] == [Command.UNSUBSCRIBE, Command.SUBSCRIBE]
        await transaction.commit()
        assert "was settled in a transaction, but stays unsettled" in caplog.text
        assert Command.ACK not in peer.commands


async def test_subscription_when_left_and_opened_again_before_commit_in_client_mode_then_the_log_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of_peer(PeerOptions(server="ActiveMQ/6.1")) as (client, peer):
        async with client.transaction() as transaction:
            async with client.subscribe("/queue/a", ack="client") as subscription:
                await transaction.ack(await delivered(peer, subscription))
            async with client.subscribe("/queue/a"):
                assert peer.commands[-2:] == [Command.UNSUBSCRIBE, Command.SUBSCRIBE]
        assert "was settled in a transaction, but may be redelivered" in caplog.text


async def test_subscription_when_another_cannot_be_opened_before_commit_on_artemis_then_it_is_left_after_it() -> None:
    async with (
        client_of_peer(PeerOptions(server=ARTEMIS), versions=["1.1"]) as (client, peer),
        client.subscribe("/queue/b", id="t"),
    ):
        async with client.transaction() as transaction:
            async with client.subscribe("/queue/a") as subscription:
                await transaction.ack(await delivered(peer, subscription))
            with pytest.raises(LocalProtocolError, match="ids must differ"):
                async with client.subscribe("/queue/a", id="t"):
                    raise AssertionError
        await client.send("/queue/c", b"", receipt=True)
        assert peer.commands[-4:] == [Command.COMMIT, Command.ACK, Command.UNSUBSCRIBE, Command.SEND]


async def test_subscription_when_left_and_messages_come_before_the_end_of_its_transaction_then_none_is_kept() -> None:
    async with (
        client_of_peer(PeerOptions(server=ARTEMIS), versions=["1.1"]) as (client, peer),
        client.transaction() as transaction,
    ):
        async with client.subscribe("/queue/a") as subscription:
            await transaction.ack(await delivered(peer, subscription))
        peer.deliver(subscription.id, LARGE)
        await client.send("/queue/b", b"", receipt=True)
        assert client.statistics().messages_received == 2
        assert client.statistics().undelivered_bytes == 0


async def test_subscription_when_it_overflows_before_the_end_of_its_transaction_then_that_comes_first() -> None:
    async with client_of_peer(PeerOptions(server=ARTEMIS), versions=["1.1"]) as (client, peer):
        with pytest.raises(SubscriptionOverflow):
            async with client.subscribe("/queue/a", prefetch=1, overflow="error") as subscription:
                async with client.transaction() as transaction:
                    await transaction.ack(await delivered(peer, subscription))
                    for body in (b"2", b"3"):
                        peer.deliver(subscription.id, body)
                    await client.send("/queue/b", b"", receipt=True)
                await client.send("/queue/b", b"", receipt=True)
                assert peer.commands[-4:] == [Command.COMMIT, Command.ACK, Command.UNSUBSCRIBE, Command.SEND]


async def test_subscription_when_the_link_is_lost_before_the_end_of_its_transaction_then_its_message_comes_again(
    broker: Broker,
) -> None:
    async with reconnecting(broker) as client:
        with pytest.raises(TransactionLost):
            async with client.transaction() as transaction:
                async with client.subscribe("/queue/a", ack="client") as subscription:
                    broker.publish("/queue/a", b"1")
                    await transaction.ack(await anext(subscription))
                broker.faults.now(DropLink())
                await trio.sleep(5)
        async with client.subscribe("/queue/a") as again:
            assert (await anext(again)).redelivered
        assert client.statistics().subscriptions == ()


async def test_subscription_when_left_and_disconnected_before_the_end_of_its_transaction_then_that_is_lost() -> None:
    async with client_of_peer(PeerOptions(server=ARTEMIS)) as (client, peer):
        with pytest.raises(TransactionLost):
            async with client.transaction() as transaction:
                async with client.subscribe("/queue/a") as subscription:
                    await transaction.ack(await delivered(peer, subscription))
                assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
        assert peer.commands[-2:] == [Command.SUBSCRIBE, Command.DISCONNECT]


async def test_subscription_when_the_broker_ends_it_before_the_end_of_its_transaction_then_it_is_not_left() -> None:
    profile = replace(ACTIVEMQ, cancels_subscriptions=True)
    async with client_of_peer(profile=profile, versions=["1.1"]) as (client, peer):
        async with client.transaction() as transaction:
            async with client.subscribe("/queue/a", id="s", ack="client") as subscription:
                await transaction.ack(await delivered(peer, subscription))
            peer.error("the queue was deleted", [("subscription", "s")])
            await trio.sleep(1)
        assert transaction.state is TransactionState.COMMITTED
    assert peer.commands[-3:] == [Command.ACK, Command.COMMIT, Command.DISCONNECT]


async def test_subscription_when_the_outcome_of_its_transaction_is_unknown_on_artemis_then_it_is_left() -> None:
    async with client_of_peer(PeerOptions(server=ARTEMIS, silent=frozenset({Command.COMMIT}))) as (client, peer):
        with pytest.raises(CommitTimeout):
            async with client.transaction(timeout=1) as transaction, client.subscribe("/queue/a") as subscription:
                await transaction.ack(await delivered(peer, subscription))
                # Leaving the subscription comes first.
        await client.send("/queue/b", b"", receipt=True)
        assert peer.commands[-3:] == [Command.COMMIT, Command.UNSUBSCRIBE, Command.SEND]


async def test_commit_when_the_receipts_of_sends_come_last_then_each_is_waited_for() -> None:
    async def answer(peer: Peer) -> None:
        await peer.wait_for(Command.COMMIT)
        for receipt_id in peer.kept_back:
            await trio.sleep(3)
            peer.answer(receipt_id)

    options = PeerOptions(server=RABBITMQ, silent=frozenset({Command.SEND}))
    async with client_of_peer(options) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(answer, peer)
        with lasting(9):
            async with client.transaction() as transaction:
                for _ in range(3):
                    await transaction.send("/queue/a", b"1")
        with pytest.raises(HandlerError):
            async with client.transaction() as transaction:
                await transaction.send("/queue/a", b"2")
                raise HandlerError
        assert client.statistics().receipts_pending == 0
    assert client.statistics().receipts_unexpected == 0


async def test_commit_when_the_broker_refuses_it_then_aborted_and_its_messages_are_open() -> None:
    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(version="1.1")
        await peer.expect(Command.SUBSCRIBE, id="s")
        await peer.send(Command.MESSAGE, {"subscription": "s", "message-id": "1", "destination": "/queue/a"})
        await peer.expect(Command.BEGIN)
        await peer.expect(Command.ACK)
        commit = await peer.expect(Command.COMMIT)
        await peer.send(Command.ERROR, {"message": "no", "receipt-id": commit.headers["receipt"]})
        await peer.expect(Command.ACK)
        await peer.expect(Command.UNSUBSCRIBE)
        await peer.expect_disconnect()

    async with client_talking_to(serve) as client, client.subscribe("/queue/a", id="s") as subscription:
        message = await anext(subscription)
        async with client.transaction() as transaction:
            await transaction.ack(message)
            with pytest.raises(BrokerError, match="no"):
                await transaction.commit()
            assert transaction.state is TransactionState.ABORTED
        assert message.settlement is Settlement.UNSETTLED
        await message.ack()


async def test_transaction_when_the_program_is_disconnecting_then_its_verbs_say_that_the_client_was_closed(
    broker: Broker, client: Client
) -> None:
    async with trio.open_nursery() as nursery, client.transaction() as transaction:
        broker.faults.now(DelayReceipts(seconds=5))
        nursery.start_soon(partial(client.send, "/queue/a", b"1", receipt=True))
        await trio.sleep(1)
        nursery.start_soon(client.disconnect)  # it waits for that receipt
        await trio.sleep(1)
        with pytest.raises(ConnectionClosed):
            await transaction.send("/queue/a", b"2")
        transaction.abort()


async def test_send_when_committed_and_then_the_link_is_lost_then_it_says_committed(broker: Broker) -> None:
    async with reconnecting(broker) as client:
        async with client.transaction() as transaction:
            await transaction.send("/queue/a", b"1")
        broker.faults.now(DropLink())
        await trio.sleep(5)
        with pytest.raises(LocalProtocolError, match="is committed"):
            await transaction.send("/queue/a", b"2")


async def test_send_when_aborted_while_it_waits_for_room_then_refused_and_not_sent(broker: Broker) -> None:
    refused = trio.Event()

    async def send(transaction: Transaction) -> None:
        with pytest.raises(LocalProtocolError, match="is aborted"):
            await transaction.send("/queue/a", b"late")
        refused.set()

    async with (
        trio_stomp.connect_stream(broker.connect_stream(), outbox_bytes=500) as client,
        trio.open_nursery() as nursery,
    ):
        async with client.transaction() as transaction:
            broker.faults.now(StallReading())
            await transaction.send("/queue/a", LARGE)
            nursery.start_soon(send, transaction)  # noqa: ASYNC111  # it ends within the block, as the transaction is aborted
            await trio.sleep(1)
            assert not refused.is_set()
            transaction.abort()
            broker.faults.resume()
        await refused.wait()
    assert broker.statistics().received[Command.SEND] == 1


async def test_send_many_when_the_outbox_is_full_then_it_waits_in_the_middle(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), outbox_bytes=500) as client:
        async with client.transaction() as transaction:
            broker.faults.now(StallReading())
            with trio.move_on_after(1) as scope:
                await transaction.send_many([OutgoingMessage("/queue/a", body) for body in (LARGE, b"waits")])
            assert scope.cancelled_caught
            broker.faults.resume()


async def test_send_many_when_committed_then_all_take_effect_in_order(broker: Broker) -> None:
    # Little may wait to be written, so that the call has to wait in the middle.
    async with trio_stomp.connect_stream(broker.connect_stream(), outbox_bytes=500) as client:
        async with client.transaction() as tx:
            await tx.send_many(OutgoingMessage("/queue/a", str(number)) for number in range(100))
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            assert [(await anext(subscription)).text for _ in range(100)] == [str(number) for number in range(100)]


@pytest.mark.parametrize("verb", ["ack", "nack"])
async def test_settling_when_the_connection_of_the_message_was_lost_then_stale(broker: Broker, verb: str) -> None:
    async with reconnecting(broker) as client, client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", b"1")
        message = await anext(subscription)
        broker.faults.now(DropLink())
        await trio.sleep(5)
        async with client.transaction() as transaction:
            with pytest.raises(StaleMessage, match="its connection is gone; the broker redelivers it"):
                await (transaction.ack(message) if verb == "ack" else transaction.nack(message))
            again = await anext(subscription)
            await transaction.ack(again)
        assert again.settlement is Settlement.ACKED


@pytest.mark.parametrize("server", ["trio-stomp-testing/1", "RabbitMQ/4.1.4"])
async def test_send_when_refused_locally_then_the_transaction_goes_on_and_no_receipt_of_it_is_awaited(
    server: str,
) -> None:
    """Behind RabbitMQ, each message of a transaction has a RECEIPT of its own."""
    async with client_of(server) as (client, broker):
        with trio.fail_after(5):
            async with client.transaction() as transaction:
                await transaction.send("/queue/a", b"1")
                await trio.testing.wait_all_tasks_blocked()
                pending = client.statistics().receipts_pending
                with pytest.raises(LocalProtocolError):
                    await transaction.send("/queue/a", b"2", headers={"bad": "\0"})
                with pytest.raises(NotSupportedError):
                    await transaction.send("/queue/a", b"2", group="g", dedup_id="1")
                assert client.statistics().receipts_pending == pending
        assert client.statistics().receipts_pending == 0
        assert broker.depth("/queue/a") == 1


async def test_abort_when_messages_are_unsettled_again_then_they_are_in_the_order_of_delivery(broker: Broker) -> None:
    stream = TappedStream(broker.connect_stream())
    async with trio_stomp.connect_stream(stream) as client, client.subscribe("/queue/a") as subscription:
        for number in range(3):
            broker.publish("/queue/a", b"%d" % number)
        messages = [await anext(subscription) for _ in range(3)]
        with pytest.raises(HandlerError):
            async with client.transaction() as transaction:
                await transaction.ack(messages[0])
                raise HandlerError
        await subscription.ack_up_to(messages[2])
        await client.send("/queue/b", b"", receipt=True)
    frames, _ = frames_of(stream.sent)
    acks = [each.headers for each in frames if each.command is Command.ACK and "transaction" not in each.headers]
    assert [headers["id"] for headers in acks] == [message.headers["ack"] for message in messages]


async def test_commit_when_cancelled_on_rabbitmq_then_leaving_does_not_wait_for_its_messages() -> None:
    async with client_of("RabbitMQ/3.13") as (client, broker):
        broker.faults.now(SwallowReceipts(command=Command.SEND, count=2))
        with trio.move_on_after(1) as scope:
            async with client.transaction() as transaction:
                await transaction.send("/queue/a", b"1")
                await transaction.send("/queue/a", b"2")
        assert scope.cancelled_caught
        began = trio.current_time()
        assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
        assert trio.current_time() - began < 1
