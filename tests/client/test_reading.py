"""A task that waits for its RECEIPT reads in place of the reader, and nothing is lost when it stops."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

import trio_stomp
from tests.kit.peer import Peer, PeerOptions
from trio_stomp import Client, ConnectionLost, ProtocolError, StompError
from trio_stomp.testing import run_broker_in_thread
from trio_stomp.types import Command

MESSAGES = 40


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Client, Peer]]:
    """A client on a plain socket whose sender has come to read by itself."""
    ours, theirs = trio.socket.socketpair()
    peer = Peer(trio.SocketStream(theirs), PeerOptions(server=None))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)  # noqa: ASYNC113  # the socket holds what is written before it runs
        async with trio_stomp.connect_stream(trio.SocketStream(ours), disconnect_timeout=1) as client:
            await send(client)
            yield client, peer
        nursery.cancel_scope.cancel()


async def send(client: Client, count: int = MESSAGES) -> None:
    # Whether the sender runs before the reader in a pass is random: it takes the turn after a few messages.
    for _ in range(count):
        await client.send("/queue/a", b"x", receipt=True)


@asynccontextmanager
async def reading(client: Client, peer: Peer) -> AsyncGenerator[trio.Nursery]:
    """A block in which a sender reads, because it waits for a RECEIPT that does not come by itself."""
    peer.silent.add(Command.SEND)
    sent = len(peer.of(Command.SEND))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, client)
        await peer.wait_for(Command.SEND, sent + 1)
        yield nursery


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
        peer.deliver("s", b"later")

        assert (await anext(subscription)).body == b"later"


async def test_reader_when_the_sender_is_canceled_then_delivers_what_comes() -> None:
    async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
        await send(client)
        async with reading(client, peer) as sender:
            sender.cancel_scope.cancel()
        peer.answer_kept_back()
        peer.deliver("s", b"later")

        assert (await anext(subscription)).body == b"later"
        assert client.statistics().receipts_unexpected == 1
        peer.silent.clear()
        await send(client)


async def test_messages_when_the_sender_reads_them_then_they_reach_their_subscription() -> None:
    async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
        await send(client)
        async with reading(client, peer):
            peer.deliver("s", b"first")
            assert (await anext(subscription)).body == b"first"
            # The reader has the turn again.
            peer.deliver("s", b"second")
            assert (await anext(subscription)).body == b"second"
            peer.silent.clear()
            peer.answer_kept_back()


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [(None, ConnectionLost, "the broker closed it"), (b"NONSENSE\n\n\0", ProtocolError, "NONSENSE")],
    ids=["end", "invalid input"],
)
async def test_sender_when_the_connection_fails_while_it_reads_then_it_raises(
    data: bytes | None, error: type[StompError], words: str
) -> None:
    async with connected() as (client, peer):
        with pytest.RaisesGroup(pytest.RaisesExc(error, match=words)):
            async with reading(client, peer):
                if data is None:
                    peer.hang_up()
                else:
                    peer.put(data)


async def test_body_when_a_subscription_begins_to_spool_while_the_sender_reads_then_it_goes_into_a_file() -> None:
    body = bytes(200_000)
    async with connected() as (client, peer), reading(client, peer):
        peer.silent.clear()
        async with client.subscribe("/queue/a", ack="auto", id="s", spool_threshold_bytes=65_536) as subscription:
            peer.deliver("s", body)
            peer.answer_kept_back()
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

    async def deliver(peer: Peer, sent: int) -> None:
        await peer.wait_for(Command.SEND, sent + 1)
        peer.deliver("s", b"first")

    async def run() -> None:
        async with connected() as (client, peer), client.subscribe("/queue/a", ack="auto", id="s") as subscription:
            await send(client)
            peer.silent.add(Command.SEND)
            with pytest.RaisesGroup(KeyboardInterrupt):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(deliver, peer, len(peer.of(Command.SEND)))
                    await send(client)
            with trio.fail_after(5):
                assert (await anext(subscription)).body == b"first"

    trio.run(run)
