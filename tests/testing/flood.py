"""Floods against ``trio-stomp broker``: clients that make it hold as much as they can, and how much memory it takes.

Run ``python -m tests.testing.flood`` for a table with the default limits; ``--write`` puts it into the manual.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
import trustme
from wsproto import ConnectionType, WSConnection
from wsproto.events import BytesMessage, Request
from wsproto.utilities import RemoteProtocolError

from benchmarks.page import inserted
from tests.kit.certificates import client_context

MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
_MANUAL = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-code.md"
_BEGIN, _END = "<!-- flood: begin -->", "<!-- flood: end -->"


class Carrier(enum.Enum):
    """What carries the bytes of the clients."""

    TCP = enum.auto()
    TLS = enum.auto()
    WEBSOCKET = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """One way to make a broker grow.

    Attributes:
        what: What the clients send.
        makes: What one connection sends, without end; it gets the number of the connection.
        connections: How many there are at once.
        reads: Whether they read what they are answered.
        publisher: What another client sends, again and again.
        carrier: What carries it. Over WebSocket, all that a client sends is one message that never ends.
    """

    what: str
    makes: Callable[[int], Iterator[bytes]]
    connections: int = 4
    reads: bool = True
    publisher: bytes = b""
    carrier: Carrier = Carrier.TCP


def _messages(number: int) -> Iterator[bytes]:
    body = b"x" * 60_000
    frame = b"SEND\ndestination:/queue/big%d\ncontent-length:%d\n\n%s\0" % (number, len(body), body)
    yield from itertools.repeat(frame * 4)


def _small_messages(number: int) -> Iterator[bytes]:
    yield from itertools.repeat(b"SEND\ndestination:/queue/small%d\n\nx\0" % number * 1000)


def _headers(number: int) -> Iterator[bytes]:
    lines = b"".join(b"h%d:%s\n" % (line, "\N{GRINNING FACE}".encode() + b"x" * 30_000) for line in range(100))
    yield from itertools.repeat(b"SEND\ndestination:/queue/heads%d\n%s\n\0" % (number, lines))


def _many_headers(number: int) -> Iterator[bytes]:
    lines = b"".join(b"%d:%d\n" % (line, number) for line in range(400))
    yield from itertools.repeat(b"SEND\ndestination:/queue/lines%d\n%s\n\0" % (number, lines) * 10)


def _destinations(number: int) -> Iterator[bytes]:
    for part in itertools.count():
        yield b"".join(b"SEND\ndestination:/queue/%d-%d-%d\n\n\0" % (number, part, each) for each in range(1000))


def _subscriptions(number: int) -> Iterator[bytes]:
    for part in itertools.count():
        names = (b"%d-%d-%d" % (number, part, each) for each in range(1000))
        yield b"".join(b"SUBSCRIBE\nid:%s\ndestination:/topic/%s\n\n\0" % (name, name) for name in names)


def _durable(number: int) -> Iterator[bytes]:
    for part in itertools.count():
        names = [b"%d-%d-%d" % (number, part, each) for each in range(500)]
        yield b"".join(
            b"SUBSCRIBE\nid:%s\ndestination:/topic/t\ndurable-subscription-name:%s\n\n\0"
            b"UNSUBSCRIBE\nid:%s\n\n\0" % (name, name, name)
            for name in names
        )


def _half_bodies(_number: int) -> Iterator[bytes]:
    yield b"SEND\ndestination:/queue/half\ncontent-length:%d\n\n" % (30 * MIB)
    yield from itertools.repeat(b"x" * 100_000, 290)
    yield b""


def _half_heads(_number: int) -> Iterator[bytes]:
    yield b"SEND\ndestination:/queue/half\n"
    for line in range(500):
        yield b"h%d:%s\n" % (line, b"x" * 60_000)
    yield b""


def _transaction(number: int) -> Iterator[bytes]:
    yield b"BEGIN\ntransaction:t\n\n\0"
    body = b"x" * 20_000
    frame = b"SEND\ndestination:/queue/t%d\ntransaction:t\ncontent-length:%d\n\n%s\0" % (number, len(body), body)
    yield from itertools.repeat(frame * 10)


def _transactions(_number: int) -> Iterator[bytes]:
    for part in itertools.count():
        yield b"".join(b"BEGIN\ntransaction:%d-%d\n\n\0" % (part, each) for each in range(1000))


def _unread_topic(_number: int) -> Iterator[bytes]:
    yield b"SUBSCRIBE\nid:1\ndestination:/topic/unread\nack:auto\n\n\0"
    yield b""


def _unread_answers(number: int) -> Iterator[bytes]:
    receipt = b"r" * 20_000
    yield from itertools.repeat(b"SEND\ndestination:/topic/none%d\nreceipt:%s\n\n\0" % (number, receipt))


def _repeated(data: bytes, _number: int) -> Iterator[bytes]:
    yield from itertools.repeat(data)


def _silence(_number: int) -> Iterator[bytes]:
    yield b""


_PUBLISHED = b"SEND\ndestination:/topic/unread\ncontent-length:40000\n\n" + b"x" * 40_000 + b"\0"

FLOODS: Mapping[str, Flood] = {
    "messages": Flood(what="messages of 60 KB without a consumer", makes=_messages),
    "small-messages": Flood(what="messages of one byte without a consumer", makes=_small_messages),
    "headers": Flood(what="messages with 3 MB of headers", makes=_headers),
    "many-headers": Flood(what="messages with 400 headers", makes=_many_headers),
    "destinations": Flood(what="a queue for each message", makes=_destinations),
    "subscriptions": Flood(what="a topic for each subscription", makes=_subscriptions),
    "durable": Flood(what="durable subscriptions, abandoned", makes=_durable),
    "half-bodies": Flood(what="bodies that are never finished", makes=_half_bodies, connections=100),
    "half-heads": Flood(what="headers that are never finished", makes=_half_heads, connections=100),
    "transaction": Flood(what="transactions that are never committed", makes=_transaction),
    "transactions": Flood(what="empty transactions, no end of them", makes=_transactions),
    "unread-topic": Flood(
        what="subscribers to a topic that do not read",
        makes=_unread_topic,
        connections=400,
        reads=False,
        publisher=_PUBLISHED * 5,
    ),
    "unread-answers": Flood(what="receipts that are not read", makes=_unread_answers, connections=400, reads=False),
    "connections": Flood(what="connections without CONNECT", makes=_silence, connections=1500),
    "tls": Flood(
        what="bodies that are never finished, over TLS", makes=_half_bodies, connections=100, carrier=Carrier.TLS
    ),
    "websocket": Flood(
        what="WebSocket messages that are never finished",
        makes=_half_bodies,
        connections=100,
        carrier=Carrier.WEBSOCKET,
    ),
}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a flood did.

    Attributes:
        before: Memory before it, in bytes.
        peak: The most memory that it took, in bytes.
        sent: Bytes that the clients sent.
        errors: The ERROR frames that came, shortened.
        served: Whether another client was served after it.
    """

    before: int
    peak: int
    sent: int = 0
    errors: set[str] = field(default_factory=set[str])
    served: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    """``trio-stomp broker`` in a process of its own.

    Attributes:
        pid: The process.
        port: Where it listens.
        carrier: What it speaks there.
        tls: The clients' side of TLS.
    """

    pid: int
    port: int
    carrier: Carrier
    tls: ssl.SSLContext

    @property
    def memory(self) -> int:
        """Its resident memory, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]) * _PAGE

    async def open_stream(self) -> trio.abc.Stream:
        """Connect to it."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if self.carrier is Carrier.TLS:
            return trio.SSLStream(stream, self.tls, server_hostname="localhost")
        if self.carrier is Carrier.WEBSOCKET:
            opened = False
            try:
                session = WSConnection(ConnectionType.CLIENT)
                await stream.send_all(session.send(Request(host="localhost", target="/")))
                session.receive_data(bytes(await stream.receive_some()))
                opened = True
            finally:
                if not opened:
                    await trio.aclose_forcefully(stream)
            return UnendingMessage(stream, session)
        return stream


