"""Bodies that are read while they are written: `send` of a path, a file object, or an async iterable.

Without the mock clock, which would run on while a thread reads from the disk.
"""

from __future__ import annotations

import io
import logging
import os
import tempfile
import tracemalloc
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, client_of_peer
from tests.kit.large_link import LargeLink
from tests.kit.peer import Peer
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.streams import ByteStream
from tests.kit.tapped_stream import TappedStream
from trio_stomp import (
    BrokerError,
    Client,
    ConnectionLost,
    DeliveryStatus,
    Hooks,
    LocalProtocolError,
    NotSupportedError,
    Reconnect,
    StompError,
    TransactionLost,
)
from trio_stomp.testing import Broker, open_broker
from trio_stomp.types import BodyFile, Command, ConnectionInfo, SendCallback, Sending

KIB: Final = 1024
BODY: Final = array("I", range(200 * KIB)).tobytes() + b"at the end"


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """A file that is sent in several pieces."""
    path = tmp_path / "film"
    path.write_bytes(BODY)
    return path


async def pieces_of(body: bytes, step: int = 100_000) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
    for start in range(0, len(body), step):
        await trio.lowlevel.checkpoint()
        yield b""
        yield body[start : start + step]


async def a_and_later_b(go: trio.Event) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
    yield b"a"
    await go.wait()
    yield b"b"


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("receipt", [False, True])
@pytest.mark.parametrize("kind", ["path", "file", "bytes io", "temporary", "iterable"])
async def test_send_when_given_a_source_then_its_bytes_arrive_between_those_of_other_messages(
    broker: Broker, film: Path, kind: str, *, receipt: bool
) -> None:
    stream = TappedStream(broker.connect_stream())
    async with trio_stomp.connect_stream(stream) as client:
        await client.send("/queue/a", b"before")
        with film.open("rb") as file, tempfile.NamedTemporaryFile() as temporary:
            temporary.write(BODY)
            temporary.seek(0)
            if kind == "iterable":
                await client.send("/queue/a", pieces_of(BODY), content_length=len(BODY), receipt=receipt)
            else:
                files: dict[str, BodyFile] = {
                    "path": film,
                    "file": file,
                    "bytes io": io.BytesIO(BODY),
                    "temporary": temporary,
                }
                given = files[kind]
                await client.send("/queue/a", given, headers={"a:b": "1\n2"}, content_type="video/mp4", receipt=receipt)
            assert not file.closed
        await client.send("/queue/a", b"after", receipt=True)

        first, second, third = broker.messages("/queue/a")
        assert (first.body, second.body, third.body) == (b"before", BODY, b"after")
        assert b"\ncontent-length:%d\n\n" % len(BODY) in stream.sent
        if kind != "iterable":
            assert second.headers["content-type"] == "video/mp4"
            assert second.headers["a:b"] == "1\n2"


async def test_send_when_the_body_is_empty_then_it_has_its_content_length(broker: Broker) -> None:
    stream = TappedStream(broker.connect_stream())
    async with trio_stomp.connect_stream(stream) as client:
        await client.send("/queue/a", io.BytesIO(), receipt=True)
        await client.send("/queue/a", pieces_of(b""), content_length=0, receipt=True)
        assert [message.body for message in broker.messages("/queue/a")] == [b"", b""]
    assert stream.sent.count(b"\ncontent-length:0\n\n\0") == 2


@pytest.mark.parametrize("position", [1000, len(BODY), len(BODY) + 5])
async def test_send_when_a_file_has_been_read_from_then_the_rest_is_sent(
    client: Client, broker: Broker, film: Path, position: int
) -> None:
    with film.open("rb") as file:
        file.seek(position)
        await client.send("/queue/a", file, receipt=True)
    assert broker.messages("/queue/a")[0].body == BODY[position:]


async def test_send_when_a_file_grows_meanwhile_then_it_is_sent_as_it_was(
    client: Client, broker: Broker, film: Path
) -> None:
    class Growing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            position = self.tell()
            self.seek(0, os.SEEK_END)
            self.write(b"more")
            self.seek(position)
            return super().read(size)

    await client.send("/queue/a", Growing(BODY), receipt=True)
    assert broker.messages("/queue/a")[0].body == BODY


