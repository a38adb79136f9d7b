"""Statements of the specification that no vector can show: sessions, one test for each."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from tests.conformance.rows import load_rows
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import AuthenticationError, Farewell, LocalProtocolError
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


def test_matrix_when_read_then_each_row_names_a_role() -> None:
    """Row 1x-CONF-2."""
    assert {row["role"] for row in load_rows()} == {"both", "client", "server", "frame codec"}


async def test_session_when_it_begins_then_connect_comes_first_and_asks_for_no_receipt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows all-CONN-1, 1x-CONN-8, 1x-CONN-9, 1x-CONN-10, all-RCPT-4, 1x-NEG-1."""
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


async def test_receipts_when_asked_for_on_every_frame_then_every_frame_gets_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Rows all-RCPT-1, all-RCPT-2."""
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
