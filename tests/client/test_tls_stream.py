"""TlsStream on trio and on asyncio, over links in memory whose other end is OpenSSL's own server side."""

from __future__ import annotations

import ctypes
import functools
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

import anyio
import anyio.lowlevel
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.cancelling import Moment, Way, cancelled_at_step, in_each_way
from tests.kit.certificates import client_context, server_context
from tests.kit.loops import LOOPS, LoopName, run_on, wait_all_tasks_blocked
from trio_stomp.runtime import ByteStream
from trio_stomp.transport.diagnosis import HINT_BYTES
from trio_stomp.transport.tls_stream import TlsStream

pytestmark = pytest.mark.anyio

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS: Final = pytest.mark.parametrize("version", [V1_2, V1_3], ids=["1.2", "1.3"])

# What is shared by all tests: keys take time to make.
AUTHORITY: Final = trustme.CA()
STRANGER: Final = trustme.CA()
SERVER_CONTEXT: Final = server_context(AUTHORITY)
CLIENT_CONTEXT: Final = client_context(AUTHORITY)


# --- the other end ----------------------------------------------------------------------------------------------------


class Server:
    """The server's side of TLS. It acts as soon as bytes come.

    Attributes:
        received: What the client has sent.
        output: Ciphertext that the client has not read yet.
        is_done: Whether the handshake is.
        heard_goodbye: Whether the client has sent close_notify.
        error: What it found wrong.
    """

    def __init__(self, context: ssl.SSLContext = SERVER_CONTEXT) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.received = bytearray()
        self.output = bytearray()
        self.is_done = False
        self.heard_goodbye = False
        self.error: ssl.SSLError | None = None

    def take(self, ciphertext: bytes) -> None:
        self._incoming.write(ciphertext)
        try:
            if not self.is_done:
                self.tls.do_handshake()
                self.is_done = True
            while not self.heard_goodbye:
                data = self.tls.read(2**16)
                self.received += data
                self.heard_goodbye = not data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            # As an empty read, where this side has sent close_notify too.
            self.heard_goodbye = True
        except ssl.SSLError as error:
            self.error = error
        self.output += self._outgoing.read()

    def say(self, *records: bytes) -> None:
        for record in records:
            self.tls.write(record)
        self.output += self._outgoing.read()

    def say_goodbye(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        self.output += self._outgoing.read()

    def call(self, function: str, *arguments: int) -> None:
        """Call a function of OpenSSL's that Python has no name for, and send what it leads to."""
        openssl, handle = _openssl(), self._handle()
        for name, values in ((function, arguments), ("SSL_do_handshake", ())):
            assert getattr(openssl, name)(handle, *values) == 1, name
        self.output += self._outgoing.read()

    def _handle(self) -> ctypes.c_void_p:
        # PySSLSocket begins with an object's head, a reference to the socket, and the SSL*.
        inner = id(self.tls._sslobj)  # type: ignore[attr-defined]  # CPython's
        return ctypes.c_void_p.from_address(inner + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p))


@functools.cache
def _openssl() -> ctypes.CDLL:
    import _ssl  # noqa: PLC0415  # CPython's

    return ctypes.CDLL(str(_ssl.__file__))


def _reaches_openssl() -> bool:
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14):
        # The place of the pointer is known for these.
        return False
    try:
        return all(hasattr(_openssl(), name) for name in ("SSL_key_update", "SSL_renegotiate", "SSL_do_handshake"))
    except OSError:
        return False


REACHES_OPENSSL: Final = pytest.mark.skipif(
    not _reaches_openssl(), reason="functions of OpenSSL's that Python does not offer cannot be reached here"
)