async def test_send_when_a_spooled_body_is_passed_on_then_it_is_the_same(broker: Broker, client: Client) -> None:
    broker.publish("/queue/a", BODY)
    async with client.subscribe("/queue/a", spool_threshold_bytes=64 * KIB) as subscription:
        async with await anext(subscription) as message:
            await client.send("/queue/b", message.open_body(), receipt=True)
            await client.send("/queue/b", message.chunks(), content_length=message.body_size, receipt=True)
    assert [each.body for each in broker.messages("/queue/b")] == [BODY, BODY]


async def test_sends_when_many_tasks_send_then_each_frame_is_whole_and_in_order(broker: Broker, film: Path) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), outbox_bytes=1000) as client:

        async def send(number: int) -> None:
            if number % 2:
                await client.send("/queue/a", film, receipt=number % 3 == 0)
            else:
                await client.send("/queue/a", b"%d" % number, receipt=number % 3 == 0)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(send, number)
        await client.send("/queue/b", b"", receipt=True)
        bodies = [message.body for message in broker.messages("/queue/a")]
        assert {body for body in bodies if len(body) < 3} == {b"%d" % number for number in range(0, 12, 2)}
        assert bodies.count(BODY) == 6
        assert client.statistics().outbox_bytes == 0


async def test_statistics_when_a_file_is_sent_then_count_its_frame_and_bytes(client: Client, film: Path) -> None:
    before = client.statistics()
    await client.send("/queue/a", film)
    after = client.statistics()
    assert after.frames_sent == before.frames_sent + 1
    assert 0 < after.bytes_sent - before.bytes_sent - len(BODY) < 200


async def test_wire_log_when_a_file_is_sent_then_has_its_head(
    broker: Broker, film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_stomp.wire")
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", film)
    (line,) = [record.getMessage() for record in caplog.records if "piece by piece" in record.getMessage()]
    assert "SEND" in line
    assert "/queue/a" in line
    assert f"{len(BODY)} bytes" in line


class Recording(Hooks):
    def __init__(self) -> None:
        self.sent: list[tuple[int, DeliveryStatus | None, str]] = []

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        def ended(delivery: DeliveryStatus | None, error: StompError | None) -> None:
            self.sent.append((message.body_bytes, delivery, type(error).__name__))

        return ended


async def test_hooks_when_a_file_is_sent_then_see_its_length_and_its_end(broker: Broker, film: Path) -> None:
    hooks = Recording()
    with pytest.raises(ConnectionLost):
        async with trio_stomp.connect_stream(broker.connect_stream(), hooks=hooks) as client:
            await client.send("/queue/a", film)
            await client.send("/queue/a", film, receipt=True)
            async with client.transaction() as transaction:
                await transaction.send("/queue/a", film)
            with pytest.raises(LocalProtocolError):
                await client.send("/queue/a", pieces_of(b"abc"), content_length=4)
            await client.send("/queue/a", b"")
    size = len(BODY)
    assert hooks.sent == [
        (size, DeliveryStatus.SENT, "NoneType"),
        (size, DeliveryStatus.CONFIRMED, "NoneType"),
        (size, DeliveryStatus.SENT, "NoneType"),
        (4, None, "LocalProtocolError"),
    ]


async def test_memory_when_a_file_is_sent_then_takes_a_few_pieces_at_most(tmp_path: Path) -> None:
    size, link = 32 * KIB * KIB, LargeLink()
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(size)
    async with trio_stomp.connect_stream(link) as client:
        tracemalloc.start()
        try:
            await client.send("/queue/a", path, receipt=True)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert link.taken_bytes > size
    assert peak_bytes < 4 * KIB * KIB


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "options", "words"),
    [
        (42, {}, "type int; pass json= to send JSON, encode it, or open the file with mode 'rb'$"),
        (io.StringIO("x"), {}, "open the file with mode 'rb'"),
        (pieces_of(b"x"), {}, "needs content_length="),
        (pieces_of(b"x"), {"content_length": -1}, "got -1"),
        (b"x", {"content_length": 1}, "content_length is for async iterables"),
        (io.BytesIO(b"x"), {"content_length": 1}, "content_length is for async iterables"),
        (io.BytesIO(b"x"), {"headers": {"content-length": "1"}}, "don't repeat it"),
    ],
)
async def test_send_when_the_body_is_of_no_use_then_refused_and_nothing_is_sent(
    client: Client, broker: Broker, body: object, options: dict[str, object], words: str
) -> None:
    for receipt in (False, True):
        with pytest.raises(LocalProtocolError, match=words):
            await client.send("/queue/a", body, receipt=receipt, **options)  # type: ignore[arg-type]  # on purpose
    await client.send("/queue/b", b"", receipt=True)
    assert broker.depth("/queue/a") == 0


