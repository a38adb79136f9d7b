"""Statements of the specification that no vector can show: sessions, and what needs every way to cut the input."""

from __future__ import annotations

import anyio
import pytest

import trio_stomp
from tests.kit.chunks import fed
from tests.kit.loops import REAL_LOOPS_OF_BROKER, on_loops
from tests.kit.streams import abort
from tests.kit.tapped_stream import TappedStream, frames_of
from tests.testing.raw_client import connected as connected_raw
from trio_stomp import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    DeliveryStatus,
    DisconnectResult,
    HeartBeatTimeout,
    LimitExceeded,
    Limits,
    Publication,
    StompError,
    UnconfirmedError,
)
from trio_stomp.protocol import Decoder, Role
from trio_stomp.testing import (
    AnswerConnect,
    BrokerOptions,
    DelayReceipts,
    ScriptedPeer,
    open_broker,
    open_scripted_peer,
)
from trio_stomp.types import Command, Frame, Headers, Version

pytestmark = pytest.mark.anyio
over_sockets = on_loops(*REAL_LOOPS_OF_BROKER)


# --- the codec --------------------------------------------------------------------------------------------------------


# What is legal, and the byte with which it no longer is.
PAST_A_LIMIT = {
    "a command": (b"ERRO", b"R"),
    "a header": (b"ERR\na:234567", b"8"),
    "one header too many": (b"ERR\na:1\nb:2\n", b"c"),
    "an uncounted body": (b"ERR\n\n12345", b"6"),
    "a counted body": (b"ERR\ncontent-length:6\n", b"\n"),
    "a huge counted body": (b"ERR\ncontent-length:" + b"9" * 30 + b"\n", b"\n"),
}


@pytest.mark.parametrize("name", PAST_A_LIMIT)
@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("more", [b"", b"\n", b"123456789\n\n\0" * 9])
@pytest.mark.parametrize("whole", [False, True])
def test_limit_when_passed_then_known_by_the_first_byte_too_many(
    name: str, version: Version, accelerate: bool, more: bytes, whole: bool
) -> None:
    """Row all-LIM-6: neither the end of the line nor that of the body is waited for."""
    legal, byte = PAST_A_LIMIT[name]
    if name != "a command":
        legal = legal.replace(b"ERR", b"ERROR", 1)
    limits = Limits(
        command_bytes=4 if name == "a command" else 5,
        header_line_bytes=8 if name == "a header" else 64,
        header_count=2,
        body_bytes=5,
    )

    def decoder() -> Decoder:
        return Decoder(role=Role.CLIENT, version=version, limits=limits, accelerate=accelerate)

    within, at_once, beyond = decoder(), decoder(), decoder()
    assert fed(within, legal, 1) == []
    assert within.error is None
    # It was that byte, and nothing behind it.
    assert fed(at_once, legal + byte, 1) == []
    assert isinstance(at_once.error, LimitExceeded)
    assert fed(beyond, legal + byte + more, len(legal + byte + more) if whole else 1) == []
    assert isinstance(beyond.error, LimitExceeded)
    assert str(at_once.error).partition(":")[0] == str(beyond.error).partition(":")[0]


CLIENT_COMMANDS = [
    *(Command.SEND, Command.SUBSCRIBE, Command.UNSUBSCRIBE, Command.BEGIN, Command.COMMIT, Command.ABORT),
    *(Command.ACK, Command.NACK, Command.DISCONNECT),
]
SERVER_COMMANDS = [Command.MESSAGE, Command.RECEIPT, Command.ERROR]
BODIED = (Command.SEND, Command.MESSAGE, Command.ERROR)


@pytest.mark.parametrize("command", [Command.CONNECT, Command.CONNECTED, *CLIENT_COMMANDS, *SERVER_COMMANDS])
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("size", [1, 1000])
def test_content_length_when_on_any_frame_then_it_counts(command: Command, accelerate: bool, size: int) -> None:
    """Row 12-CLEN-1."""
    role = Role.CLIENT if command in (Command.CONNECTED, *SERVER_COMMANDS) else Role.SERVER
    version = None if command in (Command.CONNECT, Command.CONNECTED) else Version.V1_2

    def decoded(length: bytes, body: bytes) -> list[Frame] | None:
        decoder = Decoder(role=role, version=version, accelerate=accelerate)
        frames = fed(decoder, b"%b\na:1\ncontent-length:%b\n\n%b\0" % (command.value.encode(), length, body), size)
        return frames if decoder.error is None else None

    assert decoded(b"0", b"") == [Frame(command, Headers([("a", "1"), ("content-length", "0")]))]
    # The byte after the counted ones is no NUL, and what is no number cannot be counted.
    assert decoded(b"0", b"x") is None
    assert decoded(b"x", b"") is None
    # The frame goes on behind its first NUL, which is its first byte.
    with_body = decoded(b"3", b"\0bc")
    if command in BODIED or version is None:
        assert with_body == [Frame(command, Headers([("a", "1"), ("content-length", "3")]), b"\0bc")]
    else:
        assert with_body is None
        assert decoded(b"1", b"") is None


