"""What asyncio does and trio does not, each a case by name: the client, native on a real loop of asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

import trio_stomp
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import ConnectionClosed, ConnectionLost, Message, Reconnect, Retry
from trio_stomp.runtime import in_thread
from trio_stomp.testing import Broker, StallReading, open_broker, run_broker_in_thread

pytestmark = pytest.mark.filterwarnings("error")

QUEUE = "/queue/a"


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with run_broker_in_thread() as broker:
        yield broker.url


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # polls once for each pass of the loop
            await asyncio.sleep(0)


@on_asyncio
async def test_consumer_when_canceled_in_the_tick_in_which_it_was_woken_then_another_gets_the_message(url: str) -> None:
    async with trio_stomp.connect(url) as client, client.subscribe(QUEUE, ack="auto") as messages:

        async def take() -> bytes:
            return (await anext(messages)).body

        first = asyncio.create_task(take())
        second = asyncio.create_task(take())
        await until(lambda: messages.statistics().waiting == 2)
        await client.send(QUEUE, b"x")
        # The reader has put it there and has woken the first task, which has not run since.
        await until(lambda: messages.statistics().buffered)
        first.cancel()
        async with asyncio.timeout(10):
            assert await second == b"x"
        assert first.cancelled()


@on_asyncio
async def test_connect_when_canceled_as_hosts_are_raced_then_canceled_and_not_failed(url: str) -> None:
    """In some passes, an attempt cancels a scope of its own in the same moment, which must not be taken for it."""
    hosts = [url, url.replace("127.0.0.1", "127.0.0.3")]

    async def session() -> None:
        async with trio_stomp.connect(hosts, connect_attempt_delay=0.0001):
            pass

    for passes in [3, 4, 5, 6] * 60:
        task = asyncio.create_task(session())
        for _ in range(passes):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


@on_asyncio
async def test_client_when_entered_in_one_task_and_left_in_another_then_it_is_left_in_good_order(url: str) -> None:
    manager = trio_stomp.connect(url)
    client = await asyncio.create_task(manager.__aenter__())
    sending = asyncio.create_task(client.send(QUEUE, b"x", receipt=True))
    await sending
    leaving = asyncio.create_task(manager.__aexit__(None, None, None))
    await leaving
    assert client.state.phase is trio_stomp.types.Phase.CLOSED


@on_asyncio
async def test_disconnect_when_the_loop_holds_what_the_broker_does_not_read_then_it_counts_as_unwritten() -> None:
    with run_broker_in_thread() as broker:
        broker.call(lambda inner: inner.faults.plan(StallReading(after_bytes=500)))
        client = await trio_stomp.open(broker.url, disconnect_timeout=0.2, heart_beat=(0, 0))
        await client.send(QUEUE, b"x" * 30_000_000)
        await until(lambda: client.statistics().writes == 1)
        assert client.statistics().outbox_bytes > 10_000_000
        with pytest.raises(ConnectionLost, match=r"\d{8} bytes could not be written within 0.2 s"):
            await client.aclose()
        assert client.statistics().bytes_unsent > 10_000_000


@on_asyncio
async def test_statistics_when_the_link_is_reset_then_what_the_loop_had_not_written_is_unsent() -> None:
    with run_broker_in_thread() as broker:
        broker.call(lambda inner: inner.faults.plan(StallReading(after_bytes=500)))
        client = await trio_stomp.open(broker.url, heart_beat=(0, 0))
        await client.send(QUEUE, b"x" * 30_000_000)
        await until(lambda: client.statistics().writes == 1)
        broker.call(Broker.drop_connections)
        with pytest.raises(ConnectionLost):
            await client.wait_closed()
        assert client.statistics().bytes_unsent > 10_000_000
        await client.aclose()


async def elsewhere(use: Callable[[], object]) -> None:
    """Await something in another loop, and require that the client refuses it."""

    async def main() -> None:
        await use()  # type: ignore[misc]  # each gives an awaitable

    with pytest.raises(RuntimeError, match="belongs to another event loop"):
        await asyncio.to_thread(asyncio.run, main())


@on_asyncio
async def test_client_when_used_from_another_loop_then_runtime_error_says_so(url: str) -> None:
    async with trio_stomp.connect(url) as client, client.subscribe("/queue/empty") as messages:
        await elsewhere(lambda: client.send(QUEUE, b"x"))
        await elsewhere(lambda: client.send(QUEUE, b"x", receipt=True))
        await elsewhere(lambda: anext(messages))
        await elsewhere(client.disconnect)
        await elsewhere(client.wait_closed)
        await elsewhere(client.aclose)
        await client.send(QUEUE, b"x", receipt=True)


@on_asyncio
async def test_client_when_used_from_another_loop_while_it_reconnects_then_refused_too() -> None:
    """A task that has to wait for the connection would wait in the wrong loop."""
    async with (
        open_broker() as broker,
        trio_stomp.connect(broker.url, reconnect=Reconnect(), disconnect_timeout=0.1) as client,
    ):
        await broker.stop_listening()
        broker.drop_connections()
        await until(lambda: not client.state.healthy)
        await elsewhere(lambda: client.send(QUEUE, b"x", receipt=True))


def test_loop_when_run_piecewise_then_the_client_goes_on(url: str) -> None:
    loop = asyncio.new_event_loop()
    manager = trio_stomp.connect(url)
    client = loop.run_until_complete(manager.__aenter__())
    for _ in range(3):
        loop.run_until_complete(client.send(QUEUE, b"x", receipt=True))
    loop.run_until_complete(manager.__aexit__(None, None, None))
    loop.close()
    assert client.statistics().receipts_pending == 0


@on_asyncio
async def test_publisher_when_fifty_tasks_send_then_its_window_is_never_exceeded(url: str) -> None:
    most = 0
    async with trio_stomp.connect(url) as client, client.publisher(max_in_flight=4) as publisher:

        async def send() -> None:
            nonlocal most
            await publisher.send(QUEUE, b"x")
            most = max(most, client.statistics().unconfirmed)

        await asyncio.gather(*(send() for _ in range(50)))
    assert most == 4


@on_asyncio
async def test_handler_when_it_raises_cancelled_error_by_itself_then_it_has_failed_and_the_pool_goes_on(
    url: str,
) -> None:
    handled: list[str] = []

    async def handle(message: Message) -> None:  # noqa: ASYNC124  # work() awaits it
        if message.text == "b":
            raise asyncio.CancelledError
        handled.append(message.text)

    async with trio_stomp.connect(url) as client:
        for text in "abc":
            await client.send("/queue/own", text, receipt=True)
        async with client.subscribe("/queue/own") as messages:
            working = asyncio.create_task(messages.work(handle, workers=1, retry=Retry(attempts=1)))
            await until(lambda: len(handled) == 2)
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
    assert handled == ["a", "c"]


@on_asyncio
async def test_credentials_when_they_raise_cancelled_error_by_themselves_then_connecting_fails(url: str) -> None:
    async def credentials() -> tuple[str, str]:  # noqa: ASYNC124  # connect() awaits it
        raise asyncio.CancelledError

    with pytest.raises(trio_stomp.ConnectError, match="CancelledError, although nothing has canceled it"):
        async with trio_stomp.connect(url, credentials=credentials):
            raise AssertionError


@on_asyncio
async def test_client_when_closed_in_a_handler_then_work_raises_that_and_leaving_ends(url: str) -> None:
    async with trio_stomp.connect(url) as client:
        await client.send("/queue/close", b"x", receipt=True)
        async with client.subscribe("/queue/close") as messages:

            async def handle(message: Message) -> None:
                await message.ack()
                await client.aclose()

            with pytest.raises(ConnectionClosed):
                await messages.work(handle)


@on_asyncio
async def test_batch_when_its_call_is_canceled_while_it_lingers_then_the_next_call_gets_all(url: str) -> None:
    async with trio_stomp.connect(url) as client, client.subscribe("/queue/batch") as messages:
        for text in "abc":
            await client.send("/queue/batch", text, receipt=True)
        lingering = asyncio.create_task(messages.receive_batch(10, linger=60))
        await until(lambda: messages.statistics().buffered == 3 and messages.statistics().waiting)
        lingering.cancel()
        with suppress(asyncio.CancelledError):
            await lingering
        batch = await messages.receive_batch(10)
        for message in batch:
            await message.ack()
        assert [message.text for message in batch] == ["a", "b", "c"]


@on_asyncio
async def test_body_when_it_is_large_then_it_arrives(url: str) -> None:
    async with trio_stomp.connect(url) as client, client.subscribe("/queue/large", ack="auto") as messages:
        await client.send("/queue/large", bytes(30 * 1024 * 1024), receipt=True)
        assert (await anext(messages)).body == bytes(30 * 1024 * 1024)


def test_file_when_its_sender_is_canceled_natively_then_the_connection_ends_or_the_file_was_sent_whole(
    url: str, tmp_path: Path
) -> None:
    path = tmp_path / "body"
    path.write_bytes(bytes(8 * 1024 * 1024))

    async def main(passes: int) -> None:
        with suppress(trio_stomp.ConnectionLost):
            async with trio_stomp.connect(url) as client:
                sending = asyncio.create_task(client.send("/queue/file", path))
                for _ in range(passes):
                    await asyncio.sleep(0)
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
                await client.send(QUEUE, b"x", receipt=True)

    # Each pass ends at another await: before the file is opened, while a piece is read, while one is written.
    for passes in range(1, 60, 2):
        asyncio.run(asyncio.wait_for(main(passes), 20))


def test_debug_mode_when_everything_is_used_then_nothing_is_said(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 30
        async with trio_stomp.connect(url) as client, client.subscribe("/queue/debug") as messages:
            await client.send("/queue/debug", b"x", receipt=True)
            async with client.transaction() as transaction:
                await transaction.send("/queue/debug", b"y")
            for _ in range(2):
                async with await anext(messages):
                    pass

    asyncio.run(main(), debug=True)
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio" and record.levelname != "DEBUG"] == []


@on_asyncio
async def test_open_when_closed_twice_then_the_second_time_nothing_happens(url: str) -> None:
    client = await trio_stomp.open(url)
    await client.send(QUEUE, b"x", receipt=True)
    await client.aclose()
    await client.aclose()
    with pytest.raises(ConnectionClosed):
        await client.send(QUEUE, b"x")


@on_asyncio
async def test_open_when_its_block_raises_then_that_same_object_leaves_and_the_client_is_closed(url: str) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with await trio_stomp.open(url):
            raise error
    assert caught.value is error


def test_thread_when_its_caller_is_canceled_and_it_fails_then_only_the_cancellation_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        may_end.wait(10)
        raise OSError("the disk is gone")

    async def main() -> None:
        calling = asyncio.create_task(in_thread(fail))
        await until(begun.is_set)
        calling.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(main())
    gc.collect()
    assert "never retrieved" not in caplog.text
