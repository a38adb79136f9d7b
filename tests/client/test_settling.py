"""Settling messages: one, all up to one, and never those of another subscription."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, client_of_peer, fill
from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, PeerOptions
from trio_stomp import Client, LocalProtocolError, NotSupportedError
from trio_stomp.testing import Broker
from trio_stomp.types import AckName, Command, Settlement

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@pytest.mark.parametrize("how", ["ack", "ack with a receipt", "block"])
async def test_client_mode_when_acked_then_all_earlier_ones_are_too(client: Client, broker: Broker, how: str) -> None:
    """Row 1x-SUB-11."""
    await fill(client, "/queue/a", 4)
    async with client.subscribe("/queue/a", ack="client") as subscription:
        messages = [await anext(subscription) for _ in range(4)]
        if how == "block":
            async with messages[2]:
                pass
        else:
            await messages[2].ack(receipt=how == "ack with a receipt")
        assert [message.settlement for message in messages] == [Settlement.ACKED] * 3 + [Settlement.UNSETTLED]
        await client.send("/queue/b", b"", receipt=True)
        assert broker.unacknowledged("/queue/a") == 1
        assert broker.statistics().received[Command.ACK] == 1


async def test_client_mode_when_nacked_then_all_earlier_ones_are_too(client: Client) -> None:
    """Rows 11-NACK-3, 12-NACK-3."""
    await fill(client, "/queue/a", 3)
    async with client.subscribe("/queue/a", ack="client") as subscription:
        messages = [await anext(subscription) for _ in range(3)]
        await messages[1].nack(receipt=True)
        assert [message.settlement for message in messages] == [Settlement.NACKED] * 2 + [Settlement.UNSETTLED]
        again = {(await anext(subscription)).body for _ in range(2)}
        assert again == {b"0", b"1"}


async def test_client_mode_when_nacked_with_a_choice_then_it_goes_for_each_of_them(
    client: Client, broker: Broker
) -> None:
    await fill(client, "/queue/a", 3)
    async with client.subscribe("/queue/a", ack="client") as subscription:
        messages = [await anext(subscription) for _ in range(3)]
        await messages[2].nack(requeue=False, receipt=True)
    assert (broker.depth("/queue/a"), broker.depth("/queue/dead-letter")) == (0, 3)


async def test_client_mode_when_an_earlier_one_would_be_lost_then_none_is_nacked() -> None:
    async with client_of("ActiveMQ/6.1") as (client, broker):
        await client.send("/queue/a", b"transient")
        await client.send("/queue/a", b"kept", headers={"persistent": "true"})
        async with client.subscribe("/queue/a", ack="client") as subscription:
            messages = [await anext(subscription) for _ in range(2)]
            with pytest.raises(NotSupportedError, match="would drop the message"):
                await messages[1].nack()
            assert {message.settlement for message in messages} == {Settlement.UNSETTLED}
        assert Command.NACK not in broker.statistics().received


async def test_client_mode_when_rabbitmq_then_single_acks_spare_other_subscriptions() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker):
        await fill(client, "/queue/a", 3)
        async with client.subscribe("/queue/a", ack="client") as subscription:
            assert subscription.ack_mode == "client"
            messages = [await anext(subscription) for _ in range(3)]
            await messages[1].ack(receipt=True)
            assert broker.statistics().received[Command.ACK] == 2
            assert broker.unacknowledged("/queue/a") == 1


async def test_client_mode_when_a_frame_cannot_be_encoded_then_no_other_one_is_sent() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker):
        await fill(client, "/queue/a", 2)
        async with client.subscribe("/queue/a", ack="client") as subscription:
            messages = [await anext(subscription) for _ in range(2)]
            with pytest.raises(LocalProtocolError):
                await messages[1].ack(headers={"x-own": "\0"})
            await client.send("/queue/b", b"", receipt=True)
            assert {message.settlement for message in messages} == {Settlement.UNSETTLED}
            assert broker.statistics().received[Command.ACK] == 0
            await messages[1].ack(receipt=True)
            assert broker.unacknowledged("/queue/a") == 0


async def test_client_mode_when_rabbitmq_and_1_0_then_one_subscription_of_a_connection_may_use_it() -> None:
    async with client_of("RabbitMQ/3.10.8", versions=["1.0"]) as (client, _):
        await fill(client, "/queue/a", 2)
        async with client.subscribe("/queue/a", ack="client") as subscription, client.subscribe("/queue/b", ack="auto"):
            await anext(subscription)
            with pytest.raises(NotSupportedError, match="only one such subscription"):
                async with client.subscribe("/queue/c", ack="client"):
                    raise AssertionError
            await (await anext(subscription)).ack()
        with pytest.raises(NotSupportedError, match="only one such subscription"):
            async with client.subscribe("/queue/a", ack="client"):
                raise AssertionError


async def test_client_mode_when_rabbitmq_and_1_0_and_one_could_not_be_opened_then_another_one_may_use_it() -> None:
    async with (
        client_of("RabbitMQ/3.10.8", versions=["1.0"]) as (client, _),
        client.subscribe("/queue/a", id="s", ack="auto"),
    ):
        with pytest.raises(LocalProtocolError, match="ids must differ"):
            async with client.subscribe("/queue/b", id="s", ack="client"):
                raise AssertionError
        async with client.subscribe("/queue/b", ack="client") as subscription:
            await client.send("/queue/b", b"1")
            await (await anext(subscription)).ack(receipt=True)


async def test_individual_mode_when_a_later_one_is_acked_then_earlier_ones_stay_open(
    client: Client, broker: Broker
) -> None:
    """Row 1x-SUB-13."""
    await fill(client, "/queue/a", 3)
    async with client.subscribe("/queue/a") as subscription:
        messages = [await anext(subscription) for _ in range(3)]
        await messages[2].ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 2
        assert messages[0].settlement is Settlement.UNSETTLED


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_ack_up_to_when_called_then_all_open_ones_up_to_it_are_settled(
    client: Client, broker: Broker, ack: AckName
) -> None:
    await fill(client, "/queue/a", 5)
    async with client.subscribe("/queue/a", ack=ack) as subscription:
        messages = await subscription.receive_batch(5, linger=1)
        await messages[1].ack()
        await subscription.ack_up_to(messages[3])
        await client.send("/queue/b", b"", receipt=True)
        assert broker.unacknowledged("/queue/a") == 1
        assert [message.settlement for message in messages] == [Settlement.ACKED] * 4 + [Settlement.UNSETTLED]
        with pytest.raises(LocalProtocolError, match="it is settled"):
            await subscription.ack_up_to(messages[0])


@pytest.mark.parametrize("receipt", [False, True])
@pytest.mark.parametrize("command", [Command.ACK, Command.NACK])
@pytest.mark.parametrize(("ack", "expected"), [("client", [None, "because"]), ("client-individual", ["because"])])
async def test_settling_when_it_has_headers_then_the_frame_of_that_message_has_them_and_no_other(
    ack: AckName, expected: list[str | None], command: Command, receipt: bool
) -> None:
    """On RabbitMQ, where in mode client each of the messages has a frame of its own."""
    async with (
        client_of_peer(PeerOptions(server=RABBITMQ)) as (client, peer),
        client.subscribe("/queue/a", id="s", ack=ack) as subscription,
    ):
        for body in (b"1", b"2"):
            peer.deliver("s", body)
        _, message = await subscription.receive_batch(2, linger=1)
        settle = message.ack if command is Command.ACK else message.nack
        await settle(receipt=receipt, headers={"x-why": "because"})
        await trio.testing.wait_all_tasks_blocked()
        assert [frame.headers.get("x-why") for frame in peer.of(command)] == expected


async def test_nack_when_it_says_requeue_then_the_broker_does_that(broker: Broker, client: Client) -> None:
    async with client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", b"1")
        await (await anext(subscription)).nack(requeue=True)
        again = await anext(subscription)
        assert (again.redelivered, again.delivery_count) == (True, 2)
        await again.nack(requeue=False, receipt=True)
    assert broker.depth("/queue/a") == 0
    assert broker.depth("/queue/dead-letter") == 1


@pytest.mark.parametrize(
    ("server", "requeue", "said"),
    [
        ("ActiveMQ/6.1", True, "ActiveMQ Classic has no NACK with requeue=True for .*; leave it unsettled"),
        ("ActiveMQ/6.1", False, "ActiveMQ Classic would drop the message"),
        ("ActiveMQ-Artemis/2.44", True, "ActiveMQ Artemis has no NACK with requeue=True"),
        ("ActiveMQ-Artemis/2.44", False, "ActiveMQ Artemis would drop the message"),
        (None, False, "unknown broker has no NACK with requeue=False for .*; send it to a dead-letter destination"),
    ],
)
async def test_nack_when_the_broker_has_no_such_choice_then_refused_here(
    server: str | None, requeue: bool, said: str
) -> None:
    async with client_of(server) as (client, _), client.subscribe("/queue/a") as subscription:
        await client.send("/queue/a", b"1")
        message = await anext(subscription)
        with pytest.raises(NotSupportedError, match=said):
            await message.nack(requeue=requeue)
        assert message.settlement is trio_stomp.types.Settlement.UNSETTLED


async def test_ack_up_to_when_the_message_is_of_another_subscription_then_refused_and_nothing_is_settled(
    client: Client, broker: Broker
) -> None:
    await fill(client, "/queue/a", 3)
    await fill(client, "/queue/b", 3)
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as other_client,
        client.subscribe("/queue/a", id="a") as subscription,
        client.subscribe("/queue/b", id="b") as other,
        other_client.subscribe("/queue/c") as elsewhere,
    ):
        mine = await subscription.receive_batch(3, linger=1)
        (foreign,) = await other.receive_batch(1)
        await client.send("/queue/c", b"")
        away = await anext(elsewhere)
        for message, name in ((foreign, "'b' to '/queue/b'"), (away, "to '/queue/c'")):
            with pytest.raises(LocalProtocolError, match=f"came over subscription .*{name}, not over .*'a'"):
                await subscription.ack_up_to(message)
            assert message.settlement is Settlement.UNSETTLED
        await client.send("/queue/d", b"", receipt=True)
        assert {message.settlement for message in mine} == {Settlement.UNSETTLED}
        assert Command.ACK not in broker.statistics().received


async def test_ack_up_to_when_an_earlier_one_is_promised_to_a_transaction_then_the_transaction_decides_it() -> None:
    """On Artemis, where an ACK follows the COMMIT of its transaction."""
    async with (
        client_of("ActiveMQ-Artemis/2.44", versions=["1.1"]) as (client, broker),
        client.subscribe("/queue/a") as subscription,
    ):
        await fill(client, "/queue/a", 3)
        messages = await subscription.receive_batch(3, linger=1)
        async with client.transaction() as transaction:
            await transaction.ack(messages[0])
            with pytest.raises(LocalProtocolError, match="it is settled"):
                await transaction.ack(messages[0])
            await subscription.ack_up_to(messages[2])
            assert [message.settlement for message in messages] == [Settlement.IN_TRANSACTION] + [Settlement.ACKED] * 2
            await client.send("/queue/b", b"", receipt=True)
            assert broker.statistics().received[Command.ACK] == 2
        await client.send("/queue/b", b"", receipt=True)
        assert broker.statistics().received[Command.ACK] == 3
        assert broker.unacknowledged("/queue/a") == 0
        assert messages[0].settlement is Settlement.ACKED
