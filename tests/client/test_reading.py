"""A task that waits for its RECEIPT reads in place of the reader, and nothing is lost when it stops."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

import trio_stomp
from trio_stomp import Client, ConnectionLost, ProtocolError
from trio_stomp.testing import run_broker_in_thread

MESSAGES = 40


class Peer:
    """The other end of a socket: answers each receipt, as long as it is told to."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.answers = True
        self.unanswered: list[bytes] = []
        self.came = trio.Event()
        self._sending = trio.Lock()

    async def send(self, data: bytes) -> None:
        async with self._sending:
            await self.stream.send_all(data)

    async def serve(self) -> None:
        await self.send(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        with suppress(trio.ClosedResourceError):
            await self._answer()

    async def _answer(self) -> None:
        async for data in self.stream:
            for part in bytes(data).split(b"\nreceipt:")[1:]:
                receipt = b"RECEIPT\nreceipt-id:%b\n\n\0" % part.split(b"\n")[0]
                if self.answers:
                    await self.send(receipt)
                else:
                    self.unanswered.append(receipt)
                    self.came.set()

    def stop(self) -> None:
        """Answer no more."""
        self.answers, self.came = False, trio.Event()


def message(subscription: str, body: bytes = b"x") -> bytes:
    return b"MESSAGE\nsubscription:%b\nmessage-id:1\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (
        subscription.encode(),
        len(body),
        body,
    )


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Client, Peer]]:
    """A client on a plain socket whose sender has come to read by itself, and which has sent one more message."""
    ours, theirs = trio.socket.socketpair()
    peer = Peer(trio.SocketStream(theirs))
    async with peer.stream, trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)  # noqa: ASYNC113  # the socket holds what is written before it runs
        async with trio_stomp.connect_stream(trio.SocketStream(ours), disconnect_timeout=1) as client:
            await send(client)
            yield client, peer
        nursery.cancel_scope.cancel()


async def send(client: Client, count: int = MESSAGES) -> None:
    # Whether the sender runs before the reader in a pass is random: it takes the turn after a few messages.
    for _ in range(count):
        await client.send("/queue/a", b"x", receipt=True)


class Wakings(trio.abc.Instrument):
    """Counts how often a task is woken by input."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self._looks = False
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self._looks = True

    def after_io_wait(self, timeout: float) -> None:
        self._looks = False

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self.count += self._looks and task is self._task


def test_sender_when_it_sends_one_message_after_the_other_then_its_receipts_wake_it_without_the_reader() -> None:
    counted: list[int] = []

    async def run(port: int) -> None:
        async with trio_stomp.connect(f"stomp://127.0.0.1:{port}", heart_beat=(0, 0)) as client:
            await send(client)
            wakings = Wakings(trio.lowlevel.current_task())
            trio.lowlevel.add_instrument(wakings)
            await send(client)
            trio.lowlevel.remove_instrument(wakings)
            counted.append(wakings.count)

    with run_broker_in_thread() as broker:
        trio.run(run, broker.port)

    assert counted == [MESSAGES]


async def test_reader_when_the_sender_does_something_else_then_delivers_what_comes() -> None:
    async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
        await send(client)
        await peer.send(message("s", b"later"))

        assert (await anext(subscription)).body == b"later"


async def test_reader_when_the_sender_is_canceled_then_delivers_what_comes() -> None:
    async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
        await send(client)
        peer.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            await peer.came.wait()
            nursery.cancel_scope.cancel()
        await peer.send(b"".join(peer.unanswered) + message("s", b"later"))

        assert (await anext(subscription)).body == b"later"
        assert client.statistics().receipts_unexpected == 1
        peer.answers = True
        await send(client)


async def test_messages_when_the_sender_reads_them_then_they_reach_their_subscription() -> None:
    async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
        await send(client)
        peer.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            await peer.came.wait()
            await peer.send(message("s", b"first"))
            assert (await anext(subscription)).body == b"first"
            # The reader has the turn again.
            await peer.send(message("s", b"second"))
            assert (await anext(subscription)).body == b"second"
            peer.answers = True
            await peer.send(b"".join(peer.unanswered))


async def test_sender_when_the_connection_ends_while_it_reads_then_it_raises() -> None:
    async with connected() as (client, peer), trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ConnectionLost, match="the broker closed it"):
                await send(client)

        peer.stop()
        nursery.start_soon(fail)
        await peer.came.wait()
        await peer.stream.aclose()


async def test_sender_when_invalid_input_comes_while_it_reads_then_it_raises() -> None:
    async with connected() as (client, peer), trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ProtocolError, match="NONSENSE"):
                await send(client)

        peer.stop()
        nursery.start_soon(fail)
        await peer.came.wait()
        await peer.send(b"NONSENSE\n\n\0")


async def test_body_when_a_subscription_begins_to_spool_while_the_sender_reads_then_it_goes_into_a_file() -> None:
    body = bytes(200_000)
    async with connected() as (client, peer):
        peer.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, client)
            await peer.came.wait()
            peer.answers = True
            async with client.subscribe("/queue/a", ack="auto", id="s", spool_threshold_bytes=65_536) as subscription:
                await peer.send(message("s", body) + b"".join(peer.unanswered))
                spooled = await anext(subscription)

                assert spooled.is_spooled
                assert b"".join([chunk async for chunk in spooled.chunks()]) == body


class InterruptedAt(logging.Handler):
    """Presses Ctrl-C when the wire log shows a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            signal.raise_signal(signal.SIGINT)


def test_messages_when_ctrl_c_comes_while_the_sender_reads_them_then_they_are_there(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, logger="trio_stomp.wire")
    monkeypatch.setattr(logging.getLogger("trio_stomp.wire"), "handlers", [InterruptedAt("b'first'")])

    async def deliver(peer: Peer) -> None:
        await peer.came.wait()
        await peer.send(message("s", b"first"))

    async def run() -> None:
        async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
            await send(client)
            peer.stop()
            with pytest.RaisesGroup(KeyboardInterrupt):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(deliver, peer)
                    await send(client)
            with trio.fail_after(5):
                assert (await anext(subscription)).body == b"first"

    trio.run(run)