class Wire(ByteStream):
    """The client's end of a link to a `Server`.

    Args:
        server: The other end.
        reads: How many bytes each read brings at most. Default: all.
        writes: How many bytes each step of a write brings, and each write at once. Default: all.
        most: How many bytes come at all; then the link ends.

    Attributes:
        steps: How often a task has waited here.
        on_step: Called with the number of each step.
        accepts: Whether the server reads.
        delivers: Whether what the server says arrives.
        is_writing: Whether a write is under way.
        written: How many bytes the server has got.
        writes_begun: How many writes there were.
        asked: How many bytes each read asked for.
        error: What writes fail with.
        left_over: How many bytes it has taken and not written.
        is_ended: Whether the server has closed the link.
        is_closed: Whether the client has.
    """

    writes_now = lends_reads = True

    def __init__(
        self,
        server: Server,
        *,
        reads: Iterator[int] | None = None,
        writes: Iterator[int] | None = None,
        most: int | None = None,
    ) -> None:
        self.server = server
        self._reads = reads or itertools.repeat(2**30)
        self._writes = writes or itertools.repeat(2**30)
        self.left = 2**60 if most is None else most
        self._changed = anyio.Event()
        self.steps = 0
        self.on_step: Callable[[int], None] = lambda _: None
        self.accepts = self.delivers = True
        self.is_reading = self.is_writing = False
        self.written = 0
        self.writes_begun = 0
        self.asked: list[int | None] = []
        self.error: OSError | None = None
        self.left_over = 0
        self.is_ended = False
        self.is_closed = False

    @property
    def unwritten_bytes(self) -> int:
        return self.left_over

    def change(self) -> None:
        """Wake up the tasks that wait."""
        self._changed.set()
        self._changed = anyio.Event()

    async def _step(self) -> None:
        self.steps += 1
        self.on_step(self.steps)
        await anyio.lowlevel.checkpoint()
        if self.is_closed:
            raise anyio.ClosedResourceError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        assert not self.is_reading, "two tasks read"
        self.asked.append(max_bytes)
        self.is_reading = True
        try:
            await self._step()
            while not (self.delivers and self.server.output) and not self.is_ended and self.left:
                await self._changed.wait()
                await self._step()
        finally:
            self.is_reading = False
        size = min(2**30 if max_bytes is None else max_bytes, next(self._reads), self.left)
        data = bytes(self.server.output[:size])
        del self.server.output[: len(data)]
        self.left -= len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_writing, "two tasks write"
        if self.error is not None:
            await anyio.lowlevel.checkpoint()
            raise anyio.BrokenResourceError from self.error
        self.writes_begun += 1
        self.is_writing = True
        rest = bytes(data)
        try:
            while rest:
                await self._step()
                while not self.accepts:
                    await self._changed.wait()
                    await self._step()
                size = next(self._writes)
                piece, rest = rest[:size], rest[size:]
                self.written += len(piece)
                self.server.take(piece)
                self.change()
        finally:
            self.is_writing = False

    def write_now(self, data: bytes, /) -> int:
        assert not self.is_writing, "two tasks write"
        if self.error is not None or self.is_closed or not self.accepts:
            return 0
        piece = data[: next(self._writes)]
        self.writes_begun += 1
        self.written += len(piece)
        self.server.take(piece)
        self.change()
        return len(piece)

    async def aclose(self) -> None:
        self.is_closed = True
        self.change()
        await anyio.lowlevel.checkpoint()


def client_of(wire: Wire, context: ssl.SSLContext = CLIENT_CONTEXT) -> TlsStream:
    return TlsStream(wire, context, server_hostname="localhost")


async def connected(
    server: Server | None = None,
    context: ssl.SSLContext = CLIENT_CONTEXT,
    *,
    reads: Iterator[int] | None = None,
    writes: Iterator[int] | None = None,
) -> tuple[TlsStream, Wire, Server]:
    """A connection after its handshake, with the tickets of TLS 1.3 unread."""
    server = server or Server()
    wire = Wire(server, reads=reads, writes=writes)
    client = client_of(wire, context)
    await client.do_handshake()
    assert server.is_done
    return client, wire, server


@functools.cache
def context_of(version: ssl.TLSVersion, *names: str) -> ssl.SSLContext:
    context = server_context(AUTHORITY, *names)
    context.minimum_version = context.maximum_version = version
    return context


def server_of(version: ssl.TLSVersion, *names: str) -> Server:
    return Server(context_of(version, *names))


async def cause_of(call: Awaitable[object]) -> BaseException | None:
    """Let a call fail by a broken stream, and return the cause."""
    with pytest.raises(anyio.BrokenResourceError) as caught:
        await call
    return caught.value.__cause__


async def receive_to_the_end(client: TlsStream, received: bytearray) -> None:
    while data := await client.receive_some():
        received.extend(data)


async def write(client: TlsStream, data: bytes) -> None:
    """Write at once what goes, as the client does, and the rest afterwards."""
    taken = client.write_now(data)
    if taken < len(data):
        await client.send_all(memoryview(data)[taken:])


def one_by_one() -> Iterator[int]:
    return itertools.repeat(1)


# --- data -------------------------------------------------------------------------------------------------------------


