"""The verbs of a client, as a user calls them, against the embedded broker."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import BrokerError, Client, LocalProtocolError, NotSupportedError
from trio_stomp.testing import Broker, BrokerOptions, open_broker


def bodies(broker: Broker, destination: str) -> list[bytes]:
    return [frame.body for frame in broker.messages(destination)]


async def test_send_when_destination_is_opaque_then_it_goes_unchanged(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row all-SEND-2."""
    destination = "/queue/with space: colon/č"
    await client.send(destination, b"1", receipt=True)
    assert bodies(broker, destination) == [b"1"]


async def test_send_when_headers_repeat_and_need_escapes_then_consumer_sees_them(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-SEND-4, 1x-SEND-5, 1x-SEND-7, 12-TAB-2."""
    given = [("k:1", "a:b\\c\nd\re"), ("r", "new"), ("r", "old"), ("expires", "0")]
    await client.send("/queue/a", b"", headers=given)
    async with client.subscribe("/queue/a") as subscription:
        message = await anext(subscription)
        assert message.headers["k:1"] == "a:b\\c\nd\re"
        assert message.headers.get_all("r") == ("new", "old")
        assert message.headers["r"] == "new"


@pytest.mark.parametrize("name", ["destination", "content-length", "receipt", "transaction"])
async def test_send_when_a_header_is_set_by_the_call_itself_then_refused(
    client: Client, name: str, autojump_clock: trio.testing.MockClock
) -> None:
    with trio.fail_after(10), pytest.raises(LocalProtocolError, match=name):
        await client.send("/queue/a", b"x", headers={name: "7"}, receipt=True)


async def test_send_when_refused_locally_then_client_goes_on(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(LocalProtocolError):
        await client.send("/queue/a", b"x", headers={"k": "a\0b"}, receipt=True)
    assert client.statistics().receipts_pending == 0
    await client.send("/queue/a", b"y", receipt=True)
    assert bodies(broker, "/queue/a") == [b"y"]


async def test_send_when_the_broker_refuses_then_broker_error_with_its_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row 1x-ERR-6."""
    options = BrokerOptions(logins={"guest": "guest"}, read_only=("guest",))
    async with open_broker(listen=False, options=options) as broker:
        with pytest.raises(BrokerError) as caught:
            async with trio_stomp.connect_stream(broker.connect_stream(), login="guest", passcode="guest") as client:
                await client.send("/queue/a", b"x", receipt=True)
        assert caught.value.receipt_id == "r-1"
        assert caught.value.message


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"ack": "manual"}, LocalProtocolError, "ack must be one of auto, client, client-individual"),
        ({"prefetch": 0}, LocalProtocolError, "prefetch must be an int of at least 1, got 0"),
        ({"prefetch": "10"}, LocalProtocolError, "prefetch must be an int of at least 1, got '10'"),
        ({"prefetch": True}, LocalProtocolError, "prefetch must be an int of at least 1, got True"),
        ({"spool_threshold_bytes": "1"}, LocalProtocolError, "spool_threshold_bytes must be .*, got '1'"),
        ({"id": 5}, LocalProtocolError, "id must be a str, got 5"),
        ({"durable": 5}, LocalProtocolError, "durable must be a str, got 5"),
        ({"selector": 5}, LocalProtocolError, "selector must be a str, got 5"),
        ({"browse": "no"}, LocalProtocolError, "browse must be True or False, got 'no'"),
        ({"no_local": "no"}, LocalProtocolError, "no_local must be True or False, got 'no'"),
        ({"headers": "a:b"}, LocalProtocolError, "headers must be a mapping"),
        ({"overflow": "block"}, LocalProtocolError, "overflow must be one of"),
        ({"overflow": "drop-oldest"}, LocalProtocolError, "needs ack='auto'"),
        ({"headers": {"a": 1}}, LocalProtocolError, "name and value must be str"),
    ],
)
async def test_subscribe_when_an_argument_cannot_be_meant_then_it_is_named(
    client: Client,
    arguments: dict[str, str],
    error: type[Exception],
    words: str,
    autojump_clock: trio.testing.MockClock,
) -> None:
    await trio.lowlevel.checkpoint()
    with pytest.raises(error, match=words):
        client.subscribe("/queue/a", **arguments)  # type: ignore[arg-type]  # wrong on purpose


async def test_subscribe_when_id_is_in_use_then_refused_and_the_first_goes_on(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 12-SUB-3, 11-SUB-3."""
    async with client.subscribe("/queue/a", id="mine") as first:
        with pytest.raises(LocalProtocolError, match="'mine' is open"):
            async with client.subscribe("/queue/b", id="mine"):
                raise AssertionError
        await client.send("/queue/a", b"1")
        assert (await anext(first)).body == b"1"
    async with client.subscribe("/queue/b", id="mine") as again:
        assert again.id == "mine"


async def test_subscribe_when_selector_is_given_then_the_broker_selects(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 10-SUB-14, 1x-SUB-5."""
    async with client.subscribe("/queue/a", selector="color = 'red'") as subscription:
        await client.send("/queue/a", b"1", headers={"color": "blue"})
        await client.send("/queue/a", b"2", headers={"color": "red"})
        assert (await anext(subscription)).body == b"2"


async def test_send_when_options_are_given_then_each_verb_sends_their_headers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/3.10.8")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
    ):
        await client.send("/queue/a", b"", priority=1)
        await client.send("/queue/a", b"", priority=2, receipt=True)
        await client.send_many([trio_stomp.OutgoingMessage("/queue/a", b"", priority=3)])
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"", priority=4)
            await publisher.send_many([trio_stomp.OutgoingMessage("/queue/a", b"", priority=5)])
        async with client.transaction() as tx:
            await tx.send("/queue/a", b"", priority=6)
            await tx.send_many([trio_stomp.OutgoingMessage("/queue/a", b"", priority=7)])
        with pytest.raises(trio_stomp.RequestTimeout):
            await client.request("/queue/a", b"", timeout=1, priority=8)
        assert [message.headers["priority"] for message in broker.messages("/queue/a")] == list("12345678")


