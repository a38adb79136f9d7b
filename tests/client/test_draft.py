"""A client of the early draft of STOMP, with the embedded broker in draft mode and with a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_talking_to
from tests.client.ways import confirmed, plain, transacted
from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import AuthenticationError, Client, LocalProtocolError, NotSupportedError, OutgoingMessage
from trio_stomp.protocol import Role
from trio_stomp.testing import Broker, BrokerOptions, ScriptedPeer, open_broker, open_scripted_peer
from trio_stomp.types import Command, ConnectOptions, Frame, Settlement

pytestmark = [pytest.mark.anyio, on_loops("trio")]

OPTIONS: ConnectOptions = {"versions": ["draft"], "login": "ann", "passcode": "secret"}
connect_stream = partial(trio_stomp.connect_stream, versions=["draft"], login="ann", passcode="secret")
SERVER = BrokerOptions(draft=True, logins={"ann": "secret"})


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with open_broker(listen=False, options=SERVER) as opened:
        yield opened


def sent_by(stream: TappedStream) -> list[Frame]:
    frames, torn = frames_of(stream.sent)
    assert not torn
    return frames


async def test_session_when_all_verbs_are_used_then_each_frame_is_one_of_the_draft(
    broker: Broker, tmp_path: Path
) -> None:
    """Rows draft-CONN-15, draft-LEN-5, draft-LEN-7, draft-LEN-8, all-RCPT-4."""
    path = tmp_path / "body"
    path.write_bytes(b"from a\0file")
    stream = TappedStream(broker.connect_stream())
    async with connect_stream(stream) as client:
        await client.send("/queue/a", b"")
        await client.send("/queue/a", "text", receipt=True, headers={"x-y": "a:b\\c ž"})
        await client.send("/queue/a", path, receipt=True)
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"published")
        async with client.transaction() as transaction:
            await transaction.send("/queue/a", b"in a transaction")
        async with client.subscribe("/queue/a", ack="client") as messages:
            taken = [await anext(messages) for _ in range(5)]
            await taken[-1].ack(receipt=True)
    assert [message.body for message in taken] == [b"", b"text", b"from a\0file", b"published", b"in a transaction"]
    assert taken[1].headers["x-y"] == "a:b\\c ž"
    assert [message.settlement for message in taken] == [Settlement.ACKED] * 5
    assert broker.messages("/queue/a") == ()

    connect, *others = sent_by(stream)
    assert connect.headers == {"username": "ann", "passcode": "secret", "content-length": "0"}
    assert [frame.headers["content-length"] for frame in others] == [str(len(frame.body)) for frame in others]
    assert {frame.command for frame in others} == {
        *(Command.SEND, Command.SUBSCRIBE, Command.UNSUBSCRIBE, Command.ACK),
        *(Command.BEGIN, Command.COMMIT, Command.DISCONNECT),
    }
    assert others[-1].command is Command.DISCONNECT
    answers, _ = frames_of(stream.received, Role.CLIENT)
    assert all(frame.headers["content-length"] == str(len(frame.body)) for frame in answers)


async def test_connect_when_there_are_no_credentials_then_those_that_the_draft_requires_are_empty() -> None:
    """Row draft-CONN-15."""
    async with open_broker(listen=False, options=BrokerOptions(draft=True)) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream, versions=["draft"], headers={"client-id": "c"}):
            pass
    connect, *_ = sent_by(stream)
    assert connect.headers == {"client-id": "c", "username": "", "passcode": "", "content-length": "0"}


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x-y": "tab\there"}, r"header 'x-y' of S\w+ holds '\\t'.*allows no control characters"),
        ({"x-y": "a\nb"}, "allows no control characters"),
        ({"x-y": "a\r\nb"}, "allows no control characters"),
        ({"x-y": "a\0b"}, "allows no control characters"),
        ({"x-y": "a\x7f"}, "allows no control characters"),
        ({"x-y": " padded"}, "begins or ends with a space"),
        ({"x-y": "padded "}, "begins or ends with a space"),
        ({"X-y": "1"}, "lower-case letters and digits.*got 'X-y'"),
        ({"x_y": "1"}, "got 'x_y'"),
        ({"x-": "1"}, "got 'x-'"),
        ({"x:y": "1"}, "got 'x:y'"),
        ({"ž": "1"}, "got 'ž'"),
        ({"": "1"}, "got ''"),
    ],
)
async def test_send_when_the_draft_cannot_carry_a_header_then_refused_and_the_session_goes_on(
    broker: Broker, headers: dict[str, str], told: str
) -> None:
    """Rows draft-LEN-5, draft-LEN-6."""
    async with connect_stream(broker.connect_stream()) as client:
        for send in (plain, confirmed, transacted):
            with pytest.raises(LocalProtocolError, match=told):
                await send(client, "/queue/a", b"1", headers=headers)
        with pytest.raises(LocalProtocolError, match=told):
            async with client.subscribe("/queue/a", ack="auto", headers=headers):
                raise AssertionError
        await client.send("/queue/a", b"2", receipt=True)
    assert [frame.body for frame in broker.messages("/queue/a")] == [b"2"]


async def test_send_when_a_destination_holds_a_control_character_then_refused(broker: Broker) -> None:
    """Row draft-LEN-6."""
    async with connect_stream(broker.connect_stream()) as client:
        with pytest.raises(LocalProtocolError, match="header 'destination' of SEND"):
            await client.send("/queue/a\t", b"1")
        with pytest.raises(LocalProtocolError, match="header 'destination' of SUBSCRIBE"):
            async with client.subscribe("/queue/a\t", ack="auto"):
                raise AssertionError


async def test_connect_when_a_passcode_holds_a_control_character_then_refused_without_showing_it(
    broker: Broker,
) -> None:
    """Row draft-LEN-6."""
    with pytest.raises(LocalProtocolError, match="header 'passcode' of CONNECT") as refused:
        async with connect_stream(broker.connect_stream(), passcode="hidden\t"):
            raise AssertionError
    assert "hidden" not in str(refused.value)


async def test_nack_when_the_draft_lacks_it_then_the_error_says_so_and_what_to_do(broker: Broker) -> None:
    async with connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", b"1")
        async with client.subscribe("/queue/a", ack="client") as messages:
            message = await anext(messages)
            for requeue in (None, True, False):
                with pytest.raises(
                    LocalProtocolError, match=r"the early draft of STOMP has no NACK; leave .* unsettled"
                ):
                    await message.nack(requeue=requeue)
            with pytest.raises(LocalProtocolError, match="has no NACK"):
                async with client.transaction() as transaction:
                    await transaction.nack(message)
            assert message.settlement is Settlement.UNSETTLED
            with pytest.raises(ValueError, match="handler"):
                async with message:
                    raise ValueError("handler")  # a stand-in for a handler's error
        assert message.settlement is Settlement.UNSETTLED
    assert broker.depth("/queue/a") == 1


async def test_subscribe_when_the_draft_lacks_the_ack_mode_then_the_error_names_those_it_has(broker: Broker) -> None:
    async with connect_stream(broker.connect_stream()) as client:
        with pytest.raises(NotSupportedError, match=r"draft of STOMP has no ack mode 'client-individual'; it has auto"):
            async with client.subscribe("/queue/a", ack="client-individual"):
                raise AssertionError


async def test_heart_beat_when_offered_then_there_is_none(broker: Broker) -> None:
    stream = TappedStream(broker.connect_stream())
    async with connect_stream(stream, heart_beat=(1, 1)) as client:
        assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 0
        before = bytes(stream.sent)
        await trio.sleep(20)
        assert stream.sent == before


@pytest.mark.parametrize("versions", [["draft", "1.0"], ["1.2", "draft"]])
async def test_connect_when_the_draft_is_not_alone_then_the_error_says_why(versions: list[str]) -> None:
    with pytest.raises(LocalProtocolError, match=r"cannot be negotiated.*got \(.*; use \['draft'\]"):
        async with trio_stomp.connect("stomp://localhost", versions=versions):
            raise AssertionError


@pytest.mark.parametrize(("url", "vhost"), [("stomp://localhost/mine", None), ("stomp://localhost", "mine")])
async def test_connect_when_a_virtual_host_is_named_then_the_error_says_that_the_draft_has_none(
    url: str, vhost: str | None
) -> None:
    with pytest.raises(LocalProtocolError, match="the early draft of STOMP has no virtual hosts, got 'mine'"):
        async with trio_stomp.connect(url, vhost=vhost, versions=["draft"]):
            raise AssertionError


async def test_request_when_both_sides_speak_the_draft_then_the_reply_comes(broker: Broker) -> None:
    async def serve(server: Client) -> None:
        async with server.subscribe("/queue/rpc", ack="client") as requests:
            async with await anext(requests) as request:
                await request.reply(b"pong")

    async with (
        connect_stream(broker.connect_stream()) as server,
        connect_stream(broker.connect_stream()) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, server)
        reply = await client.request("/queue/rpc", b"ping", timeout=5)
    assert reply.body == b"pong"


async def test_reconnect_when_the_link_is_lost_then_the_draft_is_spoken_again_and_nothing_is_lost(
    broker: Broker,
) -> None:
    async with (
        reconnecting(Host(broker, refuses=True), broker, **OPTIONS) as client,
        client.subscribe("/queue/a", ack="client") as messages,
    ):
        await client.send("/queue/a", b"1", receipt=True)
        await (await anext(messages)).ack(receipt=True)
        broker.drop_connections()
        await client.send_many((OutgoingMessage("/queue/a", b"%d" % n) for n in (2, 3)), receipt=True)
        assert [(await anext(messages)).body for _ in range(2)] == [b"2", b"3"]


# --- a server that writes as only the draft allows ------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_session_when_the_server_pads_and_mixes_case_then_all_is_read(size: int) -> None:
    """Rows draft-LEN-1 to draft-LEN-5, draft-RCPT-5."""

    async def say(peer: ScriptedPeer, data: bytes) -> None:
        for at in range(0, len(data), size):
            await peer.send_bytes(data[at : at + size])

    async def script(peer: ScriptedPeer) -> None:
        await peer.expect(Command.CONNECT, username="ann", passcode="secret")
        peer.use_version("1.0")
        # A message may come right behind CONNECTED, in the same chunk.
        await say(peer, b"\r\n\nConnected \r\nSESSION: 7 \r\n\r\n\0\n \r\nmessage\nDestination: /q\nMessage-ID:0\n\n\0")
        await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        head = (
            b"\nmessage \r\nDestination: /queue/a \r\nMessage-ID: m1  \r\nContent-Length: 3 \r\nFoo:  bar\r \r\n \r\n"
        )
        await say(peer, head + b"h\0i\0\r\n")
        first = await peer.expect(Command.SEND, body=b"1")
        second = await peer.expect(Command.SEND, body=b"2")
        for frame in (second, first):
            await say(peer, b"receipt\r\nReceipt-Id: %b \n\n\0" % (frame.headers["receipt"] or "").encode())
        await peer.expect(Command.UNSUBSCRIBE)
        await peer.expect_disconnect()

    async with client_talking_to(script, **OPTIONS) as client:
        async with client.subscribe("/queue/a", ack="auto") as messages:
            message = await anext(messages)
            async with trio.open_nursery() as senders:
                for body in (b"1", b"2"):
                    senders.start_soon(confirmed, client, "/queue/b", body)
                    await trio.testing.wait_all_tasks_blocked()
    assert message.body == b"h\0i"
    assert message.headers == {"destination": "/queue/a", "message-id": "m1", "content-length": "3", "foo": "bar"}


async def test_leaving_when_the_server_closes_without_a_receipt_then_all_is_well() -> None:
    """Row draft-LEN-7."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.expect(Command.CONNECT)
        peer.use_version("1.0")
        await peer.send_bytes(b"CONNECTED\n\n\0")
        await peer.expect(Command.SEND, body=b"1")
        await peer.expect(Command.DISCONNECT)
        await peer.aclose()

    async with client_talking_to(script, **OPTIONS) as client:
        await client.send("/queue/a", b"1")


async def test_connect_when_the_server_refuses_in_lower_case_then_its_words_are_in_the_error() -> None:
    """Row draft-LEN-3."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.expect(Command.CONNECT)
        await peer.send_bytes(b"\r\nerror \r\nMessage: Access refused \r\n\r\nwho are you?\0")

    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(script, peer)
        with pytest.raises(AuthenticationError, match=r"Access refused: who are you\?"):
            async with connect_stream(peer.connect_stream()):
                raise AssertionError