async def test_receive_when_one_read_brings_many_records_then_all_of_them() -> None:
    client, wire, server = await connected()
    server.say(*[b"%03d" % number for number in range(1000)])
    reads = len(wire.asked)
    assert await client.receive_some() == b"".join(b"%03d" % number for number in range(1000))
    assert len(wire.asked) == reads + 1


async def test_receive_when_max_bytes_is_less_than_a_record_then_the_rest_without_a_read() -> None:
    client, wire, server = await connected()
    server.say(b"abcdef", b"ghi")
    assert await client.receive_some(4) == b"abcd"
    reads = len(wire.asked)
    assert await client.receive_some(4) == b"efgh"
    assert await client.receive_some() == b"i"
    assert len(wire.asked) == reads
    with pytest.raises(ValueError, match="max_bytes"):
        await client.receive_some(0)


async def test_receive_when_a_flood_comes_then_one_chunk_at_a_time() -> None:
    client, wire, server = await connected()
    sent = bytes(range(256)) * 4096
    server.say(sent)
    received = b""
    while len(received) < len(sent):
        data = await client.receive_some()
        assert len(data) <= 2**16 + 2**14
        assert client._incoming.pending == 0
        received += data
    assert received == sent
    assert set(wire.asked) == {2**16}


async def test_receive_when_only_a_ticket_comes_then_it_waits_for_data() -> None:
    client, wire, server = await connected(server_of(V1_3))
    assert server.output  # tickets
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            assert await client.receive_some() == b"data"

        tasks.start_soon(receive)
        await wait_all_tasks_blocked()
        assert not server.output
        server.say(b"data")
        wire.change()
    assert client.ssl_object.session is not None
    assert client.ssl_object.session.has_ticket


async def test_send_when_it_is_many_frames_then_one_write() -> None:
    client, wire, server = await connected()
    begun = wire.writes_begun
    await client.send_all(b"SEND\n\n\0" * 5000)
    assert wire.writes_begun == begun + 1
    assert server.received == b"SEND\n\n\0" * 5000


async def test_send_when_it_is_large_then_encrypted_piece_by_piece() -> None:
    client, wire, server = await connected()
    begun = wire.writes_begun
    large = bytearray(range(256)) * 4096 * 2
    await client.send_all(large)
    await client.send_all(memoryview(large)[1:])
    await client.send_all(b"")
    assert server.received == large + large[1:]
    assert wire.writes_begun == begun + 16


async def test_write_now_when_the_link_takes_all_then_received_and_nothing_is_left() -> None:
    client, wire, server = await connected()
    assert client.writes_now
    assert client.lends_reads
    assert client.write_now(b"data") == 4
    assert server.received == b"data"
    begun = wire.writes_begun
    await client.send_all(b"more")
    assert server.received == b"datamore"
    assert wire.writes_begun == begun + 1


@VERSIONS
async def test_write_now_when_the_link_takes_a_part_then_the_rest_of_the_record_comes_first(
    version: ssl.TLSVersion,
) -> None:
    client, wire, server = await connected(server_of(version), writes=itertools.chain([10**6] * 2, [9], one_by_one()))
    # A canceled receiver may tear an answer, which only TLS 1.2 sends at once.
    assert client.lends_reads == (version is V1_3)
    taken = client.write_now(b"data")
    assert taken < 4
    assert client.unwritten_bytes > 4
    assert not server.received
    # Until then no other record may begin, and receiving does not wait for a peer that does not read.
    assert client.write_now(b"data") == 0
    wire.accepts = False
    server.say(b"answer")
    assert await client.receive_some() == b"answer"
    wire.accepts = True
    await client.send_all(b"data"[taken:] + b"more")
    assert server.received == b"datamore"
    assert client.unwritten_bytes == 0


async def test_unwritten_when_the_link_has_something_left_over_then_it_is_counted() -> None:
    client, wire, _ = await connected()
    assert client.write_now(b"data") == 4
    wire.left_over = 3
    assert client.unwritten_bytes == 3


async def test_unwritten_when_it_is_closed_in_the_middle_of_a_record_then_its_rest_was_never_written() -> None:
    client, wire, _ = await connected(writes=itertools.chain([10**6] * 2, [9]))
    client.write_now(b"data")
    unwritten = client.unwritten_bytes
    wire.accepts = False
    with anyio.move_on_after(1):
        await client.aclose()
    assert unwritten == client.unwritten_bytes > 4


