"""The verbs of a client, as a user calls them, against the embedded broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

import trio_stomp
from tests.client.clients import client_of
from tests.kit.loops import on_loops
from trio_stomp import Client, LocalProtocolError, NotSupportedError, OutgoingMessage
from trio_stomp.testing import Broker, BrokerOptions, open_broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def test_send_when_destination_is_opaque_then_it_goes_unchanged(client: Client, broker: Broker) -> None:
    """Row all-SEND-2."""
    destination = "/queue/with space: colon/č"
    await client.send(destination, b"1", receipt=True)
    assert broker.depth(destination) == 1


async def test_send_when_headers_repeat_and_need_escapes_then_consumer_sees_them(client: Client) -> None:
    """Rows 1x-SEND-4, 1x-SEND-5, 1x-SEND-7, 12-TAB-2."""
    given = [("k:1", "a:b\\c\nd\re"), ("r", "new"), ("r", "old"), ("expires", "0")]
    await client.send("/queue/a", b"", headers=given)
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        assert message.headers["k:1"] == "a:b\\c\nd\re"
        assert message.headers.get_all("r") == ("new", "old")
        assert message.headers["r"] == "new"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ack": "manual"}, "ack must be one of auto, client, client-individual"),
        ({"prefetch": 0}, "prefetch must be an int of at least 1, got 0"),
        ({"prefetch": "10"}, "prefetch must be an int of at least 1, got '10'"),
        ({"prefetch": True}, "prefetch must be an int of at least 1, got True"),
        ({"spool_threshold_bytes": "1"}, "spool_threshold_bytes must be .*, got '1'"),
        ({"id": 5}, "id must be a str, got 5"),
        ({"durable": 5}, "durable must be a str, got 5"),
        ({"selector": 5}, "selector must be a str, got 5"),
        ({"browse": "no"}, "browse must be True or False, got 'no'"),
        ({"no_local": "no"}, "no_local must be True or False, got 'no'"),
        ({"headers": "a:b"}, "headers must be a mapping"),
        ({"overflow": "block"}, "overflow must be one of"),
        ({"overflow": "drop-oldest"}, "needs ack='auto'"),
        ({"headers": {"a": 1}}, "name and value must be str"),
        ({"decode": 7}, "decode must be a function of bytes"),
    ],
)
async def test_subscribe_when_an_argument_cannot_be_meant_then_it_is_named(
    client: Client, arguments: dict[str, str], words: str
) -> None:
    await trio.lowlevel.checkpoint()
    with pytest.raises(LocalProtocolError, match=words):
        client.subscribe("/queue/a", **arguments)  # type: ignore[arg-type]  # wrong on purpose


async def test_subscribe_when_id_is_in_use_then_refused_and_the_first_goes_on(client: Client) -> None:
    """Rows 12-SUB-3, 11-SUB-3."""
    async with client.subscribe("/queue/a", id="mine") as first:
        with pytest.raises(LocalProtocolError, match="'mine' is open"):
            async with client.subscribe("/queue/b", id="mine"):
                raise AssertionError
        await client.send("/queue/a", b"1")
        assert (await anext(first)).body == b"1"
    async with client.subscribe("/queue/b", id="mine") as again:
        assert again.id == "mine"


async def test_subscribe_when_selector_is_given_then_the_broker_selects(client: Client) -> None:
    """Row 10-SUB-14, 1x-SUB-5."""
    async with client.subscribe("/queue/a", selector="color = 'red'") as subscription:
        await client.send("/queue/a", b"1", headers={"color": "blue"})
        await client.send("/queue/a", b"2", headers={"color": "red"})
        assert (await anext(subscription)).body == b"2"


async def test_send_when_options_are_given_then_each_verb_sends_their_headers() -> None:
    async with client_of("RabbitMQ/3.10.8") as (client, broker):
        await client.send("/queue/a", b"", priority=1)
        await client.send("/queue/a", b"", priority=2, receipt=True)
        await client.send_many([OutgoingMessage("/queue/a", b"", priority=3)])
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"", priority=4)
            await publisher.send_many([OutgoingMessage("/queue/a", b"", priority=5)])
        async with client.transaction() as tx:
            await tx.send("/queue/a", b"", priority=6)
            await tx.send_many([OutgoingMessage("/queue/a", b"", priority=7)])
        with pytest.raises(trio_stomp.RequestTimeout):
            await client.request("/queue/a", b"", timeout=1, priority=8)
        assert [message.headers["priority"] for message in broker.messages("/queue/a")] == list("12345678")


async def test_send_when_the_broker_has_no_such_thing_then_nothing_is_sent(client: Client, broker: Broker) -> None:
    for receipt in (True, False):
        with pytest.raises(NotSupportedError, match="does not support duplicate detection"):
            await client.send("/queue/a", b"", dedup_id="1", receipt=receipt)
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("options", [BrokerOptions(), BrokerOptions(server="RabbitMQ/4.1.4")])
async def test_subscribe_when_durable_then_messages_wait_for_the_next_connection(options: BrokerOptions) -> None:
    async with open_broker(listen=False, options=options) as broker:
        async with trio_stomp.connect_stream(broker.connect_stream(), headers={"client-id": "me"}) as client:
            async with client.subscribe("/topic/t", durable="mine"):
                pass
        broker.publish("/topic/t", b"while away")
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), headers={"client-id": "me"}) as client,
            # So that it is not the first subscription again: RabbitMQ recognizes it by its id.
            client.subscribe("/queue/a"),
            client.subscribe("/topic/t", durable="mine") as subscription,
        ):
            with trio.fail_after(60):
                assert (await anext(subscription)).body == b"while away"


async def test_subscribe_when_durable_at_an_unknown_broker_then_not_supported() -> None:
    async with client_of("Other/1") as (client, _):
        with pytest.raises(NotSupportedError, match="durable"):
            client.subscribe("/topic/t", durable="mine")
        # It is not asked for a RECEIPT of SUBSCRIBE either: it might not know them.
        async with client.subscribe("/queue/a") as subscription:
            await client.send("/queue/a", b"1")
            assert (await anext(subscription)).body == b"1"


async def test_client_when_connected_then_it_tells_what_was_agreed_upon(client: Client) -> None:
    """Rows 12-CONN-19, 11-CONN-19."""
    await trio.lowlevel.checkpoint()
    assert client.version == "1.2"
    assert client.server is not None
    assert client.server.startswith("trio-stomp-testing/")
    assert client.session_id
    assert client.profile.name == "trio_stomp.testing"
    assert client.heart_beat.client_sends_seconds == 10


async def test_client_when_version_is_1_0_then_client_individual_is_not_supported(broker: Broker) -> None:
    """Rows 10-SUB-6, 10-SUB-18."""
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client:
        with pytest.raises(NotSupportedError, match=r"1\.0 has no ack mode 'client-individual'"):
            async with client.subscribe("/queue/a"):
                raise AssertionError
        assert client.statistics().receipts_pending == 0


async def test_disconnect_when_all_is_well_then_receipt_and_no_more_work(client: Client, broker: Broker) -> None:
    """Rows 1x-DISC-1, 1x-DISC-2."""
    await client.send("/queue/a", b"unconfirmed")
    assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
    assert broker.depth("/queue/a") == 1
    with pytest.raises(trio_stomp.ConnectionClosed):
        await client.send("/queue/a", b"late")
    with pytest.raises(trio_stomp.ConnectionClosed):
        await client.disconnect()
    await client.wait_closed()


@pytest.mark.parametrize("verb", ["send", "publish", "transact", "acknowledge"])
async def test_hot_verb_when_it_never_has_to_wait_then_each_64th_call_is_a_checkpoint(
    verb: str, client: Client, broker: Broker
) -> None:
    for _ in range(300):
        broker.publish("/queue/in", b"")
    async with client.subscribe("/queue/in", prefetch=300) as subscription:
        messages = await subscription.receive_batch(300, linger=1)
        async with client.publisher() as publisher, client.transaction() as transaction:
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "send": partial(client.send, "/queue/out", b""),
                "publish": partial(publisher.send, "/queue/out", b""),
                "transact": partial(transaction.send, "/queue/out", b""),
                "acknowledge": lambda: messages.pop().ack(),
            }

            async def calls_between_checkpoints() -> int:
                count = 0
                with trio.CancelScope() as scope:
                    scope.cancel()
                    while count < 100:
                        await calls[verb]()
                        count += 1
                return count

            await calls_between_checkpoints()
            assert [await calls_between_checkpoints() for _ in range(3)] == [63, 63, 63]