async def test_send_when_the_temporary_file_gives_text_then_refused(client: Client) -> None:
    with tempfile.NamedTemporaryFile("w+") as file, pytest.raises(LocalProtocolError, match="with mode 'rb'"):
        body: object = file
        await client.send("/queue/a", body)  # type: ignore[arg-type]  # on purpose


async def test_send_when_the_file_is_a_pipe_then_refused(client: Client) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with (
        os.fdopen(reading, "rb") as file,  # noqa: ASYNC231  # it does not wait
        pytest.raises(LocalProtocolError, match="is not seekable"),
    ):
        await client.send("/queue/a", file)


async def test_send_when_there_is_no_such_file_then_the_error_of_the_system(client: Client, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await client.send("/queue/a", tmp_path / "missing")
    await client.send("/queue/b", b"", receipt=True)


async def test_send_when_over_a_websocket_then_not_supported(film: Path) -> None:
    pytest.importorskip("wsproto")
    async with open_broker(websocket=True) as broker:
        async with trio_stomp.connect(broker.url) as client:
            for receipt in (False, True):
                with pytest.raises(NotSupportedError, match="over a WebSocket"):
                    await client.send("/queue/a", film, receipt=receipt)
            await client.send("/queue/b", b"", receipt=True)


# --- sources that fail ------------------------------------------------------------------------------------------------


async def raising(before: int) -> AsyncIterator[bytes]:  # noqa: ASYNC124, ASYNC900  # what a program sends
    yield b"x" * before
    raise KeyError("mine")


@pytest.mark.parametrize("receipt", [False, True])
@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (lambda: raising(10), KeyError, "mine"),
        (lambda: pieces_of(b"x" * 99), LocalProtocolError, "ended after 99 of 100 bytes"),
        (lambda: pieces_of(b"x" * 101), LocalProtocolError, "gave more than the 100 bytes"),
    ],
)
async def test_send_when_the_source_fails_in_the_middle_then_its_error_is_raised_and_the_connection_ended(
    source: Callable[[], AsyncIterator[bytes]], error: type[Exception], words: str, *, receipt: bool
) -> None:
    async with client_of_peer() as (client, peer):
        with pytest.raises(error, match=words):
            await client.send("/queue/a", source(), content_length=100, receipt=receipt)
        with pytest.raises(ConnectionLost, match="in the middle of its frame"):
            await client.send("/queue/b", b"")
        await peer.ended.wait()
        assert peer.of(Command.SEND) == []


async def test_send_when_the_file_is_cut_off_in_the_middle_then_an_error(film: Path) -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            self.truncate(300_000)
            return data

    async with client_of_peer() as (client, peer):
        with pytest.raises(LocalProtocolError, match=r"the file object 'Shrinking' ended after 300000 of \d+ bytes"):
            await client.send("/queue/a", Shrinking(BODY), receipt=True)
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"")
        await peer.ended.wait()
        assert peer.of(Command.SEND) == []


async def test_connection_when_a_source_failed_and_the_client_reconnects_then_goes_on_without_that_message() -> None:
    async with open_broker(listen=False) as broker:
        async with reconnecting(Host(broker), reconnect=Reconnect(first_delay=0.01)) as client:
            with pytest.raises(KeyError):
                await client.send("/queue/a", raising(10), content_length=100, receipt=True)
            await client.send("/queue/b", b"", receipt=True)
        assert broker.depth("/queue/a") == 0


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_send_when_cancelled_before_its_turn_then_nothing_is_sent_and_the_connection_goes_on(
    client: Client, broker: Broker, film: Path
) -> None:
    may_go_on = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: client.send("/queue/a", a_and_later_b(may_go_on), content_length=2))
        await trio.testing.wait_all_tasks_blocked()
        # The rest of the body, and the NUL behind it.
        assert client.statistics().outbox_bytes == 2
        for receipt in (False, True):
            with trio.move_on_after(0.05) as scope:
                await client.send("/queue/a", film, receipt=receipt)
            assert scope.cancelled_caught
        may_go_on.set()
    await client.send("/queue/a", b"after", receipt=True)
    assert [message.body for message in broker.messages("/queue/a")] == [b"ab", b"after"]
    assert client.statistics().outbox_bytes == 0
    assert client.statistics().unconfirmed == 0