async def test_write_now_when_it_cannot_then_takes_nothing() -> None:
    assert client_of(Wire(Server())).write_now(b"x") == 0

    client, wire, _ = await connected()
    assert client.write_now(b"x" * (2**14 + 1)) == 0
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.send_all, b"x")
        await wait_all_tasks_blocked()
        assert client.write_now(b"y") == 0
        tasks.cancel_scope.cancel()
    # It was cut off.
    wire.accepts = True
    assert client.write_now(b"y") == 0
    await client.aclose()
    assert client.write_now(b"y") == 0


@pytest.mark.parametrize("loop", LOOPS)
@settings(max_examples=60)
@given(
    at_once=st.booleans(),
    version=st.sampled_from([V1_2, V1_3]),
    to_send=st.lists(st.integers(0, 300) | st.integers(0, 300_000), max_size=8),
    to_say=st.lists(st.integers(1, 300) | st.integers(1, 80_000), min_size=1, max_size=8),
    sizes=st.lists(st.integers(1, 70_000) | st.integers(1, 40), min_size=1, max_size=8),
    most=st.none() | st.integers(1, 70_000),
)
def test_data_when_it_is_split_anywhere_then_what_was_sent(
    loop: LoopName,
    *,
    at_once: bool,
    version: ssl.TLSVersion,
    to_send: list[int],
    to_say: list[int],
    sizes: list[int],
    most: int | None,
) -> None:
    sent, said = ([bytes([number]) * size for number, size in enumerate(each)] for each in (to_send, to_say))

    async def body() -> None:
        # Records that come byte by byte take long.
        reads, writes = (itertools.cycle([*order, 50_000]) for order in (sizes, reversed(sizes)))
        client, wire, server = await connected(server_of(version), reads=reads, writes=writes)
        received = bytearray()

        async def receive() -> None:
            while data := await client.receive_some(most):
                assert len(data) <= (most or 2**17)
                received.extend(data)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            for each, other in itertools.zip_longest(sent, said):
                if other is not None:
                    server.say(other)
                    wire.change()
                await (write if at_once else TlsStream.send_all)(client, each or b"")
            server.say_goodbye()
            wire.change()
        await client.aclose()
        assert received == b"".join(said)
        assert server.received == b"".join(sent)
        assert server.heard_goodbye

    run_on(loop, body)


# --- the end ----------------------------------------------------------------------------------------------------------


@VERSIONS
async def test_receive_when_close_notify_has_come_then_empty_and_sending_goes_on(version: ssl.TLSVersion) -> None:
    client, wire, server = await connected(server_of(version))
    server.say(b"last")
    server.say_goodbye()
    wire.is_ended = True
    assert await client.receive_some() == b"last"
    assert await client.receive_some() == b""
    assert await client.receive_some() == b""
    if version is V1_3:
        # Spec: RFC 8446, 6.1: close_notify ends one direction. TLS 1.2 ended both.
        await client.send_all(b"still here")
        assert server.received == b"still here"
    await client.aclose()
    assert server.heard_goodbye


@pytest.mark.slow
@VERSIONS
async def test_handshake_when_it_is_cut_at_any_byte_then_broken_by_the_end(version: ssl.TLSVersion) -> None:
    failed = 0
    for most in itertools.count():
        wire = Wire(server_of(version), most=most)
        client = client_of(wire)
        try:
            await client.do_handshake()
        except anyio.BrokenResourceError as error:
            assert isinstance(error.__cause__, ssl.SSLEOFError)  # noqa: PT017  # raised by all but the last
        else:
            break
        failed += 1
        await client.aclose()
        assert wire.is_closed
    assert failed > 500


@pytest.mark.slow
@VERSIONS
async def test_receive_when_a_record_is_cut_at_any_byte_then_what_was_whole_and_truncation(
    version: ssl.TLSVersion,
) -> None:
    client, wire, server = await connected(server_of(version))
    server.say(b"whole")
    first = len(server.output)
    server.say(b"cut")
    records = bytes(server.output)
    for most in range(len(records)):
        client, wire, server = await connected(server_of(version))
        server.say(b"whole")
        assert len(server.output) == first
        server.say(b"cut")
        wire.left = most
        if most >= first:
            assert await client.receive_some() == b"whole"
        for _ in range(2):
            with pytest.raises(anyio.BrokenResourceError, match="without close_notify") as caught:
                await client.receive_some()
            assert isinstance(caught.value.__cause__, ssl.SSLEOFError)
        with pytest.raises(anyio.BrokenResourceError):
            await client.send_all(b"too late")
        await client.aclose()


