"""The wire log: every frame, cut short, and no secrets."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp.protocol import encode_frame
from trio_stomp.session.wire_log import wire_log
from trio_stomp.testing import Broker, ScriptedPeer, open_scripted_peer
from trio_stomp.types import Command, Frame, Headers, Version

NAME = "trio_stomp.wire"


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == NAME]


def commands_of(lines: list[str]) -> list[str]:
    return [line.partition(": ")[2].partition(" ")[0] for line in lines]


def test_wire_log_when_its_logger_is_not_at_debug_then_there_is_none() -> None:
    assert wire_log("stomp://b", Version.V1_2) is None


async def test_wire_log_when_debug_then_heart_beats_are_there_and_each_line_is_cut_short(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    async with trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(1, 1)) as client:
        await client.send("/queue/a", b"x" * 5000, receipt=True, headers={"line": "one\ntwo"})
        await trio.sleep(3)
    lines = lines_of(caplog)
    assert "heart-beat" in commands_of(lines)
    assert max(map(len, lines)) < 600
    assert not any("\n" in line for line in lines)


async def test_wire_log_when_the_peer_breaks_the_protocol_then_it_says_how(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    with pytest.raises(trio_stomp.RemoteProtocolError, match="unknown command"):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            broker.faults.send_bytes(b"NONSENSE\n\n\0")
            await client.wait_closed()
    last = lines_of(caplog)[-1]
    assert last.startswith("from the program's own stream: invalid input: ")


class Book:
    """What a scripted peer has sent, as the log is to show it."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer
        self._unsent = b""
        self.lines: list[str] = []

    def add(self, command: Command, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Prepare a frame to be sent."""
        pairs = tuple(headers.items())
        self._unsent += encode_frame(command, pairs, body, version=self._peer.version)
        if command is Command.RECEIPT:
            self.lines.append(f"RECEIPT {headers['receipt-id']}")
            return
        length = [("content-length", str(len(body)))] if body else []
        self.lines.append(str(Frame(command, Headers([*pairs, *length]), body)))

    async def flush(self, cut: int | None = None) -> None:
        """Send what was prepared, cut into pieces or in one."""
        data, self._unsent = self._unsent, b""
        for start in range(0, len(data), cut or len(data)):
            await self._peer.send_bytes(data[start : start + (cut or len(data))])
            await trio.lowlevel.checkpoint()


async def serve_everything(peer: ScriptedPeer, book: Book, version: str) -> None:
    """Play a server that makes the client use each of its ways to read and to write frames."""
    await peer.expect(Command.CONNECT)
    peer.use_version(version)
    book.add(Command.CONNECTED, {"version": version})
    # Read together with CONNECTED, before the connection is in use.
    book.add(Command.RECEIPT, {"receipt-id": "early"})
    await book.flush()
    sent = 0
    while True:
        frame = await peer.next_frame()
        if "receipt" in frame.headers:
            book.add(Command.RECEIPT, {"receipt-id": frame.headers["receipt"]})
            await book.flush(cut=7)
        if frame.command is Command.SUBSCRIBE:
            for sent in range(1, 41):
                own = {"ack": f"a-{sent}"} if version == "1.2" else {}
                headers = {"subscription": "s", "message-id": f"m-{sent}", "destination": "/queue/a", **own}
                book.add(Command.MESSAGE, headers, b"body %d" % sent)
            await book.flush(cut=1000)
        if frame.command is Command.DISCONNECT:
            return


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_wire_log_when_frames_go_every_way_then_it_is_what_the_peer_has_seen_and_sent(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    async with open_scripted_peer(listen=True) as peer, trio.open_nursery() as nursery:
        url, book = f"stomp://127.0.0.1:{peer.port}", Book(peer)
        nursery.start_soon(serve_everything, peer, book, version)
        async with trio_stomp.connect(peer.url, login="guest", passcode="hush", heart_beat=(0, 0)) as client:
            for number in range(3):
                await client.send("/queue/a", b"confirmed %d" % number, receipt=True)
            # More than the operating system takes at once.
            await client.send("/queue/a", b"x" * 8_000_000, receipt=True)
            for number in range(3):
                await client.send("/queue/a", b"plain %d" % number, headers={"escaped": "a:b"})
                await client.send("/queue/a", b"confirmed %d" % number, receipt=True)
            await client.send_many([trio_stomp.OutgoingMessage("/queue/a", b"%d" % number) for number in range(30)])
            async with client.publisher(max_in_flight=8) as publisher:
                for number in range(100):
                    await publisher.send("/queue/a", b"published %d" % number, headers={"number": str(number)})
            async with client.subscribe("/queue/a", id="s") as subscription:
                messages = [await anext(subscription) for _ in range(40)]
                await messages[0].ack()
                await messages[1].ack(receipt=True)
                await messages[2].nack()
                await subscription.ack_up_to(messages[20])
                async with client.transaction() as transaction:
                    await transaction.send("/queue/a", b"in a transaction")
                    await transaction.ack(messages[21])
                with pytest.raises(LookupError):
                    async with client.transaction():
                        raise LookupError
        seen = [str(frame) for frame in peer.received]
    logged = lines_of(caplog)
    assert [line.removeprefix(f"to {url}: ") for line in logged if line.startswith("to ")] == seen
    assert [line.removeprefix(f"from {url}: ") for line in logged if line.startswith("from ")] == book.lines
    assert "hush" not in caplog.text
    assert "[redacted]" in logged[0]


async def test_wire_log_when_the_link_breaks_within_a_frame_then_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    async with open_scripted_peer(listen=True) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(peer.accept_connect)
        with pytest.raises(trio_stomp.ConnectionLost):
            async with trio_stomp.connect(peer.url, heart_beat=(0, 0)) as client:

                async def close() -> None:
                    await trio.testing.wait_all_tasks_blocked()
                    await peer.aclose()

                # The writer sleeps, so that the frame is written at once, as far as it goes.
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(close)
                await client.send("/queue/a", b"x" * 8_000_000, receipt=True)
    assert commands_of(lines_of(caplog)) == ["CONNECT", "CONNECTED", "SEND"]


async def test_wire_log_when_connect_is_refused_then_the_refusal_is_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    async with open_scripted_peer(listen=True) as peer, trio.open_nursery() as nursery:
        url = f"stomp://127.0.0.1:{peer.port}"

        async def refuse() -> None:
            await peer.expect(Command.CONNECT)
            await peer.send_bytes(b"ERROR\nmessage:no\n\n\0")

        nursery.start_soon(refuse)
        with pytest.raises(trio_stomp.ConnectError):
            async with trio_stomp.connect(peer.url):
                pass
    lines = lines_of(caplog)
    assert lines[1:] == [f"from {url}: ERROR [('message', 'no')]"]


SECRET = "s3cr3t-passcode"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


@pytest.mark.parametrize(
    "answer",
    [
        b"ERROR\nmessage:Bad CONNECT\n\nFRAME\0",
        b"ERROR\nmessage:passcode s3cr3t-passcode is wrong\npasscode:s3cr3t-passcode\n\n\0",
        b"s3cr3t-passcode? What is that?\n\0",
        CONNECTED + b"ERROR\nmessage:passcode s3cr3t-passcode has expired\n\nam9lOnMzY3IzdC1wYXNzY29kZQ==\0",
        CONNECTED + b"RECEIPT\ns3cr3t-passcode\n\n\0",
        CONNECTED + b"ERROR\nmessage:t0k3n-s3cr3t\n\n" + b"x" * 290 + b" s3cr3t-passcode\0",
    ],
)
async def test_errors_and_log_when_the_broker_quotes_a_secret_then_it_is_masked(
    answer: bytes, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept()
        frame = await peer.next_frame()
        echoed = "".join(f"{name}:{value}\n" for name, value in frame.headers.pairs)
        await peer.send_bytes(answer.replace(b"FRAME", echoed.encode()))

    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)
        with pytest.raises(trio_stomp.StompError) as caught:
            async with trio_stomp.connect_stream(
                peer.connect_stream(),
                login="joe",
                passcode=SECRET,
                headers={"x-session": "t0k3n-s3cr3t", "client-id": "me"},
                heart_beat=(0, 0),
            ) as client:
                await client.wait_closed()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
    assert "client-id" in shown
    for secret in ("s3cr3t", "am9lOnMzY3IzdC1wYXNzY29kZQ"):
        assert secret not in shown
