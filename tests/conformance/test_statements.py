"""Statements of the specification that no vector can show: sessions, one test for each."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.tapped_stream import TappedStream, frames_of
from tests.testing.raw_client import connected as connected_raw
from trio_stomp import AuthenticationError, BrokerError, ConnectError, Farewell, LocalProtocolError, StompError
from trio_stomp.protocol import (
    AckMode,
    ClientProtocol,
    Command,
    ConnectRequested,
    HeartBeatOffer,
    MessagesReceived,
    ReceiptsReceived,
    ServerProtocol,
    Version,
)
from trio_stomp.testing import (
    AnswerConnect,
    BrokerOptions,
    DelayReceipts,
    SwallowReceipts,
    open_broker,
)


def connected(version: str = "1.2") -> ClientProtocol:
    """A client's session that stands."""
    protocol = ClientProtocol(versions=[Version(version)])
    protocol.connect(host="h")
    line = "" if version == "1.0" else f"version:{version}\n"
    protocol.receive_data(f"CONNECTED\n{line}\n\0".encode())
    return protocol


async def test_session_when_it_begins_then_connect_comes_first_and_asks_for_no_receipt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows all-CONN-1, 1x-CONN-8, 1x-CONN-9, all-RCPT-4, 1x-NEG-1."""
    async with open_broker(listen=False) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream):
            pass
    frames, _ = frames_of(stream.sent)
    first = frames[0]
    assert first.command is Command.CONNECT
    assert first.headers["accept-version"] == "1.0,1.1,1.2"
    assert first.headers["host"] == "/"
    assert "receipt" not in first.headers


@pytest.mark.parametrize(
    ("path", "option", "host"), [("", None, "/"), ("/mine", None, "mine"), ("/mine", "other", "other")]
)
async def test_host_when_named_by_option_or_url_then_that_and_otherwise_the_root(
    path: str, option: str | None, host: str
) -> None:
    """Row 1x-CONN-10."""
    options: trio_stomp.types.ConnectOptions = {} if option is None else {"vhost": option}
    # The broker has that virtual host alone, and refuses any other name.
    async with open_broker(options=BrokerOptions(vhosts=[host])) as broker:
        async with trio_stomp.connect(broker.url + path, **options) as client:
            await client.send("/queue/a", b"1", receipt=True)
    async with open_broker(options=BrokerOptions(vhosts=["elsewhere"])) as broker:
        with pytest.raises(ConnectError, match="host"):
            async with trio_stomp.connect(broker.url + path, **options):
                raise AssertionError


def test_connect_when_it_has_no_heart_beat_then_the_offer_is_none() -> None:
    """Row 12-CONN-13."""
    (event,) = ServerProtocol().receive_data(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    assert isinstance(event, ConnectRequested)
    assert event.offer == HeartBeatOffer(can_ms=0, want_ms=0)


async def test_disconnect_when_the_session_never_stood_then_it_is_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row draft-LEN-7."""
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(error="Access refused"))
        stream = TappedStream(broker.connect_stream())
        with pytest.raises(AuthenticationError):
            async with trio_stomp.connect_stream(stream):
                raise AssertionError
    frames, torn = frames_of(stream.sent)
    assert [frame.command for frame in frames] == [Command.CONNECT]
    assert not torn


async def test_disconnect_when_1_0_then_it_has_a_receipt_too(autojump_clock: trio.testing.MockClock) -> None:
    """Row 10-DISC-4."""
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client,
    ):
        assert await client.disconnect() is Farewell.RECEIPT


def test_message_when_it_comes_between_disconnect_and_its_receipt_then_reported() -> None:
    """Row all-DISC-5."""
    protocol = connected()
    protocol.subscribe("s", "/q", AckMode.AUTO)
    protocol.disconnect("bye")
    events = protocol.receive_data(
        b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\nx\0RECEIPT\nreceipt-id:bye\n\n\0"
    )
    assert [type(event) for event in events] == [MessagesReceived, ReceiptsReceived]
    with pytest.raises(LocalProtocolError, match="disconnecting"):
        protocol.send("/q", b"")


