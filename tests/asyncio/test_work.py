"""Worker pools whose handlers run on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

import trio_stomp.asyncio
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import LocalProtocolError, Retry
from trio_stomp.asyncio import Client, Message, Subscription
from trio_stomp.testing import ThreadedBroker

QUEUE = "/queue/a"


@asynccontextmanager
async def subscribed(broker: ThreadedBroker, *numbers: int) -> AsyncGenerator[tuple[Client, Subscription]]:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        for number in numbers:
            await client.send(QUEUE, b"%d" % number, headers={"key": str(number % 2)})
        await client.send("/queue/after", b"", receipt=True)
        async with client.subscribe(QUEUE) as subscription:
            yield client, subscription


def depth(broker: ThreadedBroker, queue: str = QUEUE) -> int:
    return broker.call(lambda inner: inner.depth(queue))


@on_asyncio
async def test_work_when_cancelled_then_running_handlers_finish_and_their_messages_are_acknowledged(
    broker: ThreadedBroker,
) -> None:
    begun, finished = asyncio.Event(), list[bytes]()
    go_on = asyncio.Event()

    async def handle(message: Message) -> None:
        begun.set()
        await go_on.wait()
        finished.append(message.body)

    async with subscribed(broker, 0, 1, 2) as (client, subscription):
        pool = asyncio.create_task(subscription.work(handle, workers=1))
        await begun.wait()
        pool.cancel()
        await asyncio.sleep(0)
        # Sent later than the cancellation, which has come to the trio thread when this is confirmed.
        await client.send("/queue/after", b"", receipt=True)
        assert not pool.done()
        go_on.set()
        await asyncio.wait([pool])
        assert pool.cancelled()
    assert finished == [b"0"]
    assert depth(broker) == 2


@on_asyncio
async def test_work_when_a_handler_takes_too_long_to_stop_then_cancelled_and_redelivered(
    broker: ThreadedBroker,
) -> None:
    begun, cancelled = asyncio.Event(), list[bytes]()

    async def handle(message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message.body)
            raise

    async with subscribed(broker, 0) as (_, subscription):
        pool = asyncio.create_task(subscription.work(handle, drain_timeout=0.01))
        await begun.wait()
        pool.cancel()
        await asyncio.wait([pool])
        assert pool.cancelled()
    assert cancelled == [b"0"]
    assert depth(broker) == 1


@on_asyncio
async def test_work_when_a_handler_fails_then_retried_and_put_aside(broker: ThreadedBroker) -> None:
    attempts: list[int] = []
    key_of: list[bytes] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        attempts.append(len(attempts))
        raise ValueError("mine")

    def key(message: Message) -> str:
        key_of.append(message.body)
        return message.headers["key"]

    async with subscribed(broker, 0) as (client, subscription), client.subscribe("/queue/dead") as dead:
        retry = Retry(attempts=3, first_delay=0)
        pool = asyncio.create_task(subscription.work(handle, key=key, retry=retry, dead_letter=lambda _: "/queue/dead"))
        async with await anext(dead) as message:
            assert message.headers["x-error-message"] == "mine"
            assert message.headers["x-attempts"] == "3"
        pool.cancel()
        await asyncio.wait([pool])
    assert attempts == [0, 1, 2]
    assert key_of == [b"0"]
    assert depth(broker) == 0


@on_asyncio
async def test_work_when_a_handler_settles_by_itself_then_its_choice_counts(broker: ThreadedBroker) -> None:
    handled = asyncio.Event()

    async def handle(message: Message) -> None:
        await message.ack()
        handled.set()
        raise ValueError("after the ACK")

    async with subscribed(broker, 0) as (_, subscription):
        pool = asyncio.create_task(subscription.work(handle))
        await handled.wait()
        pool.cancel()
        await asyncio.wait([pool])
    assert depth(broker) == 0


@on_asyncio
async def test_work_when_there_is_nowhere_to_put_a_message_then_its_error_is_raised(broker: ThreadedBroker) -> None:
    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    async with trio_stomp.asyncio.connect(broker.url, profile="rabbitmq") as client:
        await client.send(QUEUE, b"1")
        async with client.subscribe(QUEUE) as subscription:
            with pytest.raises(ValueError, match="mine"):
                await subscription.work(handle, retry=Retry(attempts=1))


@on_asyncio
async def test_work_when_a_handler_is_cancelled_by_somebody_else_then_the_pool_ends_and_the_message_stays(
    broker: ThreadedBroker,
) -> None:
    async def handle(_message: Message) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with subscribed(broker, 0) as (_, subscription):
        with pytest.raises(asyncio.CancelledError):
            await subscription.work(handle)
    assert depth(broker) == 1


@on_asyncio
async def test_work_when_messages_are_left_over_from_iterating_then_refused(broker: ThreadedBroker) -> None:
    async def handle(_message: Message) -> None:  # noqa: ASYNC124  # a handler has to be async
        raise AssertionError

    async with subscribed(broker, 0, 1) as (client, subscription):
        # The broker has delivered both before it confirms this.
        await client.send("/queue/after", b"", receipt=True)
        async with await anext(subscription):
            pass
        with pytest.raises(LocalProtocolError, match="1 messages are left over"):
            await subscription.work(handle)


@on_asyncio
async def test_work_when_the_handler_is_not_async_then_type_error_and_the_message_stays(broker: ThreadedBroker) -> None:
    def handle(_message: Message) -> None:
        """Return nothing that can be awaited."""

    async with subscribed(broker, 0) as (_, subscription):
        with pytest.raises(TypeError, match=r"asyncio\.to_thread"):
            await subscription.work(handle)  # type: ignore[arg-type]  # the mistake
    assert depth(broker) == 1