async def test_receive_when_the_context_ignores_truncation_then_broken_all_the_same() -> None:
    context = client_context(AUTHORITY)
    context.options |= 0x80  # SSL_OP_IGNORE_UNEXPECTED_EOF, which has a name since Python 3.12
    client, wire, _ = await connected(context=context)
    wire.is_ended = True
    assert isinstance(await cause_of(client.receive_some()), ssl.SSLEOFError)
    # As with trio.SSLStream, there is no sending after that.
    with pytest.raises(anyio.BrokenResourceError, match="without close_notify"):
        await client.send_all(b"too late")


@VERSIONS
async def test_receive_when_a_record_is_damaged_then_broken_after_what_came_before(version: ssl.TLSVersion) -> None:
    client, _, server = await connected(server_of(version))
    server.say(b"good")
    server.say(b"damaged")
    server.output[-1] ^= 1
    assert await client.receive_some() == b"good"
    for _ in range(2):
        cause = await cause_of(client.receive_some())
        assert isinstance(cause, ssl.SSLError)
        assert cause.reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    with pytest.raises(anyio.BrokenResourceError):
        await client.send_all(b"")
        await client.send_all(b"more")
    await client.aclose()
    assert server.error is not None
    assert server.error.reason == "SSLV3_ALERT_BAD_RECORD_MAC"


# --- certificates -----------------------------------------------------------------------------------------------------


@VERSIONS
async def test_handshake_when_the_server_is_not_trusted_then_both_sides_know_why(version: ssl.TLSVersion) -> None:
    server = server_of(version)
    wire = Wire(server)
    client = client_of(wire, client_context(STRANGER))
    assert isinstance(await cause_of(client.do_handshake()), ssl.SSLCertVerificationError)
    assert server.error is not None
    assert server.error.reason == "TLSV1_ALERT_UNKNOWN_CA"
    with pytest.raises(RuntimeError):
        await client.send_all(b"secret")
    await client.aclose()
    assert not server.received


async def test_handshake_when_a_peer_that_is_not_trusted_does_not_read_then_refused_within_a_second() -> None:
    began = anyio.current_time()
    wire = Wire(Server())

    def after_the_first_write(_: int) -> None:
        wire.accepts = not wire.written

    wire.on_step = after_the_first_write
    client = client_of(wire, client_context(STRANGER))
    assert isinstance(await cause_of(client.do_handshake()), ssl.SSLCertVerificationError)
    assert anyio.current_time() - began == pytest.approx(1)


@VERSIONS
async def test_handshake_when_the_certificate_is_big_then_done(version: ssl.TLSVersion) -> None:
    server = server_of(version, "localhost", *[f"host-{number}.broker.example" for number in range(2500)])
    client, _, _ = await connected(server, reads=itertools.repeat(1460))
    assert len(client.ssl_object.getpeercert(binary_form=True) or b"") > 60_000


async def test_handshake_when_the_peer_does_not_speak_tls_then_its_first_bytes() -> None:
    for reads in (itertools.repeat(2**30), one_by_one()):
        server = Server()
        wire = Wire(server, reads=reads)
        server.output += b"ERROR\nmessage:this is a plain port of STOMP\n\n\0"
        client = client_of(wire)
        assert isinstance(await cause_of(client.do_handshake()), ssl.SSLError)
        assert client.first_bytes == b"ERROR\nmessage:this is a "[: len(client.first_bytes)]
        assert 5 <= len(client.first_bytes) <= HINT_BYTES


async def test_handshake_when_it_was_canceled_while_it_reads_then_it_can_go_on() -> None:
    wire = Wire(Server(), reads=one_by_one())
    client = client_of(wire)
    for step in (5, 300, 500):
        with anyio.CancelScope() as scope:
            wire.on_step = functools.partial(_cancel_at, scope, step)
            await client.do_handshake()
        assert scope.cancelled_caught
    await client.do_handshake()
    with pytest.raises(RuntimeError, match="once"):
        await client.do_handshake()
    await client.send_all(b"data")
    assert wire.server.received == b"data"


def _cancel_at(scope: anyio.CancelScope, step: int, steps: int) -> None:
    if steps >= step:
        scope.cancel()


