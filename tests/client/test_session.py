"""The session: verbs between one connection and the next."""

from functools import partial

import pytest
import trio

import trio_stomp
from tests.client.clients import lose_after
from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, reconnecting, settings_for
from trio_stomp import ConnectionLost, Message, Reconnect
from trio_stomp.session.dialing import dial_in_order
from trio_stomp.session.reconnecting import supervise
from trio_stomp.session.send import prepare, send_prepared
from trio_stomp.session.session import Session
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    DropLink,
    StallReading,
    SwallowReceipts,
    open_broker,
)
from trio_stomp.types import Command, Phase, Version

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_verbs_when_there_is_no_connection_then_they_wait_for_the_next(broker: Broker, host: Host) -> None:
    async def come_back() -> None:
        await trio.sleep(5)
        host.refuses = False

    async with reconnecting(host) as client, trio.open_nursery() as nursery:
        host.go_down()
        await trio.sleep(1)
        with trio.move_on_after(5) as scope:
            await client.send("/queue/a", b"")
        assert scope.cancelled_caught
        nursery.start_soon(come_back)
        async with client.subscribe("/queue/a") as subscription:
            await client.send("/queue/a", b"1", receipt=True)
            assert (await anext(subscription)).body == b"1"
        host.go_down()
        await trio.sleep(1)
        nursery.start_soon(come_back)
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"")
    assert broker.depth("/queue/b") == 1


async def test_facts_when_the_client_has_moved_to_another_broker_then_they_are_of_that_one(broker: Broker) -> None:
    options = BrokerOptions(server="RabbitMQ/4.1", versions=[Version.V1_1], heart_beat=(0, 0))
    async with open_broker(listen=False, options=options) as other:
        first, second = Host(broker), Host(other)
        async with reconnecting(first, second) as client:
            first.go_down()
            await client.send("/queue/a", b"", receipt=True)
            # It is confirmed while the client still restores.
            await trio.testing.wait_all_tasks_blocked()
            assert client.state.endpoint == "stomp://h1:61613"
            assert (client.version, client.server, client.profile.name) == ("1.1", "RabbitMQ/4.1", "RabbitMQ")
            assert client.heart_beat.server_sends_ms == 0


async def test_counters_when_connections_follow_each_other_then_they_go_on(broker: Broker) -> None:
    async with reconnecting(broker) as client:
        for _ in range(3):
            await client.send("/queue/a", b"", receipt=True)
            broker.faults.now(DropLink())
            await trio.sleep(20)
        statistics = client.statistics()
        assert statistics.reconnections == 3
        assert statistics.receipts_received == 3
        assert statistics.outbox_bytes == 0


@pytest.mark.parametrize("value", ["plain", "two\nlines"])
async def test_prepared_message_when_the_connection_is_another_meanwhile_then_sent_on_that_one(
    broker: Broker, value: str
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(versions=[Version.V1_1])) as other:
        first, second = Host(broker), Host(other)
        settings = settings_for([first, second])
        session = Session(await dial_in_order(settings), settings)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise, session)
            prepared = prepare(session, ("/queue/a", b"x", {"a": value}, None, None))
            assert prepared is not None
            first.go_down()
            await trio.sleep(5)
            await send_prepared(session, prepared)
            await session.leave()
        assert [(message.body, message.headers["a"]) for message in other.messages("/queue/a")] == [(b"x", value)]


async def test_body_when_it_raises_while_there_is_no_connection_then_its_exception_leaves_as_itself(
    broker: Broker,
) -> None:
    host, mine = Host(broker), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        async with reconnecting(host):
            host.go_down()
            await trio.sleep(3)
            raise mine
    assert caught.value is mine


async def test_leaving_when_the_link_is_lost_with_nothing_unconfirmed_then_that_is_no_error(broker: Broker) -> None:
    """The link is gone before DISCONNECT, which had only one thing left to say."""
    broker.publish("/queue/a", b"")
    async with trio.open_nursery() as nursery:
        async with reconnecting(broker) as client, client.subscribe("/queue/a") as subscription:
            broker.faults.now(SwallowReceipts(command=Command.ACK))

            async def acknowledge(message: Message) -> None:
                with pytest.raises(ConnectionLost):
                    await message.ack(receipt=True)

            message = await anext(subscription)
            nursery.start_soon(acknowledge, message)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(lose_after, 1, broker)
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(1, abs=0.1)
    assert client.state.phase is Phase.CLOSED
    assert client.state.cause is None


@pytest.mark.parametrize("left_after", [1, 2.1], ids=["lost while leaving", "lost before"])
async def test_leaving_when_the_link_is_lost_with_one_message_unconfirmed_then_the_next_connection_confirms_it(
    broker: Broker, left_after: float
) -> None:
    async with trio.open_nursery() as nursery:
        async with reconnecting(broker) as client:
            broker.faults.now(SwallowReceipts())
            # The block waits for it, as for everything unconfirmed.
            nursery.start_soon(partial(client.send, "/queue/a", b"", receipt=True))  # noqa: ASYNC111  # see above
            nursery.start_soon(lose_after, 2, broker)
            await trio.sleep(left_after)
        assert client.statistics().reconnections == 1


async def test_leaving_when_a_receipt_is_awaited_then_new_work_is_refused(broker: Broker) -> None:
    async with reconnecting(broker) as client, trio.open_nursery() as nursery:
        broker.faults.now(DelayReceipts(seconds=3))
        nursery.start_soon(partial(client.send, "/queue/a", b"1", receipt=True))
        await trio.sleep(1)
        nursery.start_soon(client.disconnect)
        await trio.sleep(1)
        refused_at = trio.current_time()
        with pytest.raises(trio_stomp.ConnectionClosed):
            await client.send("/queue/a", b"late")
        assert trio.current_time() == refused_at
    assert broker.depth("/queue/a") == 1


async def test_leaving_when_the_broker_does_not_read_what_is_unconfirmed_then_no_other_connection_is_dialed(
    broker: Broker,
) -> None:
    host, said = Host(broker), r"bytes could not be written within 4 s \(disconnect_timeout\)"
    async with trio.open_nursery() as nursery:
        async with reconnecting(host, disconnect_timeout=4, heart_beat=(0, 0)) as client:
            broker.faults.now(StallReading())

            async def send() -> None:
                with pytest.raises(ConnectionLost, match=said):
                    await client.send("/queue/a", b"x" * 1_000_000, receipt=True)

            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionLost, match=said):
                await client.disconnect()
            await trio.sleep(100)
    assert len(host.dialed) == 1


async def test_leaving_when_the_program_saw_an_earlier_loss_but_not_the_last_one_then_that_is_raised(
    broker: Broker, host: Host
) -> None:
    broker.publish("/queue/a", b"")

    async def acknowledge(message: Message) -> None:
        with pytest.raises(trio_stomp.StaleMessage):
            await message.ack(receipt=True)

    async with trio.open_nursery() as nursery:
        with pytest.raises(ConnectionLost, match="give up"):
            async with (
                reconnecting(host, reconnect=Reconnect(attempts=2)) as client,
                client.subscribe("/queue/a") as subscription,
            ):
                broker.faults.now(SwallowReceipts(command=Command.ACK))
                message = await anext(subscription)
                nursery.start_soon(acknowledge, message)
                await trio.sleep(1)
                host.go_down()
                await trio.sleep(100)
