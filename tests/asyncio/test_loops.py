"""Event loops of several kinds, in several threads, blocked or interrupted; and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import trio_stomp.asyncio
from tests.kit.ctrl_c import CtrlC
from tests.kit.on_asyncio import on_asyncio, run_on_asyncio
from trio_stomp import OutgoingMessage
from trio_stomp.asyncio import Message
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread

QUEUE = "/queue/a"
ROOT = Path(__file__).resolve().parents[2]

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
    async with trio_stomp.asyncio.connect(url) as client:
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
            batch = await subscription.receive_batch(20, linger=1)
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


def test_client_when_used_from_several_loops_then_each_task_gets_its_own(broker: ThreadedBroker) -> None:
    async def use(client: trio_stomp.asyncio.Client, queue: str) -> list[bytes]:
        async with client.subscribe(queue) as subscription:
            for number in range(50):
                await client.send(queue, b"%d" % number)
            await client.send(queue, b"50", receipt=True)
            taken: list[bytes] = []
            while len(taken) < 51:
                async with await anext(subscription) as message:
                    taken.append(message.body)
            return taken

    client = run_on_asyncio(lambda: trio_stomp.asyncio.open(broker.url))
    with ThreadPoolExecutor(3) as threads:
        done = [
            threads.submit(run_on_asyncio, lambda number=number: use(client, f"/queue/{number}")) for number in range(3)
        ]
        assert [each.result() for each in done] == [[b"%d" % number for number in range(51)]] * 3
    run_on_asyncio(client.aclose)


@pytest.mark.slow
def test_heart_beats_when_the_loop_is_blocked_then_go_on() -> None:
    options = BrokerOptions(heart_beat=(0.1, 0.1), heart_beat_grace=2)
    with run_broker_in_thread(options=options) as broker:

        async def main() -> None:
            async with trio_stomp.asyncio.connect(broker.url, heart_beat=(0.1, 0.1)) as client:
                assert client.heart_beat.client_sends_ms == 100
                before = broker.call(Broker.statistics).open_connections
                # Ten times as long as the broker waits for a heart-beat.
                threading.Event().wait(2)
                assert broker.call(Broker.statistics).open_connections == before == 1
                await client.send(QUEUE, b"1", receipt=True)

        run_on_asyncio(main)


@pytest.mark.slow
def test_heart_beats_when_there_are_none_then_the_broker_of_that_test_gives_the_client_up() -> None:
    options = BrokerOptions(heart_beat=(0.1, 0.1), heart_beat_grace=2)
    with run_broker_in_thread(options=options) as broker:
        program = f"""
            import trio, trio_stomp, threading
            async def main():
                async with trio_stomp.connect({broker.url!r}, heart_beat=(0.1, 0.1)) as client:
                    threading.Event().wait(2)
                    await client.send("/queue/a", b"1", receipt=True)
            trio.run(main)
        """
        done = run_program(program)
    assert "heart-beat missing" in done.stderr


@pytest.mark.parametrize("by_hand", [False, True])
def test_ctrl_c_when_a_task_waits_then_keyboard_interrupt_and_the_message_goes_back(
    broker: ThreadedBroker, ctrl_c: CtrlC, by_hand: bool
) -> None:
    waiting = threading.Event()

    async def consume(client: trio_stomp.asyncio.Client) -> None:
        async with client.subscribe(QUEUE) as subscription, await anext(subscription):
            waiting.set()
            await anext(subscription)

    async def main() -> None:
        if by_hand:
            client = await trio_stomp.asyncio.open(broker.url)
            try:
                await client.send(QUEUE, b"1")
                await consume(client)
            finally:
                await client.aclose()
        else:
            async with trio_stomp.asyncio.connect(broker.url) as client:
                await client.send(QUEUE, b"1")
                await consume(client)

    ctrl_c(waiting)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert broker.call(lambda inner: inner.depth(QUEUE)) == 1
    assert all(thread.name != "trio_stomp" for thread in threading.enumerate())


def test_loop_when_closed_with_a_task_that_waits_then_its_call_is_canceled(broker: ThreadedBroker) -> None:
    client = run_on_asyncio(lambda: trio_stomp.asyncio.open(broker.url))
    loop = asyncio.new_event_loop()
    task = loop.create_task(client.wait_closed())
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    # As by a program that forgets its task; asyncio would say so in the log.
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # see above
    loop.close()
    del task
    gc.collect()

    # Closing waits a second for calls that are under way; this one is not.
    run_on_asyncio(client.aclose)
    assert client.state.phase.value == "closed"


@on_asyncio
async def test_closing_when_another_task_waits_then_it_gets_an_error_and_does_not_hang(broker: ThreadedBroker) -> None:
    client = await trio_stomp.asyncio.open(broker.url)
    async with client.subscribe(QUEUE) as subscription:
        task = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(trio_stomp.StompError):
            await task


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
