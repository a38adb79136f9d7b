"""What a connection makes of what comes: whom an ERROR concerns, what belongs to nobody."""

from __future__ import annotations

import anyio
import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, client_of_peer, delivered
from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, PeerOptions
from tests.kit.tapped_stream import TappedStream
from trio_stomp import BrokerError, Client, ConnectionLost, DisconnectResult
from trio_stomp.testing import AnswerConnect, Broker, DuplicateReceipts, SwallowReceipts

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_receipts_when_unknown_or_doubled_then_counted_and_harmless(broker: Broker, client: Client) -> None:
    """Row 1x-RECEIPT-5."""
    broker.faults.now(DuplicateReceipts())
    broker.faults.send_bytes(b"RECEIPT\nreceipt-id:nobody\n\n\0")
    await client.send("/queue/a", b"1", receipt=True)
    await client.send("/queue/a", b"2", receipt=True)
    assert client.statistics().receipts_unexpected == 2
    assert await client.disconnect() is DisconnectResult.RECEIPT


async def test_statistics_when_frames_come_then_count_their_bytes(broker: Broker) -> None:
    stream = TappedStream(broker.connect_stream())
    async with trio_stomp.connect_stream(stream) as client:
        counted, came = client.statistics().bytes_received, len(stream.received)
        await client.send("/queue/a", b"1", receipt=True)
        assert client.statistics().bytes_received - counted == len(stream.received) - came > 0


async def test_error_when_it_names_a_receipt_then_only_that_operation_fails() -> None:
    """Rows 11-ERR-2, all-ERR-1: brokers go on after many an ERROR."""
    async with client_of("ActiveMQ/6.1") as (client, broker):
        broker.faults.now(SwallowReceipts())

        async def refuse() -> None:
            await trio.sleep(1)
            broker.faults.send_error("no such thing", "details", receipt_id="r-1", close=False)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)
            with pytest.raises(BrokerError, match="no such thing: details") as caught:
                await client.send("/queue/a", b"1", receipt=True)
        assert caught.value.receipt_id == "r-1"
        await client.send("/queue/a", b"2", receipt=True)


async def test_error_when_it_names_nothing_then_everybody_is_told_and_a_late_receipt_changes_nothing() -> None:
    async def send(client: Client) -> None:
        with pytest.raises(BrokerError, match="access_refused"):
            await client.send("/queue/a", b"1", receipt=True)

    async with client_of("RabbitMQ/3.10.8") as (client, broker):
        broker.faults.now(SwallowReceipts(count=2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            nursery.start_soon(send, client)
            await trio.testing.wait_all_tasks_blocked()
            broker.faults.send_error("access_refused", "", close=False)
            broker.faults.send_bytes(b"RECEIPT\nreceipt-id:r-1\n\n\0")
        with pytest.raises(BrokerError):
            await client.send("/queue/c", b"1")


async def test_error_when_rabbitmq_cancels_a_subscription_then_only_that_one_ends() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker), client.subscribe("/queue/b", id="other") as other:
        for body in (b"1", b"buffered"):
            broker.publish("/queue/a", body)
        async with client.subscribe("/queue/a", id="mine") as mine:
            message = await anext(mine)
            await trio.sleep(1)
            assert mine.statistics().buffered == 1
            broker.faults.send_bytes(
                b"ERROR\nmessage:Server cancelled subscription\nsubscription:mine\n\n"
                b"The server has canceled a subscription.\nNo more messages will be delivered for \"id='mine'\".\n\0"
            )
            await trio.sleep(1)
            with pytest.raises(BrokerError, match="Server cancelled subscription"):
                await anext(mine)
            with pytest.raises(trio_stomp.StaleMessage):
                await message.ack()
            broker.faults.send_bytes(b"MESSAGE\nmessage-id:9\nack:9\ndestination:/queue/a\nsubscription:mine\n\nlate\0")
            await trio.sleep(1)
            assert client.statistics().messages_unroutable == 1
        broker.publish("/queue/b", b"2")
        assert (await anext(other)).body == b"2"


async def test_error_when_rabbitmq_cancels_an_unknown_subscription_then_all_callers_are_told() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker), client.subscribe("/queue/a", id="mine") as mine:
        broker.faults.send_bytes(b"ERROR\nmessage:Server cancelled subscription\nsubscription:other\n\n\0")
        with pytest.raises(BrokerError, match="Server cancelled subscription"):
            await anext(mine)
        with pytest.raises(BrokerError, match="Server cancelled subscription"):
            await client.send("/queue/a", b"1")


async def test_error_when_rabbitmq_cancels_a_subscription_then_its_id_is_free_again() -> None:
    async with client_of_peer(PeerOptions(server=RABBITMQ)) as (client, peer):
        async with client.subscribe("/queue/a", id="s", ack="auto") as cancelled:
            # From now on, the peer complains of an UNSUBSCRIBE.
            del peer.ledger.subscriptions["s"]
            peer.error("Server cancelled subscription", [("subscription", "s")])
            with pytest.raises(BrokerError, match="Server cancelled subscription"):
                await anext(cancelled)
        async with client.subscribe("/queue/a", id="s", ack="auto") as again:
            assert (await delivered(peer, again, b"new")).body == b"new"


async def test_loss_when_the_stream_fails_then_its_error_is_the_cause(broker: Broker) -> None:
    reset = ConnectionResetError(104, "Connection reset by peer")

    class Reset(TappedStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            data = await super().receive_some(max_bytes)
            if data:
                return data
            raise anyio.BrokenResourceError from reset

    async with trio_stomp.connect_stream(Reset(broker.connect_stream())) as client:
        broker.drop_connections()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost, match="Connection reset by peer") as caught:
            await client.send("/queue/a", b"1")
        assert caught.value.__cause__ is reset


async def test_message_when_one_of_a_subscription_that_was_left_precedes_it_in_a_chunk_then_delivered() -> None:
    """Rows all-UNSUB-4, 1x-MSG-6."""
    async with client_of_peer(PeerOptions(server=RABBITMQ)) as (client, peer):
        async with client.subscribe("/queue/a", id="gone", ack="auto"):
            pass
        async with client.subscribe("/queue/a", id="s", ack="auto") as subscription:
            peer.put(
                b"MESSAGE\nsubscription:gone\nmessage-id:1\nack:1\ndestination:/queue/a\n\nlate\0"
                b"MESSAGE\nsubscription:s\nmessage-id:2\nack:2\ndestination:/queue/a\n\nmine\0"
            )
            with trio.fail_after(5):
                assert (await anext(subscription)).body == b"mine"
        assert client.statistics().messages_unroutable == 1


async def test_link_when_more_comes_in_the_chunk_of_connected_then_it_is_routed(broker: Broker) -> None:
    """Row all-CONN-5: read by the version that CONNECTED announces."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\nversion:1.2\n\n\0\nERROR\nmessage:shutting\\cdown\\r\n\n\0"))
    with pytest.raises(BrokerError) as caught:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            assert client.version == "1.2"
            await client.wait_closed()
    assert caught.value.message == "shutting:down\r"


async def test_link_when_connected_names_no_server_then_nothing_is_assumed_of_the_broker(broker: Broker) -> None:
    """Rows 1x-CONN-18, 1x-CONN-23, 10-CONN-21."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\n\n\0"))
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=1) as client:
        assert client.version == "1.0"
        assert client.server is None
        assert client.session_id is None
        assert client.profile.name == "unknown broker"
