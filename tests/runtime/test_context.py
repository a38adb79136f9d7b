"""Context variables, hooks and OpenTelemetry on asyncio; and the functions of the program that the client calls."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import trio_stomp
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import AuthenticationError, Hooks, Message
from trio_stomp.testing import BrokerOptions, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import ConnectionInfo, SendCallback, Sending

if TYPE_CHECKING:
    pass

QUEUE = "/queue/a"
WHO = contextvars.ContextVar("WHO", default="nobody")
HANDLED = contextvars.ContextVar("HANDLED", default="")


class Noting(Hooks):
    """Notes what it sees of the context, and sets something for the handling of a message."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        message.add_header("who", WHO.get())
        self.seen.append((message.destination, WHO.get()))
        return None

    @contextmanager
    def handling(self, peer: ConnectionInfo, message: trio_stomp.Message) -> Generator[None]:
        token = HANDLED.set(message.headers["who"])
        try:
            yield
        finally:
            HANDLED.reset(token)


@on_asyncio
async def test_context_when_tasks_send_then_hooks_see_the_context_of_each(broker: ThreadedBroker) -> None:
    hooks = Noting()

    async def send(client: trio_stomp.Client, who: str) -> None:
        WHO.set(who)
        for number in range(3):
            await client.send(f"/queue/{who}", b"%d" % number, receipt=number == 1)
            await asyncio.sleep(0)
        async with client.publisher() as publisher, client.transaction() as transaction:
            await publisher.send(f"/queue/{who}", b"p")
            await transaction.send(f"/queue/{who}", b"t")

    async with trio_stomp.connect(broker.url, hooks=hooks) as client, asyncio.TaskGroup() as tasks:
        for who in ("ada", "bob"):
            tasks.create_task(send(client, who))
    assert len(hooks.seen) == 10
    assert all(destination == f"/queue/{who}" for destination, who in hooks.seen)


@on_asyncio
async def test_context_when_a_message_is_handled_then_what_hooks_set_is_set_for_the_handler(
    broker: ThreadedBroker,
) -> None:
    seen: list[str] = []
    handled = asyncio.Event()

    async def handle(_message: Message) -> None:
        await asyncio.sleep(0)
        seen.append(HANDLED.get())
        handled.set()

    async with trio_stomp.connect(broker.url, hooks=Noting()) as client, client.subscribe(QUEUE) as queue:
        WHO.set("ada")
        await client.send(QUEUE, b"1")
        async with await anext(queue):
            seen.append(HANDLED.get())
        assert HANDLED.get() == ""
        await client.send(QUEUE, b"2")
        pool = asyncio.create_task(queue.work(handle))
        await handled.wait()
        pool.cancel()
        await asyncio.wait([pool])
    assert seen == ["ada", "ada"]


@on_asyncio
async def test_context_when_a_client_was_opened_then_it_is_as_before(broker: ThreadedBroker) -> None:
    before = dict(contextvars.copy_context())
    async with await trio_stomp.open(broker.url):
        assert dict(contextvars.copy_context()) == before


@on_asyncio
async def test_credentials_when_asked_for_then_in_the_task_that_connects() -> None:
    seen: list[str] = []

    async def credentials() -> tuple[str, str]:
        await asyncio.sleep(0)
        seen.append(WHO.get())
        return "ada", "secret"

    async def failing() -> tuple[str, str]:
        await asyncio.sleep(0)
        raise LookupError("no vault")

    WHO.set("ada")
    with run_broker_in_thread(options=BrokerOptions(logins={"ada": "secret"})) as broker:
        async with trio_stomp.connect(broker.url, credentials=credentials) as client:
            await client.send(QUEUE, b"1", receipt=True)
        assert seen == ["ada"]
        with pytest.raises(trio_stomp.ConnectError, match="no vault"):
            await trio_stomp.open(broker.url, credentials=failing)
        with pytest.raises(AuthenticationError):
            await trio_stomp.open(broker.url, login="ada", passcode="wrong")