# --- cancellation -----------------------------------------------------------------------------------------------------


@VERSIONS
@in_each_way(*LOOPS)
async def test_receive_when_it_is_canceled_at_any_step_then_nothing_is_lost(
    version: ssl.TLSVersion, way: Way, moment: Moment
) -> None:
    client, wire, server = await connected(server_of(version), reads=itertools.cycle([1, 30]))
    received, canceled = [b""], 0

    async def receive() -> None:
        received.append(await client.receive_some(2))

    # The first step is before it begins, and at the last ones it has ended.
    steps = [*range(1, 40), *range(10_000, 10_020)]
    for step in steps:
        server.say(b"%05d" % step)
        wire.change()
        outcome = await cancelled_at_step(receive, step, way, moment)
        canceled += outcome.cancelled
    server.say_goodbye()
    while data := await client.receive_some():
        received.append(data)
    assert b"".join(received) == b"".join(b"%05d" % step for step in steps)
    assert canceled


@VERSIONS
async def test_send_when_it_is_canceled_at_any_await_then_whole_none_or_the_end_of_sending(
    version: ssl.TLSVersion,
) -> None:
    data, torn, whole = b"x" * 300_000, 0, 0
    for step in itertools.count(1):
        client, wire, server = await connected(server_of(version), writes=itertools.repeat(100_000))
        before = wire.written
        with anyio.CancelScope() as scope:
            wire.on_step = functools.partial(_cancel_at, scope, wire.steps + step)
            await client.send_all(data)
        wire.on_step = lambda _: None
        if not scope.cancelled_caught:
            assert server.received == data
            whole += 1
            await client.send_all(b"y")
            assert server.received == data + b"y"
            break
        # It cannot be known that nothing of the record was sent, even where that is so.
        torn += 1
        written = wire.written
        assert (written > before) == (step > 1)
        with pytest.raises(anyio.BrokenResourceError, match="cut off"):
            await client.send_all(b"y")
        server.say(b"receiving goes on")
        assert await client.receive_some() == b"receiving goes on"
        await client.aclose()
        assert wire.written == written
        assert wire.is_closed
    assert (torn, whole) == (4, 1)


async def test_send_when_it_is_canceled_before_it_begins_then_nothing_was_sent() -> None:
    client, _, server = await connected()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.send_all(b"never")
        raise AssertionError
    await client.send_all(b"sent")
    assert server.received == b"sent"


# --- two tasks --------------------------------------------------------------------------------------------------------


async def test_receive_when_the_peer_never_reads_then_it_goes_on_while_a_send_waits() -> None:
    client, wire, server = await connected()
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.send_all, b"x" * 100_000)
        await wait_all_tasks_blocked()
        for number in range(100):
            server.say(b"%d" % number)
            assert await client.receive_some() == b"%d" % number
        assert not server.received
        wire.accepts = True
        wire.change()
    assert server.received == b"x" * 100_000


async def test_call_when_another_task_does_the_same_then_busy() -> None:
    client, wire, _ = await connected()
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.receive_some)
        tasks.start_soon(client.send_all, b"x")
        await wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await client.receive_some()
        with pytest.raises(anyio.BusyResourceError):
            await client.send_all(b"y")
        tasks.cancel_scope.cancel()


async def test_call_when_there_was_no_handshake_then_an_error_of_the_program() -> None:
    client = client_of(Wire(Server()))
    with pytest.raises(RuntimeError, match="do_handshake"):
        await client.receive_some()
    with pytest.raises(RuntimeError, match="do_handshake"):
        await client.send_all(b"x")


@REACHES_OPENSSL
async def test_key_updates_when_both_sides_are_busy_then_all_data_in_order() -> None:
    client, wire, server = await connected(server_of(V1_3), writes=itertools.cycle([1, 700, 33, 20_000]))
    sent = [b"%d;" % number * (1 + 97 * number % 4000) for number in range(100)]
    received = bytearray()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive_to_the_end, client, received)
        for number, each in enumerate(sent):
            server.call("SSL_key_update", number % 2)
            server.say(b"%d," % number)
            wire.change()
            await client.send_all(each)
        server.say_goodbye()
        wire.change()
    assert received == b"".join(b"%d," % number for number in range(100))
    assert server.received == b"".join(sent)
    assert server.error is None


