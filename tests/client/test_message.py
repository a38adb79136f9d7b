"""A message: what it says, and how it is settled."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import (
    Client,
    ConnectionLost,
    DecodeError,
    LocalProtocolError,
    NotSupportedError,
    OutgoingMessage,
    StaleMessage,
)
from trio_stomp.testing import Broker, BrokerOptions, NackPolicy, open_broker
from trio_stomp.types import AckName, Command, Settlement


async def test_message_when_taken_then_it_tells_what_it_is(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b'{"a": [1]}', content_type="application/json")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        assert message.body == b'{"a": [1]}'
        assert message.json() == {"a": [1]}
        assert message.destination == "/queue/a"
        assert message.id
        assert message.content_type == "application/json"
        assert message.redelivered is False
        assert message.subscription is subscription
        assert "'/queue/a'" in repr(message)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"\xc4\x8daj", None, "čaj"),
        (b"\xc4\x8daj", "text/plain", "čaj"),
        ("čaj".encode("utf-16"), "text/html;charset=utf-16", "čaj"),
        (b"\xe9", 'text/plain; charset="iso-8859-1"', "é"),
    ],
)
async def test_text_when_read_then_by_the_charset_of_its_type(
    client: Client, body: bytes, content_type: str | None, text: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-CTYPE-3 to 8."""
    await client.send("/queue/a", body, content_type=content_type)
    async with client.subscribe("/queue/a") as subscription:
        assert (await anext(subscription)).text == text


async def test_text_when_body_is_not_text_then_decode_error(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"\xff\xfe\xff")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        with pytest.raises(DecodeError, match="UnicodeDecodeError"):
            _ = message.text
        with pytest.raises(ValueError, match=r"."):
            message.json()


async def test_ack_when_confirmed_then_the_broker_has_forgotten_it(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-SUB-9, 12-ACK-1: the embedded broker's ack header differs from its message-id."""
    await client.send("/queue/a", b"1", receipt=True)
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        assert broker.unacknowledged("/queue/a") == 1
        await message.ack(receipt=True)
        assert message.settlement is Settlement.ACKED
        assert broker.unacknowledged("/queue/a") == 0


async def test_ack_when_settled_already_then_refused_here(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        await message.ack()
        for settle in (message.ack, message.nack):
            with pytest.raises(LocalProtocolError, match="it is settled"):
                await settle()


async def test_ack_when_auto_mode_then_refused_here(client: Client, autojump_clock: trio.testing.MockClock) -> None:
    """Row 1x-SUB-8."""
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a", ack="auto") as subscription:
        async with await anext(subscription) as message:
            assert message.settlement is Settlement.AUTO
        for settle in (message.ack, message.nack):
            with pytest.raises(LocalProtocolError, match=r"its subscription is in auto mode, which needs no ACK$"):
                await settle()


async def test_ack_when_the_subscription_is_left_then_stale(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
    with pytest.raises(StaleMessage, match="redelivers it"):
        await message.ack()
    # Leaving a block of its own is no error: the work is done, and is going to be done again.
    async with message:
        pass
    await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
    assert broker.depth("/queue/a") == 1


async def test_ack_when_the_link_is_gone_then_connection_lost(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"1")
        async with client.subscribe("/queue/a") as subscription:
            message = await anext(subscription)
            broker.drop_connections()
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionLost):
                await message.ack()


async def test_nack_when_refused_then_redelivered_and_said_so(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 12-SUB-12, 1x-NACK-4."""
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        await message.nack(receipt=True)
        assert message.settlement is Settlement.NACKED
        again = await anext(subscription)
        assert again.redelivered
        await again.ack()


async def test_block_when_it_ends_well_then_acked_and_when_it_raises_then_nacked(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        with pytest.raises(ValueError, match="bad body"):
            async with message:
                raise ValueError("bad body")  # a stand-in for a handler's error
        assert message.settlement is Settlement.NACKED
        async with await anext(subscription) as again:
            assert again.redelivered
        assert again.settlement is Settlement.ACKED


async def test_block_when_the_body_has_settled_it_then_left_alone(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        async with await anext(subscription) as message:
            await message.ack(receipt=True)
        assert broker.unacknowledged("/queue/a") == 0


async def test_block_when_cancelled_then_unsettled_because_nothing_is_wrong_with_the_message(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        with trio.move_on_after(1):
            async with message:
                await trio.sleep_forever()
        assert message.settlement is Settlement.UNSETTLED
        assert broker.unacknowledged("/queue/a") == 1


async def test_nack_when_the_broker_would_drop_the_message_then_not_supported(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    options = BrokerOptions(server="ActiveMQ-Artemis/2", nack=NackPolicy.DISCARD)
    async with (
        open_broker(listen=False, options=options) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
    ):
        await client.send("/queue/a", b"1")
        async with client.subscribe("/queue/a") as subscription:
            message = await anext(subscription)
            with pytest.raises(NotSupportedError, match=r"Artemis would drop the message"):
                await message.nack()
            with pytest.raises(ValueError, match="handler"):
                async with message:
                    raise ValueError("handler")  # a stand-in for a handler's error
            assert message.settlement is Settlement.UNSETTLED
            assert "stays unsettled" in caplog.text
        await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
        assert broker.depth("/queue/a") == 1


async def test_nack_when_1_0_then_not_supported(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    """Row 10-NACK-2."""
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client:
        await client.send("/queue/a", b"1")
        async with client.subscribe("/queue/a", ack="client") as subscription:
            message = await anext(subscription)
            with pytest.raises(NotSupportedError, match=r"1\.0 has no NACK"):
                await message.nack()


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_block_when_there_are_many_then_each_is_acknowledged_once_and_plainly(
    client: Client, broker: Broker, ack: AckName, autojump_clock: trio.testing.MockClock
) -> None:
    """Also where the ACK has to wait for its turn."""
    async with client.subscribe("/queue/a", ack=ack, prefetch=1000) as subscription:
        await client.send_many(OutgoingMessage("/queue/a", b"") for _ in range(200))
        await trio.testing.wait_all_tasks_blocked()
        answered = client.statistics().receipts_received
        for _ in range(200):
            async with await anext(subscription) as message:
                pass
            assert message.settlement is Settlement.ACKED
        assert client.statistics().receipts_received == answered
        await client.send("/queue/b", b"", receipt=True)
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.statistics().received[Command.ACK] == 200
        assert Command.NACK not in broker.statistics().received


def test_message_when_constructed_by_a_program_then_it_says_where_messages_come_from() -> None:
    with pytest.raises(TypeError, match="a Message cannot be constructed: take it from a Subscription"):
        trio_stomp.Message(b"body", "/queue/a")  # type: ignore[arg-type]  # what a program without type checker would do


def test_subscription_when_constructed_by_a_program_then_it_says_how_to_subscribe() -> None:
    with pytest.raises(TypeError, match=r"a Subscription cannot be constructed: use async with client\.subscribe"):
        trio_stomp.Subscription()


async def test_settlement_when_assigned_then_refused(client: Client, autojump_clock: trio.testing.MockClock) -> None:
    await client.send("/queue/a", b"1")
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        with pytest.raises(AttributeError):
            message.settlement = Settlement.ACKED  # type: ignore[misc]  # what a program without type checker would do
