"""The FastStream service: orders pass from the STOMP broker through FastStream, and invoices come back by STOMP."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tests.examples.started import DEADLINE, command_of, lines_of
from trio_stomp.errors import ConnectError
from trio_stomp.testing import AnswerConnect, Broker, ThreadedBroker

pytest.importorskip("faststream.rabbit", reason="faststream comes with the group `examples`")

from faststream import BaseMiddleware, PublishCommand, TestApp
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream_orders import FAILED, INVOICES, ORDERS, Order, make_app

TEA = b'{"item": "tea"}'
# More than the three attempts that are the default.
ATTEMPTS_THAT_FAIL = 4


@pytest.fixture
def stomp(stomp_broker_thread: ThreadedBroker) -> ThreadedBroker:
    return stomp_broker_thread


def send(stomp: ThreadedBroker, *orders: bytes) -> None:
    def publish(broker: Broker) -> None:
        for order in orders:
            broker.publish(ORDERS, order, [("content-type", "application/json")])

    stomp.call(publish)


def bodies(stomp: ThreadedBroker, queue: str) -> list[bytes]:
    return [message.body for message in stomp.call(lambda broker: broker.messages(queue))]


async def until(stomp: ThreadedBroker, queue: str, depth: int) -> None:
    """Wait until a queue holds a number of messages, while the event loop of the application goes on."""
    await asyncio.to_thread(stomp.call, lambda broker: broker.wait_until(lambda: broker.depth(queue) >= depth))


def in_time(test: Coroutine[object, object, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(DEADLINE):
            await test

    asyncio.run(limited())


@asynccontextmanager
async def service(stomp: ThreadedBroker, rabbit: RabbitBroker | None = None) -> AsyncGenerator[RabbitBroker]:
    """The service, with a stand-in for RabbitMQ."""
    rabbit = rabbit or RabbitBroker()
    app = make_app(stomp.url, rabbit)
    async with TestRabbitBroker(rabbit), TestApp(app):
        yield rabbit


def test_order_when_it_arrives_by_stomp_then_faststream_handles_it_and_its_invoice_leaves_by_stomp(
    stomp: ThreadedBroker,
) -> None:
    async def test() -> None:
        async with service(stomp):
            send(stomp, TEA)
            await until(stomp, INVOICES, 1)

    in_time(test())
    assert bodies(stomp, INVOICES) == [b"one tea"]
    assert bodies(stomp, ORDERS) == []
    stomp.call(lambda broker: broker.wait_until(lambda: broker.statistics().open_connections == 0))


def test_order_when_it_arrives_by_faststreams_broker_then_its_invoice_leaves_by_stomp(stomp: ThreadedBroker) -> None:
    async def test() -> None:
        async with service(stomp) as rabbit:
            await rabbit.publish(Order(item="tea"), "orders")

    in_time(test())
    assert bodies(stomp, INVOICES) == [b"one tea"]


def test_order_when_it_makes_no_sense_then_dead_lettered_and_the_next_one_is_handled(stomp: ThreadedBroker) -> None:
    async def test() -> None:
        async with service(stomp):
            send(stomp, b'{"thing": "tea"}', TEA)
            await until(stomp, INVOICES, 1)
            await until(stomp, FAILED, 1)

    in_time(test())
    assert bodies(stomp, FAILED) == [b'{"thing": "tea"}']
    assert bodies(stomp, ORDERS) == []


def test_order_when_faststreams_broker_is_down_then_it_waits_and_is_handled_afterward(stomp: ThreadedBroker) -> None:
    failed: list[PublishCommand] = []

    class Outage(BaseMiddleware[PublishCommand, object]):
        async def publish_scope(
            self, call_next: Callable[[PublishCommand], Awaitable[object]], cmd: PublishCommand
        ) -> object:
            if len(failed) < ATTEMPTS_THAT_FAIL:
                failed.append(cmd)
                raise ConnectionError("RabbitMQ is down")
            return await call_next(cmd)

    async def test() -> None:
        async with service(stomp, RabbitBroker(middlewares=[Outage])):
            send(stomp, TEA)
            await until(stomp, INVOICES, 1)

    in_time(test())
    assert len(failed) == ATTEMPTS_THAT_FAIL
    assert bodies(stomp, INVOICES) == [b"one tea"]
    assert bodies(stomp, FAILED) == []


def test_service_when_its_stomp_connection_is_lost_then_handles_orders_after_it(stomp: ThreadedBroker) -> None:
    async def test() -> None:
        async with service(stomp):
            await asyncio.to_thread(stomp.call, Broker.drop_connections)
            send(stomp, TEA)
            await until(stomp, INVOICES, 1)

    in_time(test())
    assert bodies(stomp, INVOICES) == [b"one tea"]


def test_service_when_its_stomp_connection_is_lost_for_good_then_ends_with_the_reason(stomp: ThreadedBroker) -> None:
    async def test() -> None:
        rabbit = RabbitBroker()
        app = make_app(stomp.url, rabbit)
        async with TestRabbitBroker(rabbit, connect_only=True):
            serving = asyncio.create_task(app.run())
            await asyncio.to_thread(stomp.call, lambda broker: broker.wait_until(lambda: broker.consumers(ORDERS) == 1))
            stomp.call(lambda broker: broker.faults.plan(AnswerConnect(error="Access refused"), connections=None))
            stomp.call(Broker.drop_connections)
            await serving

    with pytest.raises(ConnectError, match="Access refused"):
        in_time(test())


@pytest.mark.slow
def test_service_when_started_by_one_command_then_each_order_has_an_invoice() -> None:
    assert sorted(lines_of("faststream_orders.py")) == ["one cocoa", "one coffee", "one tea"]


@pytest.mark.slow
def test_service_when_stopped_then_every_order_is_invoiced_or_with_the_broker(stomp: ThreadedBroker) -> None:
    with subprocess.Popen(
        command_of("faststream_orders.py", "--url", stomp.url, "--orders", "0"), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            send(stomp, *[TEA] * 200)
            stomp.call(lambda broker: broker.wait_until(lambda: broker.depth(INVOICES) >= 20))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()

    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert len(bodies(stomp, INVOICES)) + len(bodies(stomp, ORDERS)) == 200
    stomp.call(lambda broker: broker.wait_until(lambda: broker.statistics().open_connections == 0))
