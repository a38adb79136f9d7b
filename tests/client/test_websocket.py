"""The client's end of a WebSocket: over a wire, with a far end that does as it is told, and on virtual time."""

from __future__ import annotations

import traceback

import anyio
import pytest
import trio
import trio.testing
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, RejectConnection, TextMessage

from tests.kit.loops import lasting, on_loops
from tests.kit.websocket_peer import FarEnd, Opened, opened, settings_for
from tests.kit.wire import Ending, Wire
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Secrets
from trio_stomp.runtime import as_byte_stream
from trio_stomp.transport import StepFailed
from trio_stomp.transport.websocket import WebSocketEnded, WebSocketStream, open_websocket

pytestmark = [pytest.mark.anyio, on_loops("trio")]

SEND = b"SEND\ndestination:/queue/a\n\nx\0"


async def read_all(far: FarEnd) -> None:
    while await far.receive():
        pass


async def broken(stream: WebSocketStream) -> anyio.BrokenResourceError:
    with pytest.raises(anyio.BrokenResourceError) as caught:
        await stream.receive_some()
    return caught.value


async def whole(far: FarEnd, count: int) -> list[str]:
    """Read so many messages and control frames, however they come in parts."""
    while True:
        found = [""]
        for event in far.events:
            found[-1] += event.data if isinstance(event, TextMessage) else type(event).__name__
            if not isinstance(event, TextMessage) or event.message_finished:
                found.append("")
        if len(found) > count:
            return found[:count]
        with trio.fail_after(5):
            await far.receive()


# --- opening ----------------------------------------------------------------------------------------------------------


async def try_to_open(answer: Event | Ending | bytes) -> StepFailed:
    """Open a WebSocket whose far end answers the handshake like this, in vain."""
    wire = Wire()
    settings = settings_for("ws://broker:15674/ws?token=hush")
    failures: list[StepFailed] = []

    async def open_near() -> None:
        try:
            await open_websocket(as_byte_stream(wire.client), settings.endpoints[0], settings)
        except StepFailed as failed:
            failures.append(failed)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_near)
        far = FarEnd(wire.server)
        await far.take_request()
        if isinstance(answer, Ending):
            wire.cut(answer)
        elif isinstance(answer, bytes):
            await far.send_bytes(answer)
        else:
            await far.send(answer)
    (failed,) = failures
    assert failed.step == "websocket"
    assert "hush" not in failed.reason + "".join(traceback.format_exception(failed))
    return failed


async def test_open_when_accepted_then_path_headers_and_versions_were_sent() -> None:
    wire = Wire()
    settings = settings_for(
        "ws://u:hush@broker:15674/ws/stomp?a=b",
        versions=["1.1", "1.2"],
        websocket_headers={"Authorization": "Bearer hush", "Origin": "https://example.org"},
    )
    far = FarEnd(wire.server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_websocket, as_byte_stream(wire.client), settings.endpoints[0], settings)
        await far.accept(subprotocol="v12.stomp")
    request = far.request
    assert request is not None
    assert (request.host, request.target) == ("broker:15674", "/ws/stomp?a=b")
    assert request.subprotocols == ["v12.stomp", "v11.stomp"]
    assert (b"authorization", b"Bearer hush") in request.extra_headers
    assert (b"origin", b"https://example.org") in request.extra_headers
    assert b"hush@" not in wire.to_server.data


async def test_open_when_the_broker_names_no_subprotocol_then_it_will_do() -> None:
    wire = Wire()
    settings = settings_for()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_websocket, as_byte_stream(wire.client), settings.endpoints[0], settings)
        await FarEnd(wire.server).accept()


async def test_open_when_the_answer_brings_more_then_that_is_kept() -> None:
    link = await opened(TextMessage(data="CONNECTED\n"), BytesMessage(data=b"\n\0"))
    assert await link.stream.receive_some(3) == b"CON"
    assert await link.stream.receive_some() == b"NECTED\n\n\0"