@REACHES_OPENSSL
async def test_key_update_when_the_peer_does_not_read_then_receiving_goes_on_and_the_answer_comes_with_data() -> None:
    client, wire, server = await connected(server_of(V1_3))
    wire.accepts = False
    for number in range(100):
        server.call("SSL_key_update", 1)
        server.say(b"%d" % number)
        assert await client.receive_some() == b"%d" % number
    wire.accepts = True
    written = wire.written
    await client.send_all(b"data")
    # Each of OpenSSL's answers is a record of its own.
    assert wire.written > written + 100 * 20
    assert server.received == b"data"
    assert server.error is None


@REACHES_OPENSSL
async def test_key_updates_when_a_flood_of_them_comes_then_answers_are_bounded() -> None:
    client, wire, server = await connected(server_of(V1_3))
    wire.accepts = False
    for _ in range(6000):
        server.call("SSL_key_update", 1)
    server.say(b"data")
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            assert await client.receive_some() == b"data"

        tasks.start_soon(receive)
        await wait_all_tasks_blocked()
        # It does not receive more before the peer has read the answers.
        assert len(server.output) > 90_000
        assert client._outgoing.pending == 0
        wire.accepts = True
        wire.change()
    assert server.error is None


@REACHES_OPENSSL
async def test_renegotiation_when_the_client_only_receives_then_answered_at_once() -> None:
    client, _, server = await connected(server_of(V1_2), reads=itertools.repeat(10), writes=itertools.repeat(10))
    session = client.ssl_object.get_channel_binding()
    server.call("SSL_renegotiate")
    # Receiving drives it: the server reads what it needs as it comes, and says this afterwards.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.receive_some)
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    server.say(b"done")
    assert await client.receive_some() == b"done"
    await client.send_all(b"data")
    assert server.received == b"data"
    assert client.ssl_object.get_channel_binding() != session


@REACHES_OPENSSL
@pytest.mark.parametrize("at_once", [False, True])
async def test_renegotiation_when_both_tasks_wait_for_it_then_the_send_goes_on_afterwards(*, at_once: bool) -> None:
    client, wire, server = await connected(
        server_of(V1_2), reads=itertools.cycle([7, 150]), writes=itertools.repeat(11)
    )
    received = bytearray()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive_to_the_end, client, received)
        await wait_all_tasks_blocked()
        server.call("SSL_renegotiate")
        wire.change()
        for number in range(30):
            await (write if at_once else TlsStream.send_all)(client, b"%d;" % number)
        await wait_all_tasks_blocked()
        server.say(b"done")
        server.say_goodbye()
        wire.change()
    assert received == b"done"
    assert server.received == b"".join(b"%d;" % number for number in range(30))


@REACHES_OPENSSL
async def test_renegotiation_when_no_task_receives_then_the_send_reads_what_it_needs() -> None:
    client, wire, server = await connected(server_of(V1_2))
    server.call("SSL_renegotiate")
    with anyio.CancelScope() as scope:
        # It has read the request and sent its answer, and has not read what the server says to that.
        wire.on_step = functools.partial(_cancel_at, scope, wire.steps + 3)
        await client.receive_some()
    assert scope.cancelled_caught
    wire.on_step = lambda _: None
    assert server.output
    reads = len(wire.asked)
    assert client.write_now(b"data") == 0
    await client.send_all(b"data")
    assert len(wire.asked) > reads
    assert server.received == b"data"
    server.say(b"more")
    assert await client.receive_some() == b"more"


@REACHES_OPENSSL
async def test_renegotiation_when_the_peer_does_not_read_then_receiving_goes_on_while_a_send_waits() -> None:
    client, wire, server = await connected(server_of(V1_2))
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.send_all, b"x" * 1000)
        await wait_all_tasks_blocked()
        server.call("SSL_renegotiate")
        server.say(b"data")
        wire.change()
        assert await client.receive_some() == b"data"
        assert not server.received
        wire.accepts = True
        wire.change()
    assert server.received == b"x" * 1000
    # It has sent its part of the handshake too. The next send needs the rest, and reads it.
    await client.send_all(b"y")
    server.say(b"done")
    assert await client.receive_some() == b"done"
    assert server.received == b"x" * 1000 + b"y"


