"""Exceptions of the program's own functions: the log keeps their traceback, and how they print breaks nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass

import pytest
import trio

import trio_stomp
from tests.client.clients import client_of
from tests.client.connecting import Credentials
from tests.kit.loops import on_loops
from trio_stomp import Client, DecodeError, Hooks, Message, Retry
from trio_stomp.testing import Broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]

Handler = Callable[[Message], Coroutine[object, object, object]]
ONCE = Retry(attempts=1)
TWICE = Retry(attempts=2, first_delay=0.01, random=lambda: 0.0)


class Unprintable(Exception):
    """Its str() and repr() raise."""

    def __str__(self) -> str:
        raise RuntimeError("no str")

    __repr__ = __str__


@dataclass(frozen=True)
class Frozen(Exception):
    """It takes no note."""

    code: int = 1


def _price(order: dict[str, int]) -> int:
    return order["price"]


async def handle(_message: Message) -> None:
    """Fail two calls deep, with a cause."""
    await trio.lowlevel.checkpoint()
    try:
        _price({})
    except KeyError as error:
        raise ValueError("no such order") from error


async def handle_in_tasks(_message: Message) -> None:
    """Fail in two tasks at once."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle, _message)
        nursery.start_soon(handle, _message)


def _raiser(error: Exception) -> Handler:
    async def failing(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return failing


async def _work_one(client: Client, handler: Handler, retry: Retry = ONCE) -> None:
    await client.send("/queue/jobs", "1", receipt=True)
    async with client.subscribe("/queue/jobs") as jobs:
        with trio.move_on_after(5):
            await jobs.work(handler, retry=retry, dead_letter="/queue/dead")


@pytest.mark.parametrize(("handler", "name"), [(handle, "handle"), (handle_in_tasks, "handle_in_tasks")])
async def test_log_when_a_handler_fails_then_each_attempt_has_its_whole_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, handler: Handler, name: str
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    await _work_one(client, handler, TWICE)
    failed = [record for record in caplog.records if "failed" in record.getMessage()]
    assert [record.levelno for record in failed] == [logging.INFO, logging.WARNING]
    for record in failed:
        text = logging.Formatter().format(record)
        assert all(each in text for each in ("Traceback", "in handle", "in _price", "KeyError", "no such order"))
        # It begins with the handler: what has called that is the same for all, and hides the rest.
        assert record.exc_info is not None
        assert record.exc_info[2] is not None
        assert record.exc_info[2].tb_frame.f_code.co_name == name


async def test_log_when_a_body_cannot_be_decoded_then_its_traceback_is_whole(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """No function of the program has run, so there is nothing to begin with."""
    await client.send("/queue/jobs", "{", content_type="application/json", receipt=True)
    async with client.subscribe("/queue/jobs", decode=json.loads) as jobs:
        with trio.move_on_after(5):
            await jobs.work(handle, retry=ONCE, dead_letter="/queue/dead")
    (record,) = caplog.records
    assert "DecodeError" in logging.Formatter().format(record)
    assert "in _handle_message" in logging.Formatter().format(record)


async def test_log_when_a_handler_fails_after_it_has_settled_then_with_its_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async def settle(message: Message) -> None:
        await message.ack()
        await handle(message)

    await _work_one(client, settle)
    (record,) = caplog.records
    assert "after it had settled" in record.getMessage()
    assert "in _price" in logging.Formatter().format(record)


@pytest.mark.parametrize("error", [Unprintable(), ExceptionGroup("some", [Unprintable(), Frozen()])])
async def test_work_when_an_exception_cannot_be_printed_then_its_message_is_dead_lettered_and_the_pool_goes_on(
    broker: Broker, client: Client, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    await _work_one(client, _raiser(error), TWICE)
    await _work_one(client, _raiser(error), TWICE)
    assert (broker.depth("/queue/jobs"), broker.depth("/queue/dead")) == (0, 2)
    assert caplog.text.count("in failing") >= 4


@pytest.mark.parametrize("error", [Unprintable(), Frozen()])
async def test_work_when_there_is_no_dead_letter_then_that_same_exception_is_raised(error: Exception) -> None:
    async with client_of("RabbitMQ/3.13") as (client, _):
        await client.send("/queue/jobs", "1", receipt=True)
        async with client.subscribe("/queue/jobs") as jobs:
            with pytest.raises(type(error)) as caught:
                await jobs.work(_raiser(error), retry=ONCE)
    assert caught.value is error


class Odd:
    """A handler whose repr() raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    async def __call__(self, _message: Message) -> None:
        await trio.lowlevel.checkpoint()


async def test_value_when_the_decoder_raises_something_that_cannot_be_printed_then_decode_error(client: Client) -> None:
    def decode(_body: bytes) -> object:
        raise Unprintable

    await client.send("/queue/a", "1")
    async with client.subscribe("/queue/a", decode=decode) as subscription:
        async with await anext(subscription) as message:
            with pytest.raises(DecodeError, match=r"decode: Unprintable: <Unprintable, whose str\(\) fails>"):
                _ = message.value


async def test_connect_when_credentials_raise_something_that_cannot_be_printed_then_connect_error(
    broker: Broker,
) -> None:
    with pytest.raises(trio_stomp.ConnectError, match="credentials= failed"):
        async with trio_stomp.connect_stream(broker.connect_stream(), credentials=Credentials(Unprintable())):
            pass


async def test_work_when_the_error_of_a_hook_and_the_handler_cannot_be_printed_then_it_works(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Hooks):
        def received(self, peer: object, message: Message) -> None:
            raise Unprintable

    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Broken()) as client:
        await _work_one(client, Odd())
    assert "the hook" in caplog.text
    assert (broker.depth("/queue/jobs"), broker.depth("/queue/dead")) == (0, 0)


async def test_send_when_a_body_raises_something_that_cannot_be_printed_then_it_is_raised(broker: Broker) -> None:
    async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
        await trio.lowlevel.checkpoint()
        yield b"1"
        raise Unprintable

    with pytest.raises(Unprintable):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            await client.send("/queue/a", pieces(), content_length=2)
