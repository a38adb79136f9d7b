"""Large bodies in temporary files: `subscribe(spool_threshold_bytes=...)`.

Without the mock clock, which would run on while a thread writes to the disk.
"""

from __future__ import annotations

import gc
import os
import tempfile
import tracemalloc
from array import array
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of_peer
from tests.kit.full_disk import file_size_limit
from tests.kit.large_link import LargeLink
from tests.kit.peer import Peer, PeerOptions
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.streams import ByteStream
from tests.kit.tapped_stream import TappedStream
from trio_stomp import (
    BodySpoolError,
    Client,
    ConnectionLost,
    HeartBeatTimeout,
    Limits,
    LocalProtocolError,
    Reconnect,
    Subscription,
)
from trio_stomp.protocol import HeartBeatOffer
from trio_stomp.session.spool import SpooledBody
from trio_stomp.testing import Broker, open_broker
from trio_stomp.types import AckName, Command, Settlement

KIB: Final = 1024
MIB: Final = 1024 * KIB
OVER: Final = 64 * KIB
# No two chunks of it are alike.
LARGE: Final = array("I", range(3 * MIB // 4)).tobytes() + b"at the end"
# It promises a heart-beat each second, and sends none.
BEATING: Final = PeerOptions(heart_beat=HeartBeatOffer(can_ms=1000, want_ms=0))

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it counts open files by /proc")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go in this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def open_files(directory: Path) -> int:
    """How many files of a directory this process has open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  # the entries may vanish
        try:
            found += os.readlink(f"/proc/self/fd/{number}").startswith(f"{directory}/")  # noqa: PTH115  # the entries may vanish
        except FileNotFoundError:
            continue
    return found


@contextmanager
def without_gc() -> Generator[None]:
    """Free nothing that only the garbage collector finds."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def all_closed(directory: Path) -> None:
    """Wait until this process has no file of a directory open, without the help of the garbage collector.

    No call closes the file of a message that is dropped, and the thread that used it last may keep it for a moment,
    longer on a busy machine.
    """
    with without_gc(), trio.fail_after(30):
        while open_files(directory):  # noqa: ASYNC110  # nothing tells of a closed file
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def subscribed(
    broker: Broker, *bodies: bytes, headers: Sequence[tuple[str, str]] = ()
) -> AsyncGenerator[Subscription]:
    """A subscription to a queue of these bodies that puts the large ones into files."""
    for body in bodies:
        broker.publish("/queue/a", body, headers)
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription,
    ):
        yield subscription


@asynccontextmanager
async def at_a_peer(
    peer_options: PeerOptions | None = None,
    *,
    ack: AckName = "client-individual",
    versions: Sequence[str] = ("1.2",),
    heart_beat: tuple[float, float] = (0, 0),
) -> AsyncGenerator[tuple[Peer, Subscription]]:
    """A peer, and a subscription at it that puts large bodies into files."""
    async with (
        client_of_peer(peer_options, versions=versions, heart_beat=heart_beat) as (client, peer),
        client.subscribe("/q", id="s", ack=ack, spool_threshold_bytes=OVER) as subscription,
    ):
        yield peer, subscription


async def collected(message: trio_stomp.Message) -> bytes:
    chunks = [chunk async for chunk in message.chunks()]
    assert all(0 < len(chunk) <= 256 * KIB for chunk in chunks)
    return b"".join(chunks)


# --- what the user gets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "spooled"), [(0, False), (10, False), (OVER, False), (OVER + 1, True), (3 * MIB, True)]
)
async def test_message_when_its_body_is_longer_than_the_threshold_then_it_is_in_a_file(
    broker: Broker, directory: Path, size: int, *, spooled: bool
) -> None:
    body = LARGE[:size]
    async with subscribed(broker, body) as subscription:
        message = await anext(subscription)

        assert message.is_spooled is spooled
        assert message.body_size == size
        assert await collected(message) == body
        assert await collected(message) == body
        with message.open_body() as file:
            assert file.read(100) == body[:100]
            assert file.seek(0, os.SEEK_END) == size
            assert file.seek(max(0, size - 10)) == max(0, size - 10)
            assert file.read() == body[max(0, size - 10) :]
        assert open_files(directory) == spooled
        if not spooled:
            assert message.body == body
        await message.ack(receipt=True)
    assert broker.depth("/queue/a") == 0