@pytest.mark.parametrize(
    ("status", "words", "refused"),
    [
        (401, "401 Unauthorized", True),
        (403, "403 Forbidden", True),
        (404, "404 Not Found to the WebSocket handshake at ws://broker:15674/ws; is the path right?", False),
        (400, "is this a port for STOMP over WebSocket? If it is one for HTTPS, use wss://", False),
        (799, "answered 799 to", False),
    ],
)
async def test_open_when_rejected_then_the_status_is_told(status: int, words: str, refused: bool) -> None:
    failed = await try_to_open(RejectConnection(status_code=status))
    assert words in failed.reason
    assert failed.refused is refused
    if refused:
        assert "websocket_headers=" in failed.reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Ending.EOF, "closed the connection during the WebSocket handshake; is this a plain STOMP port?"),
        (Ending.RESET, "the link broke during the WebSocket handshake: the link was reset"),
        (b"ERROR\nmessage:what is GET\n\n\0\n\n", "; this is a plain STOMP port: use stomp://"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "; this is a TLS port: use wss://"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "; this port speaks SSH: use the broker's STOMP port"),
        (b"\x01\x02\r\n", "is this a port for STOMP over WebSocket?"),
        # An echo: its first line is quoted in the context of the error, and has the query.
        (b"GET /ws?token=hush HTTP/1.1\r\n\r\n", "does not speak WebSocket on this port: Bad HTTP message"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "the server answered 200 OK to the WebSocket handshake"),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "does not speak WebSocket on this port",
        ),
    ],
)
async def test_open_when_the_answer_is_none_then_said_so(answer: bytes | Ending, words: str) -> None:
    assert words in (await try_to_open(answer)).reason


@pytest.mark.parametrize(
    "headers", [{"X": "hush\r\nInjected: 1"}, {"X y": "hush"}, {"X": "hush€"}, {"é": "hush"}, {"X": "\0hush"}]
)
async def test_open_when_a_header_cannot_be_sent_then_refused_without_showing_it(headers: dict[str, str]) -> None:
    settings = settings_for(websocket_headers=headers)
    with pytest.raises(LocalProtocolError, match="websocket_headers= cannot be sent") as caught:
        await open_websocket(as_byte_stream(Wire().client), settings.endpoints[0], settings)
    assert "hush" not in str(caught.value)


# --- bytes -----------------------------------------------------------------------------------------------------------


async def test_send_when_frames_were_joined_then_each_is_one_message() -> None:
    link = await opened()
    binary = b"SEND\ncontent-length:2\n\n\xff\0\0"
    await link.stream.send_all(SEND + b"\n" + binary)
    await link.far.receive()
    assert link.far.events == [
        TextMessage(data=SEND.decode()),
        TextMessage(data="\n"),
        BytesMessage(data=bytearray(binary)),
    ]


async def test_send_when_a_frame_is_long_then_its_message_goes_in_fragments() -> None:
    link = await opened()
    frame = b"SEND\n\n" + b"x" * 60_000 + b"\0"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.send_all, frame)
        while not (link.far.events and getattr(link.far.events[-1], "message_finished", False)):
            await link.far.receive()
    messages = [event for event in link.far.events if isinstance(event, TextMessage)]
    assert "".join(event.data for event in messages).encode() == frame
    assert [event.message_finished for event in messages][-1:] == [True]
    assert sum(event.message_finished for event in messages) == 1
    assert sum(event.frame_finished for event in messages) == 4


async def test_send_when_messages_may_not_be_long_then_a_frame_goes_in_several() -> None:
    link = await opened()
    link.stream.message_bytes = 32
    long = b"SEND\n\n" + "€".encode() * 40 + b"\0"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.send_all, SEND + long)
        while sum(len(event.data.encode()) for event in link.far.events if isinstance(event, TextMessage)) < len(
            SEND + long
        ):
            await link.far.receive()
    messages = [event for event in link.far.events if isinstance(event, TextMessage)]
    assert [len(event.data.encode()) for event in messages] == [29, 30, 30, 30, 30, 7]
    assert messages[0].data.encode() == SEND
    assert "".join(event.data for event in messages).encode() == SEND + long
    assert all(event.message_finished for event in messages)


async def test_receive_when_messages_come_in_any_shape_then_their_bytes_come_out() -> None:
    link = await opened()
    await link.far.send(TextMessage(data="é", message_finished=False), TextMessage(data="n", message_finished=True))
    await link.far.send(BytesMessage(data=b"\xff\0", message_finished=True), TextMessage(data=""))
    assert await link.stream.receive_some() == "én".encode() + b"\xff\0"
    link.wire.cut(Ending.EOF)
    assert await link.stream.receive_some() == b""
    assert await link.stream.receive_some() == b""