# --- sessions ---------------------------------------------------------------------------------------------------------


async def test_session_when_it_begins_then_connect_comes_first_and_asks_for_no_receipt() -> None:
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


@over_sockets
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


async def test_disconnect_when_the_session_never_stood_then_it_is_not_sent() -> None:
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


async def test_disconnect_when_1_0_then_it_has_a_receipt_too() -> None:
    """Row 10-DISC-4."""
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), versions=["1.0"]) as client,
    ):
        assert await client.disconnect() is DisconnectResult.RECEIPT


async def test_receipts_when_the_client_asks_for_them_then_each_is_answered_once() -> None:
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
    version: Version,
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


@over_sockets
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
async def test_message_when_auto_and_sent_then_it_is_consumed_without_an_ack(version: Version) -> None:
    """Row 1x-SUB-8: the server's part."""
    async with open_broker(listen=False) as broker:
        first = await connected_raw(broker, version=version)
        await first.subscribe("/queue/a", "auto")
        broker.publish("/queue/a", b"1")
        await first.message("1")
        assert broker.depth("/queue/a") == 0
        assert broker.unacknowledged("/queue/a") == 0
        # Lost without a word: a message that waits for its ACK would come again.
        await abort(first.stream)
        await broker.wait_until(lambda: broker.statistics().open_connections == 0)
        again = await connected_raw(broker, version=version)
        await again.subscribe("/queue/a", "client")
        await again.expect_nothing()
        # With `client` it does.
        broker.publish("/queue/a", b"2")
        await again.message("2")
        assert broker.unacknowledged("/queue/a") == 1


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_body_when_sent_then_its_content_type_goes_with_it(version: str) -> None:
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


async def test_receipt_when_it_overtakes_earlier_ones_then_it_answers_for_itself_alone() -> None:
    """Row 12-RECEIPT-3: received is not yet processed, so an earlier frame's own RECEIPT is still waited for."""
    answered = anyio.Event()
    sent: list[Publication] = []

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect()
        frames = [await peer.next_frame() for _ in range(4)]
        await peer.confirm(frames[3])
        await answered.wait()
        await peer.send(Command.ERROR, {"receipt-id": frames[0].headers["receipt"], "message": "no"})

    async with open_scripted_peer() as peer, anyio.create_task_group() as group:
        group.start_soon(serve, peer)
        with pytest.raises(BrokerError):
            async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
                with pytest.raises(UnconfirmedError) as caught:
                    async with client.publisher() as publisher:
                        sent += [await publisher.send("/queue/a", b"%d" % number) for number in range(3)]
                        await client.send("/queue/a", b"3", receipt=True)
                        assert [each.delivery for each in sent] == [DeliveryStatus.UNKNOWN] * 3
                        assert (publisher.confirmed, client.statistics().receipts_pending) == (0, 3)
                        answered.set()
                # The ERROR that answers the first of them is still its answer.
                assert [each.delivery for each in sent] == [
                    DeliveryStatus.REJECTED,
                    DeliveryStatus.UNKNOWN,
                    DeliveryStatus.UNKNOWN,
                ]
                assert len(caught.value.messages) == 3
                await client.wait_closed()


async def test_receipt_when_the_server_sends_it_then_it_has_received_all_frames_before() -> None:
    """Row 12-RECEIPT-3."""
    async with open_broker(listen=False) as broker:
        raw = await connected_raw(broker)
        # The last arrives in the same chunk, and asks for a RECEIPT of its own alone.
        frames = [b"SEND\ndestination:/queue/a\n\n%d\0" % number for number in range(100)]
        await raw.stream.send_all(b"".join(frames) + b"SEND\ndestination:/queue/b\nreceipt:last\n\n\0")
        assert (await raw.expect(Command.RECEIPT)).headers["receipt-id"] == "last"
        assert [message.body for message in broker.messages("/queue/a")] == [b"%d" % number for number in range(100)]