async def test_body_when_in_a_file_then_whatever_wants_it_in_memory_says_what_to_use(broker: Broker) -> None:
    async with subscribed(broker, LARGE, headers=[("content-type", "application/json")]) as subscription:
        message = await anext(subscription)
        assert f"{len(LARGE)} bytes in a file" in repr(message)
        reads: list[Callable[[], object]] = [
            lambda: message.body,
            lambda: message.text,
            message.json,
            lambda: message.value,
        ]
        for read in reads:
            with pytest.raises(LocalProtocolError, match=rf"has {len(LARGE)} bytes .* chunks\(\) or open_body\(\)"):
                read()


@pytest.mark.parametrize("size", [65_535, 0, -1])
async def test_threshold_when_a_body_below_it_might_come_at_once_then_refused(  # noqa: ASYNC124  # the fixtures need trio
    client: Client, size: int
) -> None:
    with pytest.raises(LocalProtocolError, match=f"spool_threshold_bytes must be at least 65536 bytes, got {size}"):
        client.subscribe("/queue/a", spool_threshold_bytes=size)


async def test_seek_when_it_is_before_the_beginning_then_refused(broker: Broker) -> None:
    async with subscribed(broker, LARGE) as subscription:
        with (await anext(subscription)).open_body() as file, pytest.raises(ValueError, match="negative seek"):
            file.seek(-len(LARGE) - 1, os.SEEK_END)


async def test_chunks_when_canceled_then_go_on_with_the_same_chunk(broker: Broker) -> None:
    async with subscribed(broker, LARGE) as subscription:
        chunks = (await anext(subscription)).chunks()
        first = await anext(chunks)
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(chunks)
        rest = b"".join([chunk async for chunk in chunks])

    assert scope.cancelled_caught
    assert first + rest == LARGE


async def test_chunks_when_all_threads_are_busy_then_only_a_body_in_a_file_waits_for_one(broker: Broker) -> None:
    async with subscribed(broker, LARGE, b"small") as subscription:
        large, small = await anext(subscription), await anext(subscription)
        threads = trio.to_thread.current_default_thread_limiter()
        for number in range(int(threads.total_tokens)):
            threads.acquire_on_behalf_of_nowait(number)
        try:
            with trio.fail_after(5):
                assert await collected(small) == b"small"
            with trio.move_on_after(0.05) as waited:
                await collected(large)
        finally:
            for number in range(int(threads.total_tokens)):
                threads.release_on_behalf_of(number)
        assert waited.cancelled_caught


async def test_chunks_when_the_body_is_in_memory_then_can_be_canceled_too(broker: Broker) -> None:
    async with subscribed(broker, b"small") as subscription:
        message = await anext(subscription)
        with trio.CancelScope() as scope:
            scope.cancel()
            await collected(message)
    assert scope.cancelled_caught


# --- which bodies -----------------------------------------------------------------------------------------------------


async def test_subscriptions_when_one_of_two_spools_then_only_its_bodies_are_in_files(
    broker: Broker, client: Client
) -> None:
    for destination in ("/queue/a", "/queue/b"):
        broker.publish(destination, LARGE)
        broker.publish(destination, b"small")
    async with (
        client.subscribe("/queue/a", spool_threshold_bytes=OVER) as spooling,
        client.subscribe("/queue/b") as other,
    ):
        assert [(await anext(spooling)).is_spooled for _ in range(2)] == [True, False]
        assert [(await anext(other)).body for _ in range(2)] == [LARGE, b"small"]