async def test_receive_when_another_task_receives_then_busy() -> None:
    link = await opened()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.receive_some)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await link.stream.receive_some()
        await link.far.send(TextMessage(data="x"))


async def test_send_when_it_was_cut_off_then_nothing_follows() -> None:
    link = await opened()
    link.wire.to_server.capacity_bytes = 4
    with trio.move_on_after(1) as scope:
        await link.stream.send_all(SEND)
    assert scope.cancelled_caught
    with lasting(0):
        with pytest.raises(anyio.BrokenResourceError, match="cut off"):
            await link.stream.send_all(SEND)
        # Closing does not wait for a Close that could not be read.
        await link.stream.aclose()
    assert link.wire.ending is Ending.EOF


async def test_write_now_when_there_is_room_then_each_frame_is_one_message() -> None:
    link = await opened(TextMessage(data="x"), Ping(payload=b"p"))
    assert await link.stream.receive_some() == b"x"
    frames = SEND + b"\n"
    assert link.stream.write_now(frames) == len(frames)
    await link.far.receive()
    assert link.far.events == [Pong(payload=b"p"), TextMessage(data=SEND.decode()), TextMessage(data="\n")]


async def test_write_now_when_there_is_little_room_then_the_end_of_the_message_comes_before_all_else() -> None:
    link = await opened()
    link.wire.to_server.capacity_bytes = 10
    taken = link.stream.write_now(SEND)
    assert taken == len(SEND) - 1
    assert link.stream.unwritten_bytes == 1
    assert link.stream.write_now(SEND) == 0
    async with trio.open_nursery() as nursery:
        await link.far.send(TextMessage(data="x"), Ping(payload=b"p"))
        assert await link.stream.receive_some() == b"x"
        # The ping is not answered in the middle of a message.
        with trio.move_on_after(1):
            await link.stream.receive_some()
        nursery.start_soon(link.stream.send_all, SEND[taken:] + b"\n")
        assert await whole(link.far, 3) == [SEND.decode(), "Pong", "\n"]
    assert link.stream.unwritten_bytes == 0


async def test_write_now_when_it_is_closed_in_the_middle_of_a_message_then_its_end_comes_before_the_close() -> None:
    link = await opened()
    link.wire.to_server.capacity_bytes = 10
    assert link.stream.write_now(SEND) == len(SEND) - 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.aclose)
        assert await whole(link.far, 2) == [SEND.decode(), "CloseConnection"]
    assert link.stream.write_now(SEND) == 0


async def test_wait_send_when_open_then_it_asks_the_stream_below() -> None:
    link = await opened()
    await link.stream.wait_writable()
    await link.stream.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await link.stream.wait_writable()


# --- ping -------------------------------------------------------------------------------------------------------------


async def answered(link: Opened, payload: bytes) -> None:
    with trio.fail_after(5):
        while link.far.events[-1:] != [Pong(payload=payload)]:
            await link.far.receive()


async def test_ping_when_it_comes_then_answered_while_receiving() -> None:
    link = await opened()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.receive_some)
        await link.far.send(Ping(payload=b"1"), Ping(payload=b"2"))
        await answered(link, b"2")
        # And again: the same receive goes on.
        await link.far.send(Ping(payload=b"3"))
        await answered(link, b"3")
        assert sum(isinstance(event, Pong) for event in link.far.events) == 2
        await link.far.send(TextMessage(data="x"))


async def test_ping_when_a_send_comes_first_then_the_answer_goes_with_it() -> None:
    link = await opened()
    await link.far.send(TextMessage(data="x"), Ping(payload=b"p"))
    assert await link.stream.receive_some() == b"x"
    await link.stream.send_all(SEND)
    await link.far.receive()
    assert link.far.events == [Pong(payload=b"p"), TextMessage(data=SEND.decode())]


async def test_ping_when_the_broker_does_not_read_then_receiving_goes_on() -> None:
    link = await opened()
    link.wire.to_server.capacity_bytes = 10
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.stream.send_all, SEND)
        await trio.testing.wait_all_tasks_blocked()
        await link.far.send(TextMessage(data="x"), Ping(payload=b"p"))
        assert await link.stream.receive_some() == b"x"
        await link.far.send(TextMessage(data="y"))
        assert await link.stream.receive_some() == b"y"
        link.wire.to_server.capacity_bytes = 10_000
        await link.far.receive()
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await link.stream.receive_some()
    await answered(link, b"p")
    assert isinstance(link.far.events[-1], Pong)


