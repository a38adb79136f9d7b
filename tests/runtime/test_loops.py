"""Event loops of asyncio's kind: several, in several threads, with eager tasks, blocked or interrupted."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec

import pytest

import trio_stomp
from tests.kit.ctrl_c import CtrlC
from tests.kit.on_asyncio import on_asyncio, run_on_asyncio
from trio_stomp import BrokerError, Client, Message, OutgoingMessage
from trio_stomp.testing import BrokerOptions, ThreadedBroker, run_broker_in_thread

QUEUE = "/queue/a"

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def uvloop() -> asyncio.AbstractEventLoop:
    # There is none on Windows.
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop


EACH_LOOP = pytest.mark.parametrize(
    "new_loop",
    [
        pytest.param(asyncio.new_event_loop, id="asyncio"),
        pytest.param(
            uvloop,
            id="uvloop",
            marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
        ),
    ],
)


async def tour(url: str, queue: str) -> list[bytes]:
    """Use every verb once or more."""
    taken: list[bytes] = []
    async with trio_stomp.connect(url) as client:
        for number in range(200):
            await client.send(queue, b"%d" % number)
        await client.send_many([OutgoingMessage(queue, b"many")], receipt=True)
        async with client.publisher(max_in_flight=8) as publisher:
            for number in range(20):
                await publisher.send(queue, b"p%d" % number)
        async with client.subscribe(queue, prefetch=20) as subscription:
            async for message in subscription:
                async with message:
                    taken.append(message.body)
                if len(taken) == 210:
                    break
            batch = await subscription.receive_batch(20, linger=0.05)
            while len(batch) < 11:
                batch += await subscription.receive_batch(20)
            taken += [message.body for message in batch]
            await subscription.ack_up_to(batch[-1])
            async with client.transaction() as transaction:
                await transaction.send(queue, b"last")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):

                    async def handle(message: Message) -> None:
                        await asyncio.sleep(0)
                        taken.append(message.body)

                    await subscription.work(handle)
        await client.disconnect()
    return taken


ALL = [b"%d" % n for n in range(200)] + [b"many"] + [b"p%d" % n for n in range(20)] + [b"last"]


@EACH_LOOP
def test_verbs_when_on_this_loop_then_all_work(broker: ThreadedBroker, new_loop: NewLoop) -> None:
    assert run_on_asyncio(lambda: tour(broker.url, QUEUE), new_loop) == ALL


@EACH_LOOP
def test_clients_when_in_loops_of_several_threads_then_all_work(broker: ThreadedBroker, new_loop: NewLoop) -> None:
    with ThreadPoolExecutor(3) as threads:
        done = [
            threads.submit(run_on_asyncio, lambda number=number: tour(broker.url, f"/queue/{number}"), new_loop)
            for number in range(3)
        ]
        assert [each.result() for each in done] == [ALL] * 3


@EACH_LOOP
def test_verbs_when_tasks_start_eagerly_then_all_work(broker: ThreadedBroker, new_loop: NewLoop) -> None:
    # From Python 3.12 on.
    eager = getattr(asyncio, "eager_task_factory", None)
    if eager is None:
        pytest.skip("tasks do not start eagerly before Python 3.12")

    async def main() -> list[bytes]:
        asyncio.get_running_loop().set_task_factory(eager)
        # In a task that has begun eagerly, too.
        running = tour(broker.url, QUEUE)
        try:
            task = asyncio.create_task(running)
        except TypeError as error:
            running.close()
            # uvloop gives each factory this argument, and the eager one of Python 3.13.0 does not take it, not even for
            # the tasks in which the loop is closed.
            if "eager_start" in str(error):
                asyncio.get_running_loop().set_task_factory(None)
                pytest.skip(str(error))
            raise
        return await task

    assert run_on_asyncio(main, new_loop) == ALL


@pytest.mark.slow
def test_loop_when_it_was_blocked_then_what_came_meanwhile_is_read_and_the_log_names_the_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The broker is patient, and the client is not: three intervals, of which it sees none.
    options = BrokerOptions(heart_beat=(0.1, 0.1), heart_beat_grace=100)
    with run_broker_in_thread(options=options) as broker:

        async def main() -> None:
            async with trio_stomp.connect(broker.url, heart_beat=(0.1, 0.1)) as client:
                await client.send(QUEUE, b"1", receipt=True)
                time.sleep(2)  # noqa: ASYNC251  # the mistake
                await client.send(QUEUE, b"2", receipt=True)

        run_on_asyncio(main)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert re.search(r"the program has blocked its event loop for at least 1\.[0-9] s", said)


@pytest.mark.slow
def test_heart_beats_when_the_loop_is_blocked_for_longer_than_the_broker_waits_then_it_ends_the_connection() -> None:
    options = BrokerOptions(heart_beat=(0.1, 0.1), heart_beat_grace=2)
    with run_broker_in_thread(options=options) as broker:

        async def main() -> None:
            async with trio_stomp.connect(broker.url, heart_beat=(0.1, 0.1)) as client:
                assert client.heart_beat.client_sends_ms == 100
                time.sleep(1)  # noqa: ASYNC251  # the mistake
                await client.send(QUEUE, b"1", receipt=True)

        with pytest.raises(BrokerError, match="heart-beat missing"):
            run_on_asyncio(main)


async def depth_of(broker: ThreadedBroker) -> int:
    """How many messages are in the queue, once the broker has seen that the client is gone."""
    await broker.wait_until(lambda inner: inner.statistics().open_connections == 0)
    return broker.call(lambda inner: inner.depth(QUEUE))


@pytest.mark.parametrize("by_hand", [False, True])
def test_ctrl_c_when_a_task_waits_then_keyboard_interrupt_and_the_message_goes_back(
    broker: ThreadedBroker, ctrl_c: CtrlC, by_hand: bool
) -> None:
    waiting = threading.Event()

    async def consume(client: Client) -> None:
        async with client.subscribe(QUEUE) as subscription, await anext(subscription):
            # Python sees a signal that comes just before epoll_wait() only when the loop is woken by something else.
            threading.Timer(0.05, waiting.set).start()
            await anext(subscription)

    async def main() -> None:
        if by_hand:
            client = await trio_stomp.open(broker.url)
            try:
                await client.send(QUEUE, b"1")
                await consume(client)
            finally:
                await client.aclose()
        else:
            async with trio_stomp.connect(broker.url) as client:
                await client.send(QUEUE, b"1")
                await consume(client)

    ctrl_c(waiting)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert run_on_asyncio(lambda: depth_of(broker)) == 1


@on_asyncio
async def test_closing_when_another_task_waits_then_it_gets_an_error_and_does_not_hang(broker: ThreadedBroker) -> None:
    client = await trio_stomp.open(broker.url)
    async with client.subscribe(QUEUE) as subscription:
        task = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(trio_stomp.StompError):
            await task