@REACHES_OPENSSL
async def test_send_when_it_is_canceled_between_two_pieces_then_nothing_can_follow() -> None:
    client, wire, server = await connected(server_of(V1_2))
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.receive_some)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as sending:
                sending.start_soon(client.send_all, b"x" * 300_000)
                await wait_all_tasks_blocked()
                server.call("SSL_renegotiate")
                wire.change()
                await wait_all_tasks_blocked()
                # The first piece arrives. The second one has to wait for the handshake.
                wire.delivers, wire.accepts = False, True
                wire.change()
                await wait_all_tasks_blocked()
                assert 0 < len(server.received) < 300_000
                assert not wire.is_writing
                scope.cancel()
        with pytest.raises(anyio.BrokenResourceError, match="cut off"):
            await client.send_all(b"y")
        tasks.cancel_scope.cancel()


async def asked_for_a_certificate() -> tuple[TlsStream, Wire, Server]:
    """A connection whose server has just asked for the client's certificate, after the handshake."""
    context = client_context(AUTHORITY, certificate_of=AUTHORITY)
    context.post_handshake_auth = True
    asking = server_context(AUTHORITY, demands=AUTHORITY)
    asking.post_handshake_auth = True
    asking.verify_mode = ssl.CERT_OPTIONAL
    client, wire, server = await connected(Server(asking), context)
    server.tls.verify_client_post_handshake()
    server.say(b"who are you?")
    return client, wire, server


async def test_certificate_when_asked_for_after_the_handshake_then_answered_at_once() -> None:
    client, _, server = await asked_for_a_certificate()
    assert await client.receive_some() == b"who are you?"
    assert server.tls.getpeercert()


async def test_send_when_the_receiver_sends_an_answer_then_it_waits_for_its_turn() -> None:
    client, wire, server = await asked_for_a_certificate()
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.receive_some)
        await wait_all_tasks_blocked()
        assert wire.is_writing
        tasks.start_soon(client.send_all, b"data")
        await wait_all_tasks_blocked()
        wire.accepts = True
        wire.change()
    assert server.tls.getpeercert()
    assert server.received == b"data"


async def test_receive_when_it_is_canceled_in_an_answer_then_the_data_stays_and_nothing_can_be_sent() -> None:
    client, wire, _ = await asked_for_a_certificate()
    wire.accepts = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.receive_some)
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert await client.receive_some(3) == b"who"
    assert await client.receive_some() == b" are you?"
    with pytest.raises(anyio.BrokenResourceError, match="cut off"):
        await client.send_all(b"data")


# --- closing ----------------------------------------------------------------------------------------------------------


@VERSIONS
async def test_aclose_when_open_then_close_notify_and_no_wait_for_the_peers(version: ssl.TLSVersion) -> None:
    client, wire, server = await connected(server_of(version))
    server.say(b"unread")
    reads = len(wire.asked)
    await client.aclose()
    assert server.heard_goodbye
    assert wire.is_closed
    assert len(wire.asked) == reads
    await client.aclose()
    for call in (client.receive_some(), client.send_all(b"x"), client.do_handshake()):
        with pytest.raises(anyio.ClosedResourceError):
            await call


async def test_aclose_when_canceled_then_closed_all_the_same() -> None:
    client, wire, server = await connected()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.aclose()
    assert wire.is_closed
    assert not server.heard_goodbye


async def test_aclose_when_the_peer_does_not_read_then_closed_at_the_callers_deadline() -> None:
    client, wire, _ = await connected()
    wire.accepts = False
    with anyio.move_on_after(0.01) as scope:
        await client.aclose()
    assert scope.cancelled_caught
    assert wire.is_closed


async def test_aclose_when_tasks_use_it_then_they_see_it_closed_and_nothing_tears_their_record() -> None:
    client, wire, _ = await connected()
    wire.accepts = False
    written = wire.written
    raised: list[str] = []

    async def fails(call: Awaitable[object]) -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await call
        raised.append("closed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fails, client.receive_some())
        tasks.start_soon(fails, client.send_all(b"x"))
        await wait_all_tasks_blocked()
        await client.aclose()
    assert raised == ["closed", "closed"]
    assert wire.written == written


async def test_aclose_when_there_was_no_handshake_then_only_the_link_is_closed() -> None:
    wire = Wire(Server())
    await client_of(wire).aclose()
    assert wire.is_closed
    assert not wire.written


async def test_send_when_the_link_is_broken_then_its_error_and_the_last_words_can_be_received() -> None:
    client, wire, server = await connected()
    wire.error = ConnectionResetError("reset")
    server.say(b"ERROR")
    assert await cause_of(client.send_all(b"x")) is wire.error
    assert await client.receive_some() == b"ERROR"
    await client.aclose()
