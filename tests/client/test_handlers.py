"""work() with a handler of the wrong kind: refused when it is called, before any message is taken."""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from tests.kit.loops import on_loops
from trio_stomp import Client, Message

pytestmark = [pytest.mark.anyio, on_loops("trio")]


class Service:
    """Its methods are of all kinds; called, it is itself a plain function."""

    def __init__(self) -> None:
        self.handled: list[str] = []

    def plain(self, message: Message) -> None:
        self.handled.append(message.text)

    async def right(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        self.handled.append(message.text)

    def wrapped(self, message: Message) -> object:
        return self.right(message)

    def generates(self, message: Message) -> Iterator[str]:
        yield message.text

    async def generates_async(self, message: Message) -> AsyncIterator[str]:  # noqa: ASYNC900  # what a program sends
        await trio.lowlevel.checkpoint()
        yield message.text

    def __call__(self, message: Message) -> None:
        self.handled.append(message.text)


class RightService(Service):
    """A callable object that is async."""

    async def __call__(self, message: Message) -> None:  # type: ignore[override]  # the other kind
        await self.right(message)


def plain(message: Message) -> None:
    """Return at several places, and never a value."""
    if message.text == "1":
        return
    with open("/nowhere"):  # noqa: PTH123  # never called
        return


SERVICE = Service()
WRONG: dict[str, object] = {
    "function": plain,
    "method": SERVICE.plain,
    "partial": functools.partial(plain),
    "partial of a method": functools.partial(functools.partial(Service.plain, SERVICE)),
    "object": SERVICE,
    "generator": SERVICE.generates,
    "async generator": SERVICE.generates_async,
    "returns an awaitable": SERVICE.wrapped,
    "lambda": lambda _message: None,  # pyright: ignore[reportUnknownLambdaType]  # of any message
    "no function": "handle",
}


@pytest.mark.parametrize("name", WRONG)
async def test_work_when_the_handler_is_not_async_then_type_error_with_an_idle_queue(client: Client, name: str) -> None:
    says = r"is not async.*async def.*anyio\.to_thread\.run_sync|needs an async function"
    async with client.subscribe("/queue/idle") as jobs:
        with pytest.raises(TypeError, match=says), trio.fail_after(1):
            await jobs.work(WRONG[name])  # type: ignore[arg-type]  # the mistake
    assert SERVICE.handled == []


def _right(service: RightService) -> dict[str, object]:
    return {
        "method": service.right,
        "partial": functools.partial(RightService.right, service),
        "object": service,
    }


async def test_work_when_given_what_an_async_function_returns_then_error_says_what_to_write(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    async def handle(_message: object) -> None: ...

    async with client.subscribe("/queue/idle") as jobs:
        with pytest.raises(TypeError, match=r"write work\(handle\), not work\(handle\(\.\.\.\)\)"), trio.fail_after(1):
            await jobs.work(handle(None))  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("name", _right(RightService()))
async def test_work_when_the_handler_is_async_of_any_kind_then_it_is_awaited(client: Client, name: str) -> None:
    service = RightService()
    await client.send("/queue/jobs", "1", receipt=True)
    async with client.subscribe("/queue/jobs") as jobs:
        with trio.move_on_after(1):
            await jobs.work(_right(service)[name])  # type: ignore[arg-type]  # of many kinds
    assert service.handled == ["1"]


async def test_work_when_the_handler_is_no_python_function_then_its_first_message_shows_whether_it_is_async(
    client: Client,
) -> None:
    await client.send("/queue/jobs", "1", receipt=True)
    async with client.subscribe("/queue/jobs") as jobs:
        with pytest.raises(TypeError, match="it returned str"), trio.fail_after(1):
            await jobs.work(operator.attrgetter("text"))
    async with client.subscribe("/queue/jobs") as jobs:
        with trio.move_on_after(1):
            await jobs.work(operator.methodcaller("ack"))
    async with client.subscribe("/queue/jobs", browse=True) as left:
        assert [message.text async for message in left] == []