# Pieces of frames, none of which is complete before the last: what the client reads in one chunk.
_HEAD = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/queue/a\n"
TRICKLES = {
    "a command": [b"M", b"E", b"S", b"S", b"A", b"G", b"E", _HEAD[7:] + b"\nx\0"],
    "headers": [_HEAD, b"a", b":", b"b\\", b"n\n", b"c:", b"d\n", b"\n\0"],
    "a counted body": [_HEAD, b"content-length:6\n\n", b"\0", b"\n", b"a", b"\0b", b"c", b"\0"],
    "an uncounted body": [_HEAD + b"\n", b"a", b"\n", b"bc", b"d", b"e", b"f", b"\0"],
    "ends of line": [b"\r\n", b"\n", b"\r", b"\n", b"\n", b"\r\n", b"\n", b"\n"],
    "frames": [_HEAD + b"\nx\0", b"RECEIPT\nreceipt-id:none\n\n\0"] * 4,
}


@pytest.mark.parametrize("pieces", TRICKLES.values(), ids=TRICKLES)
@pytest.mark.parametrize("spools", [False, True])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_client_when_any_bytes_come_then_the_server_is_alive(
    pieces: list[bytes], spools: bool, version: str
) -> None:
    """Row 1x-HB-8: part of a frame, an end of line or a frame that nothing waits for: each is data."""
    if version == "1.1":
        pieces = [piece.replace(b"\r", b"") or b"\n" for piece in pieces]

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(version=version, heart_beat=(1, 0))
        await peer.expect(Command.SUBSCRIBE)
        for piece in pieces:
            # More than the interval, and less than its margin.
            await anyio.sleep(2)
            await peer.send_bytes(piece)

    async with open_scripted_peer() as peer, anyio.create_task_group() as group:
        group.start_soon(serve, peer)
        start = anyio.current_time()
        with pytest.raises(HeartBeatTimeout):
            async with (
                trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 1)) as client,
                client.subscribe("/queue/a", id="s", ack="auto", spool_threshold_bytes=65536 if spools else None),
            ):
                await client.wait_closed()
        # Only then is it silent: 2.5 intervals.
        assert anyio.current_time() - start == pytest.approx(2 * len(pieces) + 2.5, abs=0.2)


async def test_message_when_it_comes_before_the_receipt_of_subscribe_then_it_is_there() -> None:
    """Row all-SUB-17."""
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        broker.publish("/queue/a", b"1")
        broker.faults.now(DelayReceipts(seconds=5, command=Command.SUBSCRIBE))
        start = anyio.current_time()
        async with client.subscribe("/queue/a") as subscription:
            assert anyio.current_time() - start >= 5
            assert subscription.statistics().buffered == 1


async def test_message_when_the_server_adds_headers_then_all_are_kept() -> None:
    """Rows 1x-MSG-5, 1x-STD-1, 12-MSG-2."""
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        broker.publish("/queue/a b", b"1", [("x-added", "by the server"), ("content-type", "text/plain")])
        async with client.subscribe("/queue/a b") as subscription:
            message = await anext(subscription)
            assert message.headers["x-added"] == "by the server"
            assert message.headers["content-length"] == "1"
            assert message.content_type == "text/plain"
            assert message.destination == "/queue/a b"


async def test_subscribe_when_it_has_no_ack_then_auto() -> None:
    """Rows all-SUB-7, 10-SUB-15."""
    async with open_broker(listen=False) as broker, broker.connect_stream() as stream:
        broker.publish("/queue/a", b"1")
        await stream.send_all(b"CONNECT\n\n\0SUBSCRIBE\nid:mine\ndestination:/queue/a\n\n\0")
        received = b""
        with anyio.fail_after(10):
            while b"MESSAGE" not in received or not received.rstrip(b"\n").endswith(b"\0"):
                received += await stream.receive_some()
        assert b"\nsubscription:mine\n" in received
        assert broker.unacknowledged("/queue/a") == 0
        assert broker.depth("/queue/a") == 0


async def test_message_when_1_0_and_not_acknowledged_then_it_is_not_consumed() -> None:
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