class UnendingMessage(trio.abc.Stream):
    """A WebSocket on which each piece that is sent goes on with the first message. What comes is given as it is."""

    def __init__(self, stream: trio.SocketStream, session: WSConnection) -> None:
        self._stream = stream
        self._session = session

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(self._session.send(BytesMessage(data=bytes(data), message_finished=False)))

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        # A server does not mask what it sends, so that texts in it can be found.
        return bytes(await self._stream.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def broker_process(*arguments: str, carrier: Carrier = Carrier.TCP) -> Generator[RunningBroker]:
    """Run ``trio-stomp broker`` while the block runs."""
    command = [sys.executable, "-m", "trio_stomp.cli", "broker", "--port", "0", *arguments]
    authority = trustme.CA()
    with tempfile.NamedTemporaryFile() as certificate:
        if carrier is Carrier.TLS:
            certificate.write(authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
            certificate.flush()
            command += ["--cert", certificate.name]
        elif carrier is Carrier.WEBSOCKET:
            command += ["--websocket"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
            yield RunningBroker(pid=process.pid, port=port, carrier=carrier, tls=client_context(authority))
        finally:
            process.kill()
            process.communicate()


async def run_floods(
    floods: Sequence[Flood], broker: RunningBroker, *, seconds: float, until: str | None = None
) -> Outcome:
    """Let floods loose on a broker, all at once, for some seconds or until an ERROR names a limit."""
    before = broker.memory
    outcome = Outcome(before=before, peak=before)
    started = time.monotonic()
    async with trio.open_nursery() as nursery:
        for flood in floods:
            for number in range(flood.connections):
                nursery.start_soon(_client, flood, number, broker, outcome)
            if flood.publisher:
                publishing = Flood(what="publisher", makes=partial(_repeated, flood.publisher))
                nursery.start_soon(_client, publishing, 0, broker, outcome)
        while time.monotonic() - started < seconds and until not in outcome.errors:
            await trio.sleep(0.05)
            outcome.peak = max(outcome.peak, broker.memory)
        # The connections are still open: what they hold is held.
        nursery.cancel_scope.cancel()
    await _check_service(broker, outcome)
    return outcome


async def _client(flood: Flood, number: int, broker: RunningBroker, outcome: Outcome) -> None:
    while True:
        try:
            stream = await broker.open_stream()
        except (OSError, trio.BrokenResourceError, RemoteProtocolError):
            await trio.sleep(0.2)
            continue
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await _attack(stream, flood, number, outcome)
        finally:
            # TLS and WebSocket would say goodbye to a broker that has no time to answer.
            await trio.aclose_forcefully(stream)
        await trio.sleep(0.05)


async def _attack(stream: trio.abc.Stream, flood: Flood, number: int, outcome: Outcome) -> None:
    async def read() -> None:
        if not flood.reads:
            await trio.sleep_forever()
        with suppress(trio.BrokenResourceError):
            async for data in stream:
                _note_errors(bytes(data), outcome)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            if flood.makes is not _silence:
                await stream.send_all(_CONNECT)
            for data in flood.makes(number):
                if not data:
                    # All is said; now it holds what it has.
                    await trio.sleep_forever()
                await stream.send_all(data)
                outcome.sent += len(data)
        except trio.BrokenResourceError:
            # What the broker said before it closed is still there.
            with trio.move_on_after(1):
                await trio.sleep_forever()
        nursery.cancel_scope.cancel()


def _note_errors(data: bytes, outcome: Outcome) -> None:
    start = data.find(b"ERROR\n")
    if start >= 0:
        for word in data[start : start + 2000].decode("utf-8", "replace").split():
            if word.startswith("(max_"):
                outcome.errors.add(word.partition(")")[0].strip("("))


async def _check_service(broker: RunningBroker, outcome: Outcome) -> None:
    """Subscribe as another client, with room for that: the floods have left."""
    # Patient: on a busy machine, closing what the floods have left takes a while.
    with trio.move_on_after(120):
        while not outcome.served:
            await trio.sleep(0.2)
            try:
                async with await broker.open_stream() as stream:
                    await stream.send_all(
                        _CONNECT + b"SUBSCRIBE\nid:1\ndestination:/queue/served\nreceipt:served\n\n\0"
                    )
                    answer = b""
                    while data := await stream.receive_some():
                        answer += data
                        if b"receipt-id:served" in answer:
                            outcome.served = True
                            break
            except (OSError, trio.BrokenResourceError, RemoteProtocolError):
                pass


def measured(names: Sequence[str], seconds: float) -> dict[str, Outcome]:
    """What each flood does to a fresh broker with the default limits."""
    outcomes: dict[str, Outcome] = {}
    for name in names:
        flood = FLOODS[name]
        with broker_process(carrier=flood.carrier) as broker:
            outcomes[name] = trio.run(partial(run_floods, [flood], broker, seconds=seconds))
        sys.stderr.write(f"{_row(name, outcomes[name])} served={outcomes[name].served}\n")
    return outcomes


def table(outcomes: Mapping[str, Outcome]) -> str:
    """The table for the manual."""
    columns = ("clients send", "sent", "most memory", "refused by")
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*head, *(_row(name, outcome) for name, outcome in outcomes.items())]) + "\n"


def _row(name: str, outcome: Outcome) -> str:
    refused = ", ".join(f"`{error}`" for error in sorted(outcome.errors)) or "nothing"
    cells = (FLOODS[name].what, f"{outcome.sent // MIB} MiB", f"{outcome.peak // MIB} MiB", refused)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("floods", nargs="*", choices=[[], *FLOODS], default=[])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--write", action="store_true", help="put the table into the manual")
    arguments = parser.parse_args()
    text = table(measured(arguments.floods or list(FLOODS), arguments.seconds))
    if arguments.write:
        manual = _MANUAL.read_text("utf-8")
        _MANUAL.write_text(inserted(manual, text.rstrip(), begin=_BEGIN, end=_END), "utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