async def test_ping_when_the_link_breaks_then_receiving_tells() -> None:
    link = await opened()
    await link.far.send(TextMessage(data="x"), Ping(payload=b"p"))
    assert await link.stream.receive_some() == b"x"
    link.wire.cut(Ending.RESET)
    assert "reset" in str(await broken(link.stream))


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (CloseConnection(code=1000, reason="STOMP died"), "code 1000 (normal closure): STOMP died"),
        (CloseConnection(code=1009, reason="big"), "code 1009 (message too big): big; send smaller messages"),
        (CloseConnection(code=3999, reason=None), "code 3999"),
    ],
)
async def test_close_when_it_comes_then_its_code_is_told_behind_what_came_before(
    event: CloseConnection, words: str
) -> None:
    link = await opened()
    await link.far.send(TextMessage(data="last"), event)
    assert await link.stream.receive_some() == b"last"
    error = await broken(link.stream)
    assert isinstance(error.__cause__, WebSocketEnded)
    assert f"the broker closed the WebSocket: {words}" in str(error.__cause__)
    with pytest.raises(anyio.BrokenResourceError):
        await link.stream.send_all(SEND)
    await link.stream.aclose()
    await link.far.receive()
    assert [type(event) for event in link.far.events] == [CloseConnection]


async def test_close_when_its_reason_quotes_a_secret_then_masked() -> None:
    link = await opened()
    link.stream.secrets = Secrets([("passcode", "s3cr3t-passcode")])
    await link.far.send(CloseConnection(1008, "no: s3cr3t-passcode, s3cr3t-pass"))
    error = await broken(link.stream)
    assert str(error.__cause__).endswith("no: [redacted], [redacted]")
    await link.stream.aclose()


async def test_close_when_text_is_none_then_the_cause_names_rabbitmqs_setting() -> None:
    link = await opened()
    await link.far.send_bytes(b"\x81\x02\xff\xfe")
    error = await broken(link.stream)
    assert "web_stomp.ws_frame = binary" in str(error.__cause__)
    await link.stream.aclose()
    await link.far.receive()
    (goodbye,) = link.far.events
    assert isinstance(goodbye, CloseConnection)
    assert goodbye.code == 1007


async def test_close_when_the_rules_are_broken_then_said_so() -> None:
    link = await opened()
    await link.far.send_bytes(b"\xf0\x00")
    assert "the broker violated the WebSocket protocol" in str((await broken(link.stream)).__cause__)


async def test_aclose_when_the_peer_answers_then_both_said_goodbye() -> None:
    link = await opened()
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(link.stream.aclose)
        await link.far.send(TextMessage(data="too late"))
        while not link.far.events:
            await link.far.receive()
        (goodbye,) = link.far.events
        assert isinstance(goodbye, CloseConnection)
        assert goodbye.code == 1000
        await link.far.send(goodbye.response())
    assert trio.current_time() == began
    assert link.wire.ending is Ending.EOF
    with pytest.raises(anyio.ClosedResourceError):
        await link.stream.send_all(SEND)
    with pytest.raises(anyio.ClosedResourceError):
        await link.stream.receive_some()
    await link.stream.aclose()


async def test_aclose_when_the_peer_is_silent_then_it_is_not_waited_for_long() -> None:
    link = await opened()
    with lasting(1):
        await link.stream.aclose()
    assert link.wire.ending is Ending.EOF


async def test_aclose_when_the_link_is_broken_then_closed() -> None:
    link = await opened()
    link.wire.cut(Ending.RESET)
    with lasting(0):
        await link.stream.aclose()
    assert link.wire.client.closed


async def test_aclose_when_forced_then_without_a_word() -> None:
    link = await opened()
    await anyio.aclose_forcefully(link.stream)
    assert link.wire.client.closed
    await read_all(link.far)
    assert link.far.events == []


async def test_aclose_when_another_task_receives_then_that_one_finds_it_closed() -> None:
    link = await opened()

    async def receive() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await link.stream.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await link.stream.aclose()