@pytest.mark.parametrize("receipt", [False, True])
async def test_send_when_cancelled_in_the_middle_then_the_connection_ends(*, receipt: bool) -> None:
    scope = trio.CancelScope()

    async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
        yield b"a"
        scope.cancel()
        await trio.sleep_forever()

    async with client_of_peer() as (client, peer):
        with scope:
            await client.send("/queue/a", pieces(), content_length=2, receipt=receipt)
        with pytest.raises(ConnectionLost, match="in the middle of its frame"):
            await client.send("/queue/b", b"")
        await peer.ended.wait()
        assert peer.of(Command.SEND) == []


@pytest.mark.parametrize("announced", [1, 3], ids=["it gives more", "canceled"])
async def test_send_when_it_ends_before_its_generator_then_the_generator_is_closed(announced: int) -> None:
    closed = False
    scope = trio.CancelScope()

    async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
        nonlocal closed
        try:
            yield b"ab"
            scope.cancel()
            await trio.sleep_forever()
        finally:
            closed = True

    async with client_of_peer() as (client, _):
        generator = pieces()
        with scope, suppress(LocalProtocolError):
            await client.send("/queue/a", generator, content_length=announced)
        assert closed
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"")


# --- loss of the connection -------------------------------------------------------------------------------------------


class CutHost(Host):
    """A host whose first links are cut after a number of bytes from the client."""

    def __init__(self, broker: Broker, cuts: list[int]) -> None:
        super().__init__(broker)
        self._cuts = cuts

    async def open_stream(self) -> ByteStream:
        stream = await super().open_stream()
        return TappedStream(stream, cut_sent=self._cuts.pop(0)) if self._cuts else stream


AGAIN: Final = Reconnect(first_delay=0.01, max_delay=0.01)


@pytest.mark.parametrize("cut", [0, 1, 100, 300_000, 700_000, len(BODY) + 100])
async def test_confirmed_send_when_the_connection_is_lost_then_the_file_is_sent_again(
    broker: Broker, film: Path, cut: int
) -> None:
    async with reconnecting(CutHost(broker, [200 + cut, 500_000]), reconnect=AGAIN) as client:
        await client.send("/queue/a", film, receipt=True)
        await client.send("/queue/a", b"after", receipt=True)
    assert [message.body for message in broker.messages("/queue/a")] == [BODY, b"after"]