async def test_receipts_when_the_client_asks_for_them_then_each_is_answered_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row all-RCPT-2."""
    async with open_broker(listen=False) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream) as client:
            await client.send("/queue/a", b"1", receipt=True)
            await client.send("/queue/a", b"2", receipt=True)
            async with client.subscribe("/queue/a") as subscription:
                await (await anext(subscription)).ack(receipt=True)
                await (await anext(subscription)).nack(receipt=True)
            async with client.transaction() as transaction:
                await transaction.send("/queue/b", b"3")
    asked, _ = frames_of(stream.sent)
    with_receipt = {frame.command for frame in asked if "receipt" in frame.headers}
    assert with_receipt == {
        Command.SEND,
        Command.SUBSCRIBE,
        Command.ACK,
        Command.NACK,
        Command.COMMIT,
        Command.DISCONNECT,
    }
    receipts = [frame.headers["receipt"] for frame in asked if "receipt" in frame.headers]
    answered = broker.statistics().sent[Command.RECEIPT]
    assert answered == len(receipts) == len(set(receipts))


@pytest.mark.parametrize("version", list(Version))
async def test_receipt_when_any_frame_after_connect_asks_then_the_server_answers_with_that_value(
    version: Version, autojump_clock: trio.testing.MockClock
) -> None:
    """Row all-RCPT-1: any value, on every frame that the version has."""
    async with open_broker(listen=False) as broker:
        client = await connected_raw(broker, version=version)
        asked = 0

        async def ask(command: Command, *headers: tuple[str, str]) -> None:
            nonlocal asked
            asked += 1
            receipt = f"{command.value} no. {asked}, é" if version is not Version.V1_0 else f"{command.value} {asked}"
            await client.write(command, [*headers, ("receipt", receipt)])
            await client.expect(Command.RECEIPT, receipt_id=receipt)

        mine = ("id", "mine")
        await ask(Command.SUBSCRIBE, mine, ("destination", "/queue/a"), ("ack", "client"))
        settling = [Command.ACK] if version is Version.V1_0 else [Command.ACK, Command.NACK]
        for command in settling:
            await ask(Command.SEND, ("destination", "/queue/a"))
            message = await client.message()
            own = [("message-id", message.headers["message-id"]), ("subscription", "mine")]
            await ask(command, *([("id", message.headers["ack"])] if version is Version.V1_2 else own))
            if command is Command.NACK:
                await client.message(redelivered="true")
        await ask(Command.UNSUBSCRIBE, mine)
        for end in (Command.COMMIT, Command.ABORT):
            await ask(Command.BEGIN, ("transaction", end.value))
            await ask(end, ("transaction", end.value))
        await ask(Command.DISCONNECT)
    assert asked == (9 if version is Version.V1_0 else 11)


@pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])
async def test_send_when_it_cannot_be_processed_then_error_and_the_connection_is_closed(version: Version) -> None:
    """Rows 11-SEND-6, 12-SEND-6: end to end, over a socket."""
    async with open_broker(options=BrokerOptions(max_queue_length=1)) as broker:
        async with trio_stomp.connect(broker.url, versions=[version.value]) as client:
            await client.send("/queue/a", b"1", receipt=True)
            with pytest.raises(BrokerError, match="queue is full"):
                await client.send("/queue/a", b"2", receipt=True)
            with pytest.raises(StompError):
                await client.send("/queue/b", b"3", receipt=True)
            await broker.wait_until(lambda: broker.statistics().open_connections == 0)
        assert broker.depth("/queue/a") == 1
        assert broker.depth("/queue/b") == 0


@pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])
async def test_message_when_auto_and_sent_then_it_is_consumed_without_an_ack(
    version: Version, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-SUB-8: the server's part."""
    async with open_broker(listen=False) as broker:
        first = await connected_raw(broker, version=version)
        await first.subscribe("/queue/a", "auto")
        broker.publish("/queue/a", b"1")
        await first.message("1")
        assert broker.depth("/queue/a") == 0
        assert broker.unacknowledged("/queue/a") == 0
        # Lost without a word: a message that waits for its ACK would come again.
        await trio.aclose_forcefully(first.stream)
        await broker.wait_until(lambda: broker.statistics().open_connections == 0)
        again = await connected_raw(broker, version=version)
        await again.subscribe("/queue/a", "client")
        await again.expect_nothing()
        # With `client` it does.
        broker.publish("/queue/a", b"2")
        await again.message("2")
        assert broker.unacknowledged("/queue/a") == 1


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_body_when_sent_then_its_content_type_goes_with_it(
    version: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-CTYPE-1: SEND and MESSAGE; and ERROR, which has a body."""
    came: list[str | None] = []
    async with open_broker(listen=False) as broker:
        stream = TappedStream(broker.connect_stream())
        with pytest.raises(BrokerError, match="no such destination") as refused:
            async with trio_stomp.connect_stream(stream, versions=[version]) as client:
                await client.send("/queue/a", "text")
                await client.send("/queue/a", b"{}", content_type="application/json")
                await client.send("/queue/a", b"\0")
                async with client.subscribe("/queue/a") as subscription:
                    came += [(await anext(subscription)).content_type for _ in range(3)]
                await client.send("nowhere", b"", receipt=True)
    sent, _ = frames_of(stream.sent)
    types = [frame.headers.get("content-type") for frame in sent if frame.headers.get("destination") == "/queue/a"]
    expected = ["text/plain;charset=utf-8", "application/json", None]
    assert types[:3] == expected
    assert came == expected
    assert refused.value.body
    assert refused.value.headers["content-type"] == "text/plain"


async def test_receipt_when_it_overtakes_an_earlier_one_then_it_answers_for_itself_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row 12-RECEIPT-3: received is not yet processed, so an earlier frame's own RECEIPT is still waited for."""
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        broker.faults.now(SwallowReceipts())
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _first() -> None:
                await client.send("/queue/a", b"1", receipt=True)

            await trio.testing.wait_all_tasks_blocked()
            await client.send("/queue/a", b"2", receipt=True)
            assert client.statistics().receipts_pending == 1
            nursery.cancel_scope.cancel()


async def test_message_when_it_comes_before_the_receipt_of_subscribe_then_it_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row all-SUB-17."""
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        broker.publish("/queue/a", b"1")
        broker.faults.now(DelayReceipts(seconds=5, command=Command.SUBSCRIBE))
        start = trio.current_time()
        async with client.subscribe("/queue/a") as subscription:
            assert trio.current_time() - start >= 5
            assert subscription.statistics().buffered == 1


async def test_message_when_the_server_adds_headers_then_all_are_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows 1x-MSG-5, 1x-STD-1, 12-MSG-2."""
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        broker.publish("/queue/a b", b"1", [("x-added", "by the server"), ("content-type", "text/plain")])
        async with client.subscribe("/queue/a b") as subscription:
            message = await anext(subscription)
            assert message.headers["x-added"] == "by the server"
            assert message.headers["content-length"] == "1"
            assert message.content_type == "text/plain"
            assert message.destination == "/queue/a b"


async def test_subscribe_when_it_has_no_ack_then_auto(autojump_clock: trio.testing.MockClock) -> None:
    """Rows all-SUB-7, 10-SUB-15."""
    async with open_broker(listen=False) as broker, broker.connect_stream() as stream:
        broker.publish("/queue/a", b"1")
        await stream.send_all(b"CONNECT\n\n\0SUBSCRIBE\nid:mine\ndestination:/queue/a\n\n\0")
        received = b""
        with trio.fail_after(10):
            while b"MESSAGE" not in received or not received.rstrip(b"\n").endswith(b"\0"):
                received += await stream.receive_some()
        assert b"\nsubscription:mine\n" in received
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.depth("/queue/a") == 0


async def test_message_when_1_0_and_not_acknowledged_then_it_is_not_consumed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row 10-SUB-16."""
    async with open_broker(listen=False) as broker:
        broker.publish("/queue/a", b"1")
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client,
            client.subscribe("/queue/a", ack="client") as subscription,
        ):
            await anext(subscription)
        await broker.wait_until(lambda: broker.unacknowledged("/queue/a") == 0)
        assert broker.depth("/queue/a") == 1


@pytest.mark.parametrize(
    "frame", [b"ACK\nid:unknown\n\n\0", b"UNSUBSCRIBE\nid:unknown\n\n\0", b"COMMIT\ntransaction:unknown\n\n\0"]
)
async def test_frame_when_it_names_nothing_that_is_there_then_the_broker_sends_an_error(
    frame: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-ACK-4, 1x-UNSUB-2, all-TX-7."""
    async with open_broker(listen=False) as broker, broker.connect_stream() as stream:
        await stream.send_all(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0" + frame)
        received = b""
        with trio.fail_after(10):
            while chunk := await stream.receive_some():
                received += chunk
        assert b"ERROR\n" in received


def test_unsubscribe_when_the_id_is_not_in_use_then_refused_here() -> None:
    """Row 1x-UNSUB-2."""
    protocol = connected()
    with pytest.raises(LocalProtocolError, match="no subscription with id 'mine' is open"):
        protocol.unsubscribe("mine")


def test_transaction_when_1_0_then_send_and_ack_may_name_it() -> None:
    """Row 10-TX-8."""
    protocol = connected("1.0")
    protocol.subscribe("s", "/q", AckMode.CLIENT)
    (event,) = protocol.receive_data(b"MESSAGE\ndestination:/q\nmessage-id:1\n\nx\0")
    assert isinstance(event, MessagesReceived)
    protocol.begin("t")
    assert b"\ntransaction:t\n" in protocol.send("/q", b"x", transaction="t")
    assert b"\ntransaction:t\n" in protocol.acknowledge(Command.ACK, event.frames[0].headers, "s", transaction="t")
    assert protocol.end(Command.COMMIT, "t") == b"COMMIT\ntransaction:t\n\n\0"
