"""What is entered around the handlers of a pool, on both loops."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress

import anyio
import pytest

import trio_stomp
from trio_stomp import Client, Message, Retry, Subscription
from trio_stomp.testing import open_broker

pytestmark = pytest.mark.anyio

QUEUE, DEAD = "/queue/jobs", "/queue/dead"
AT_ONCE = Retry(attempts=2, first_delay=0)
Around = Callable[[Message], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def jobs(*bodies: str) -> AsyncGenerator[tuple[Client, Subscription]]:
    async with open_broker(listen=False) as broker, trio_stomp.connect_stream(broker.connect_stream()) as client:
        for body in bodies:
            await client.send(QUEUE, body, receipt=True)
        async with client.subscribe(QUEUE) as subscription:
            yield client, subscription


def noting(name: str, log: list[str]) -> Around:
    @asynccontextmanager
    async def manager(message: Message) -> AsyncGenerator[None]:
        log.append(f"{name} enters {message.text}")
        await anyio.lowlevel.checkpoint()
        try:
            yield
        except BaseException as error:
            log.append(f"{name} sees {type(error).__name__}")
            raise
        else:
            log.append(f"{name} leaves {message.text}")

    return manager


async def test_around_when_handlers_end_well_then_the_first_is_outermost_and_what_they_set_is_seen() -> None:
    log: list[str] = []
    session = contextvars.ContextVar[str]("session")

    @asynccontextmanager
    async def with_session(message: Message) -> AsyncGenerator[None]:
        token = session.set(f"session of {message.text}")
        try:
            yield
        finally:
            session.reset(token)

    async with jobs("1", "2") as (_, subscription):

        async def handle(message: Message) -> None:
            await anyio.lowlevel.checkpoint()
            log.append(session.get())

        around = [noting("a", log), with_session, noting("b", log)]
        with anyio.move_on_after(0.5):
            await subscription.work(handle, workers=1, around=around)
        assert log == [
            line
            for number in "12"
            for line in (
                *(f"{name} enters {number}" for name in "ab"),
                f"session of {number}",
                *(f"{name} leaves {number}" for name in "ba"),
            )
        ]


async def test_around_when_a_handler_fails_then_each_attempt_is_seen_and_the_message_is_dead_lettered() -> None:
    log: list[str] = []

    async def handle(_message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    async with jobs("1") as (client, subscription):
        with anyio.move_on_after(0.5):
            await subscription.work(handle, around=[noting("a", log)], retry=AT_ONCE, dead_letter=DEAD)
        assert log == ["a enters 1", "a sees ValueError"] * 2
        async with client.subscribe(DEAD) as dead:
            assert (await dead.receive(timeout=1)).text == "1"


async def test_around_when_it_raises_itself_then_the_message_has_failed_and_the_traceback_begins_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    handled: list[str] = []

    @asynccontextmanager
    async def broken(_message: Message) -> AsyncGenerator[None]:
        await anyio.lowlevel.checkpoint()
        if not handled:
            handled.append("entering")
            raise OSError("no database")
        yield
        if len(handled) < 3:
            raise OSError("the commit failed")

    async def handle(message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        handled.append(message.text)

    async with jobs("1") as (_, subscription):
        with anyio.move_on_after(0.5):
            await subscription.work(handle, around=[broken], retry=Retry(attempts=3, first_delay=0))
    assert handled == ["entering", "1", "1"]
    traces = [record.exc_info[2] for record in caplog.records if record.exc_info is not None]
    assert [trace.tb_frame.f_code.co_name for trace in traces if trace is not None] == ["broken", "broken"]


async def test_around_when_it_suppresses_the_exception_then_the_message_counts_as_handled() -> None:
    @asynccontextmanager
    async def lenient(_message: Message) -> AsyncGenerator[None]:
        await anyio.lowlevel.checkpoint()
        with suppress(ValueError):
            yield

    async def handle(message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError(message.text)

    async with jobs("1") as (_, subscription):
        with anyio.move_on_after(0.5):
            await subscription.work(handle, around=[lenient])
        assert subscription.statistics().unsettled == 0


async def test_around_when_the_pool_is_canceled_for_good_then_it_is_left_by_the_cancellation() -> None:
    log: list[str] = []
    async with jobs("1") as (_, subscription):
        with anyio.move_on_after(0.5):
            await subscription.work(sleep, around=[noting("a", log)], drain_timeout=0.5)
    assert log == ["a enters 1", f"a sees {anyio.get_cancelled_exc_class().__name__}"]


async def sleep(_message: Message) -> None:
    await anyio.sleep(100)


async def test_around_when_it_is_no_async_context_manager_then_the_pool_says_so_and_the_message_is_kept() -> None:
    @contextmanager
    def plain(_message: Message) -> Generator[None]:
        yield

    async def handle(message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        raise AssertionError(message)

    async with jobs("1") as (_, subscription):
        with pytest.raises(TypeError, match="asynccontextmanager"):
            await subscription.work(handle, around=[plain])  # type: ignore[list-item]  # the mistake
        assert subscription.statistics().unsettled == 1