@pytest.mark.parametrize("cut", [300, 300_000])
async def test_confirmed_send_when_the_connection_is_lost_then_an_iterable_cannot_be_sent_again(
    broker: Broker, cut: int
) -> None:
    async with reconnecting(CutHost(broker, [cut]), reconnect=AGAIN) as client:
        with pytest.raises(ConnectionLost, match="the async iterable async_generator cannot be read again"):
            await client.send("/queue/a", pieces_of(BODY), content_length=len(BODY), receipt=True)
        await client.send("/queue/b", b"", receipt=True)
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("broken", [OSError(5, "the disk is broken"), KeyError("the disk is broken")])
async def test_confirmed_send_when_the_file_is_gone_after_a_loss_then_an_error(
    broker: Broker, broken: Exception
) -> None:
    class Once(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            if self.reads > 3:
                raise broken
            return super().read(size)

    async with reconnecting(CutHost(broker, [400_000]), reconnect=AGAIN) as client:
        with pytest.raises(LocalProtocolError, match=r"cannot be sent again .* '?the disk is broken"):
            await client.send("/queue/a", Once(BODY), receipt=True)
        await client.send("/queue/b", b"", receipt=True)
    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("reconnects", [False, True])
async def test_unconfirmed_send_when_the_connection_is_lost_then_it_is_not_sent_again(
    broker: Broker, film: Path, *, reconnects: bool
) -> None:
    lost: ConnectionLost | None = None
    try:
        async with reconnecting(CutHost(broker, [300_000]), reconnect=AGAIN if reconnects else None) as client:
            try:
                await client.send("/queue/a", film)
            except ConnectionLost as error:
                lost = error
            await client.send("/queue/b", b"")
    except ConnectionLost:
        assert not reconnects
    assert lost is not None
    assert broker.depth("/queue/a") == 0


async def test_send_when_the_source_is_slow_and_the_connection_is_lost_then_raises_at_once() -> None:
    async with client_of_peer() as (client, peer):
        async with trio.open_nursery() as nursery:

            async def lose() -> None:
                await trio.testing.wait_all_tasks_blocked()
                peer.hang_up()

            nursery.start_soon(lose)
            with pytest.raises(ConnectionLost, match="the broker closed it"):
                await client.send("/queue/a", a_and_later_b(trio.Event()), content_length=2)


async def test_send_when_the_broker_says_why_it_does_not_read_on_then_raises_that() -> None:
    class Refusing(TappedStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            if b"SEND" in self.sent:
                peer.error("the body is too large")
                raise anyio.BrokenResourceError
            await super().send_all(data)

    ours, theirs = trio.testing.memory_stream_pair()
    peer = Peer(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)
        async with trio_stomp.connect_stream(Refusing(ours), disconnect_timeout=1) as client:
            with pytest.raises(BrokerError, match="the body is too large"):
                await client.send("/queue/a", pieces_of(b"x" * 100), content_length=100)
        nursery.cancel_scope.cancel()


async def test_send_again_when_the_sender_gives_up_meanwhile_then_the_connection_ends_and_the_next_one_goes_on(
    broker: Broker,
) -> None:
    class Slow(io.BytesIO):
        def __init__(self, body: bytes, sender: trio.CancelScope) -> None:
            super().__init__(body)
            self.reads = 0
            self.sender = sender

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            if self.reads == 4:
                # By then it is sent again.
                trio.from_thread.run_sync(self.sender.cancel)
            return super().read(size)

    host = CutHost(broker, [400_000])
    async with reconnecting(host, reconnect=AGAIN) as client:
        with trio.CancelScope() as scope:
            await client.send("/queue/a", Slow(BODY, scope), receipt=True)
        assert scope.cancelled_caught
        await client.send("/queue/b", b"", receipt=True)
    assert broker.depth("/queue/a") == 0
    assert len(host.dialed) == 3


# --- transactions -----------------------------------------------------------------------------------------------------


async def test_transaction_when_a_file_is_sent_in_it_then_takes_effect_as_a_whole(
    client: Client, broker: Broker, film: Path
) -> None:
    async with client.transaction() as transaction:
        await transaction.send("/queue/a", film, content_type="video/mp4")
        await transaction.send("/queue/a", pieces_of(b"abc"), content_length=3)
        await transaction.send("/queue/a", b"small")
        await client.send("/queue/b", b"", receipt=True)
        assert broker.depth("/queue/a") == 0
    assert [message.body for message in broker.messages("/queue/a")] == [BODY, b"abc", b"small"]


async def test_transaction_when_the_link_is_lost_in_a_file_then_lost(broker: Broker, film: Path) -> None:
    stream = TappedStream(broker.connect_stream(), cut_sent=300_000)
    with pytest.raises(TransactionLost):
        async with trio_stomp.connect_stream(stream) as client, client.transaction() as transaction:
            await transaction.send("/queue/a", film)
            pytest.fail("it was not sent")


async def test_transaction_when_a_file_is_cancelled_behind_another_frame_then_commit_does_not_wait_for_it(
    film: Path,
) -> None:
    """Behind RabbitMQ, where each message of a transaction has a RECEIPT of its own."""
    may_go_on = trio.Event()

    async with client_of("RabbitMQ/3.13.0") as (client, broker):
        async with client.transaction() as transaction, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.send("/queue/b", a_and_later_b(may_go_on), content_length=2))
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0.05) as scope:
                await transaction.send("/queue/a", film)
            assert scope.cancelled_caught
            assert client.statistics().receipts_pending == 0
            may_go_on.set()
            await transaction.send("/queue/a", b"small")
        assert [message.body for message in broker.messages("/queue/a")] == [b"small"]


async def test_worker_pool_when_a_spooled_message_fails_then_its_body_is_dead_lettered(
    broker: Broker, client: Client
) -> None:
    broker.publish("/queue/a", BODY, [("content-type", "video/mp4")])

    async def handle(message: trio_stomp.Message) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError(message.id)

    async with (
        client.subscribe("/queue/a", spool_threshold_bytes=64 * KIB) as subscription,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(
            lambda: subscription.work(handle, retry=trio_stomp.Retry(attempts=1), dead_letter="/queue/failed")
        )
        await broker.wait_until(lambda: broker.depth("/queue/failed") == 1)
        nursery.cancel_scope.cancel()
    (message,) = broker.messages("/queue/failed")
    assert message.body == BODY
    assert message.headers["content-type"] == "video/mp4"