async def test_send_when_the_broker_has_no_such_thing_then_nothing_is_sent(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    for receipt in (True, False):
        with pytest.raises(NotSupportedError, match="does not support duplicate detection"):
            await client.send("/queue/a", b"", dedup_id="1", receipt=receipt)
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("options", [BrokerOptions(), BrokerOptions(server="RabbitMQ/4.1.4")])
async def test_subscribe_when_durable_then_messages_wait_for_the_next_connection(
    options: BrokerOptions, autojump_clock: trio.testing.MockClock
) -> None:
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


async def test_subscribe_when_durable_at_an_unknown_broker_then_not_supported(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(listen=False, options=BrokerOptions(server="Other/1")) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
    ):
        with pytest.raises(NotSupportedError, match="durable"):
            client.subscribe("/topic/t", durable="mine")
        # It is not asked for a RECEIPT of SUBSCRIBE either: it might not know them.
        async with client.subscribe("/queue/a") as subscription:
            await client.send("/queue/a", b"1")
            assert (await anext(subscription)).body == b"1"


async def test_client_when_connected_then_it_tells_what_was_agreed_upon(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 12-CONN-19, 11-CONN-19."""
    await trio.lowlevel.checkpoint()
    assert client.version == "1.2"
    assert client.server is not None
    assert client.server.startswith("trio-stomp-testing/")
    assert client.session_id
    assert client.profile.name == "trio_stomp.testing"
    assert client.heart_beat.client_sends_seconds == 10


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_client_when_one_version_is_offered_then_all_verbs_work_in_it(
    broker: Broker, version: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=[version]) as client:
        assert client.version == version
        await client.send("/queue/a", "č", receipt=True)
        async with client.subscribe("/queue/a", ack="client") as subscription:
            message = await anext(subscription)
            assert message.text == "č"
            async with client.transaction() as transaction:
                await transaction.ack(message)
                await transaction.send("/queue/b", message.body)
        assert bodies(broker, "/queue/b") == [b"\xc4\x8d"]
        assert broker.depth("/queue/a") == 0


async def test_client_when_version_is_1_0_then_client_individual_is_not_supported(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 10-SUB-6, 10-SUB-18."""
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client:
        with pytest.raises(NotSupportedError, match=r"1\.0 has no ack mode 'client-individual'"):
            async with client.subscribe("/queue/a"):
                raise AssertionError
        assert client.statistics().receipts_pending == 0


async def test_disconnect_when_all_is_well_then_receipt_and_no_more_work(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-DISC-1, 1x-DISC-2."""
    await client.send("/queue/a", b"unconfirmed")
    assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
    assert bodies(broker, "/queue/a") == [b"unconfirmed"]
    with pytest.raises(trio_stomp.ConnectionClosed):
        await client.send("/queue/a", b"late")
    with pytest.raises(trio_stomp.ConnectionClosed):
        await client.disconnect()
    await client.wait_closed()


@pytest.mark.parametrize("verb", ["send", "publish", "transact", "acknowledge"])
async def test_hot_verbs_when_called_in_a_loop_then_others_run_at_least_every_64_calls(
    verb: str, client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    calls, turns = 640, 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    for _ in range(calls):
        broker.publish("/queue/in", b"")
    async with trio.open_nursery() as nursery, client.subscribe("/queue/in", prefetch=calls) as subscription:
        messages = [await anext(subscription) for _ in range(calls)]
        async with client.publisher(max_in_flight=2 * calls) as publisher, client.transaction() as transaction:
            nursery.start_soon(count_turns)
            await trio.lowlevel.checkpoint()
            before = turns
            for message in messages:
                if verb == "send":
                    await client.send("/queue/out", b"")
                elif verb == "publish":
                    await publisher.send("/queue/out", b"")
                elif verb == "transact":
                    await transaction.send("/queue/out", b"")
                else:
                    await message.ack()
            assert turns - before >= calls // 64 - 1
        nursery.cancel_scope.cancel()


async def test_send_when_it_never_has_to_wait_then_each_64th_call_is_a_checkpoint(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls_between_checkpoints() -> int:
        calls = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            while calls < 1000:
                await client.send("/queue/a", b"")
                calls += 1
        return calls

    await calls_between_checkpoints()
    assert [await calls_between_checkpoints() for _ in range(3)] == [63, 63, 63]