@pytest.mark.parametrize("thresholds", [(OVER, MIB), (MIB, OVER)])
async def test_body_when_it_is_over_the_lower_of_two_thresholds_then_is_in_a_file_of_that_subscription_alone(
    thresholds: tuple[int, int],
) -> None:
    """All of it comes in one read."""
    async with client_of_peer() as (client, peer):
        async with (
            client.subscribe("/q", id="0", spool_threshold_bytes=thresholds[0]) as first,
            client.subscribe("/q", id="1", spool_threshold_bytes=thresholds[1]) as second,
        ):
            spooled: list[bool] = []
            for number, subscription in enumerate((first, second)):
                peer.deliver(str(number), LARGE[: OVER + 1])
                spooled.append((await anext(subscription)).is_spooled)
        assert spooled == [each == OVER for each in thresholds]


async def test_subscription_when_an_earlier_one_of_its_id_spooled_then_its_bodies_are_in_memory(
    broker: Broker, client: Client
) -> None:
    async with client.subscribe("/queue/a", id="s", spool_threshold_bytes=OVER):
        pass
    async with client.subscribe("/queue/a", id="s") as subscription:
        broker.publish("/queue/a", LARGE)
        message = await anext(subscription)
        assert not message.is_spooled
        assert message.body == LARGE


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_body_when_it_has_no_content_length_then_is_spooled_too(version: str) -> None:
    body = LARGE.replace(b"\0", b"0")
    async with at_a_peer(ack="auto", versions=[version]) as (peer, subscription):
        peer.put(b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\n%b\0" % body)
        peer.deliver("s", b"next")
        first, second = await anext(subscription), await anext(subscription)
        assert first.is_spooled
        assert await collected(first) == body
        assert second.body == b"next"


async def test_violation_when_more_came_in_the_same_read_then_nothing_of_that_is_handed_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is read is decoded in two pieces here."""
    async with at_a_peer() as (peer, subscription):
        peer.deliver("s", b"x" * (OVER - 1000))
        # It has no message-id, and ends in the first piece.
        peer.put(b"MESSAGE\nsubscription:s\ndestination:/q\n\n\0")
        peer.deliver("s", b"x" * 2000)
        first = await anext(subscription)
        await trio.sleep(0.1)
        assert subscription.statistics().buffered == 0
        await first.ack()
        with pytest.raises(trio_stomp.RemoteProtocolError, match="message-id"):
            await anext(subscription)


async def test_memory_when_bodies_are_in_files_then_they_do_not_count_as_undelivered(broker: Broker) -> None:
    for _ in range(5):
        broker.publish("/queue/a", LARGE)
    async with trio_stomp.connect_stream(broker.connect_stream(), limits=Limits(undelivered_bytes=2 * MIB)) as client:
        async with client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription:
            batch = await subscription.receive_batch(5, linger=30)
            assert [message.body_size for message in batch] == [len(LARGE)] * 5
            assert client.statistics().reads_paused == 0


# --- the end of a file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fails", "settlement"), [(False, Settlement.ACKED), (True, Settlement.NACKED)])
async def test_file_when_the_block_of_its_message_ends_then_is_closed(
    broker: Broker, directory: Path, settlement: Settlement, *, fails: bool
) -> None:
    async with subscribed(broker, LARGE) as subscription:
        message = await anext(subscription)
        file = message.open_body()
        with suppress(KeyError):
            async with message:
                assert open_files(directory) == 1
                if fails:
                    raise KeyError
        assert message.settlement is settlement
        assert open_files(directory) == 0
        with pytest.raises(ValueError, match="closed file"):
            file.read()


async def test_file_when_its_message_is_gone_then_is_closed(broker: Broker, client: Client, directory: Path) -> None:
    broker.publish("/queue/a", LARGE)
    async with client.subscribe("/queue/a", ack="auto", spool_threshold_bytes=OVER) as subscription:
        message = await anext(subscription)
    # It survives its subscription.
    assert await collected(message) == LARGE
    assert open_files(directory) == 1
    del message
    await all_closed(directory)


async def test_files_when_the_subscription_is_left_with_messages_waiting_then_are_closed(
    broker: Broker, client: Client, directory: Path
) -> None:
    for _ in range(3):
        broker.publish("/queue/a", LARGE)
    async with client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription:
        del subscription
        while open_files(directory) < 3:  # noqa: ASYNC110  # nothing tells of an open file
            await trio.lowlevel.checkpoint()
    await client.send("/queue/b", b"", receipt=True)
    await all_closed(directory)
    assert broker.depth("/queue/a") == 3


async def test_file_when_its_message_is_gone_and_the_client_reconnects_then_is_closed(
    broker: Broker, directory: Path
) -> None:
    broker.publish("/queue/a", LARGE)
    async with (
        reconnecting(Host(broker), reconnect=Reconnect(first_delay=0.01)) as client,
        client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription,
    ):
        assert (await anext(subscription)).is_spooled
        assert open_files(directory) == 1
        with without_gc():
            broker.drop_connections()
            again = await anext(subscription)
            assert again.redelivered
            assert open_files(directory) == 1


@pytest.mark.parametrize("reset", [False, True])
async def test_files_when_the_link_is_cut_anywhere_in_a_body_then_are_closed_and_the_message_comes_again(
    directory: Path, *, reset: bool
) -> None:
    for cut in range(300, len(LARGE), 250_000):
        async with open_broker(listen=False) as broker:
            broker.publish("/queue/a", LARGE)
            stream = TappedStream(broker.connect_stream(), cut_received=cut, reset=reset)
            with pytest.raises(ConnectionLost):
                async with (
                    trio_stomp.connect_stream(stream) as client,
                    client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription,
                ):
                    await anext(subscription)
            assert open_files(directory) == 0
            async with subscribed(broker) as subscription:
                assert await collected(await anext(subscription)) == LARGE


async def test_subscription_when_the_client_reconnects_in_the_middle_of_a_body_then_goes_on_spooling(
    broker: Broker, directory: Path
) -> None:
    class Cut(Host):
        async def open_stream(self) -> ByteStream:
            stream = await super().open_stream()
            return TappedStream(stream, cut_received=2 * MIB if len(self.dialed) == 1 else None)

    broker.publish("/queue/a", LARGE)
    async with (
        reconnecting(Cut(broker), reconnect=Reconnect(first_delay=0.01)) as client,
        client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription,
    ):
        async with await anext(subscription) as message:
            assert await collected(message) == LARGE
            assert open_files(directory) == 1
        assert client.statistics().reconnections == 1
    assert open_files(directory) == 0


async def test_memory_when_a_body_goes_into_a_file_then_takes_a_few_portions_at_most() -> None:
    size = 32 * MIB
    async with trio_stomp.connect_stream(LargeLink(size)) as client:
        tracemalloc.start()
        try:
            async with client.subscribe("/q", ack="auto", id="s", spool_threshold_bytes=OVER) as subscription:
                message = await anext(subscription)
                received = 0
                async for chunk in message.chunks():
                    received += len(chunk)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert received == size
    assert peak_bytes < 6 * MIB


async def test_file_when_the_program_is_canceled_in_the_middle_of_a_body_then_is_closed(
    broker: Broker, directory: Path
) -> None:
    broker.publish("/queue/a", LARGE)
    with trio.CancelScope() as scope:
        async with (
            trio_stomp.connect_stream(TappedStream(broker.connect_stream(), cut_received=10**9)) as client,
            client.subscribe("/queue/a", spool_threshold_bytes=OVER),
        ):
            while not open_files(directory):  # noqa: ASYNC110  # nothing tells of an open file
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert open_files(directory) == 0


# --- a disk that fails ------------------------------------------------------------------------------------------------


async def test_disk_when_it_is_full_then_the_subscription_ends_alone_and_the_message_comes_again(
    broker: Broker, client: Client, directory: Path
) -> None:
    broker.publish("/queue/a", b"small")
    broker.publish("/queue/a", LARGE)
    broker.publish("/queue/b", b"other")
    async with client.subscribe("/queue/b") as other:
        with (
            file_size_limit(MIB + 70_000),
            pytest.raises(BodySpoolError, match=rf"could not be written to a temporary file in {directory}: .*TMPDIR"),
        ):
            async with client.subscribe("/queue/a", spool_threshold_bytes=OVER, prefetch=2) as subscription:
                async for message in subscription:
                    assert message.body == b"small"
                    await message.ack(receipt=True)
        assert open_files(directory) == 0
        assert (await anext(other)).body == b"other"
        async with client.subscribe("/queue/a", spool_threshold_bytes=OVER) as subscription:
            assert await collected(await anext(subscription)) == LARGE


async def test_disk_when_there_is_no_directory_then_the_error_says_so(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(BodySpoolError, match="No such file or directory") as caught:
        async with subscribed(broker, LARGE) as subscription:
            await anext(subscription)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_disk_when_no_task_looks_then_leaving_the_subscription_raises(
    broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    broker.publish("/queue/a", LARGE)
    with pytest.raises(BodySpoolError):
        async with client.subscribe("/queue/a", spool_threshold_bytes=OVER):
            while client.statistics().messages_unroutable < 1:  # noqa: ASYNC110  # nothing tells of it
                await trio.lowlevel.checkpoint()
    assert broker.depth("/queue/a") == 1


# --- the rest of the connection ---------------------------------------------------------------------------------------


async def test_watchdog_when_the_disk_is_slow_then_does_not_take_it_for_the_brokers_silence(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mock clock jumps while all tasks wait, so a write seems to take as long as the next deadline."""
    flush: Callable[[SpooledBody], None] = SpooledBody.flush
    slow_seconds = 60.0
    flushes: list[float] = []

    def slow_flush(body: SpooledBody) -> None:
        began = trio.from_thread.run_sync(trio.current_time)
        trio.from_thread.run(trio.sleep, slow_seconds)
        flushes.append(trio.from_thread.run_sync(trio.current_time) - began)
        flush(body)

    monkeypatch.setattr(SpooledBody, "flush", slow_flush)
    async with at_a_peer(BEATING, heart_beat=(0, 1)) as (peer, subscription):
        peer.deliver("s", LARGE[: 2 * MIB])
        message = await anext(subscription)
        assert message.body_size == 2 * MIB
        assert min(flushes) >= slow_seconds
        await message.ack()
        await peer.wait_for(Command.ACK)


@pytest.mark.parametrize("count", [0, 1])
async def test_watchdog_when_the_broker_is_silent_before_or_after_a_large_body_then_finds_out(
    count: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with at_a_peer(BEATING, heart_beat=(0, 1)) as (peer, subscription):
        for _ in range(count):
            peer.deliver("s", LARGE)
            assert (await anext(subscription)).body_size == len(LARGE)
        with trio.fail_after(600), pytest.raises(HeartBeatTimeout):
            await anext(subscription)


async def test_worker_pool_when_it_decodes_then_handlers_get_spooled_messages_all_the_same(
    broker: Broker, client: Client
) -> None:
    broker.publish("/queue/a", b'"small"')
    broker.publish("/queue/a", LARGE)
    seen: list[object] = []

    async def handle(message: trio_stomp.Message[object]) -> None:
        seen.append(len(await collected(message)) if message.is_spooled else message.value)

    async with (
        client.subscribe("/queue/a", spool_threshold_bytes=OVER, decode=lambda body: body.decode()) as subscription,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(subscription.work, handle)
        await broker.wait_until(lambda: not broker.depth("/queue/a") and not broker.unacknowledged("/queue/a"))
        nursery.cancel_scope.cancel()
    assert seen == ['"small"', len(LARGE)]
