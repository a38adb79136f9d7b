"""What a code block of the manual may need around it: a program to stand in, messages that wait, a way to end.

A block without a set-up is a complete program: it runs to its end against an embedded broker of its own.
"""

import signal
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trio_stomp.testing import Broker, BrokerOptions, DropLink

__all__ = ["COMPLETE", "SETUPS", "Setup"]

_MARK = "# BLOCK"

_IN_MAIN = """\
import json
import logging
import ssl

import trio
import trio_stomp


async def handle(order: object) -> None:
    await trio.lowlevel.checkpoint()


async def main() -> None:
    async with trio_stomp.connect("stomp://guest:guest@localhost:61613") as client:
        # BLOCK


trio.run(main)
"""

_SYNCHRONOUS = """\
import trio_stomp.blocking

with trio_stomp.blocking.connect("stomp://guest:guest@localhost:61613") as client:
    # BLOCK
"""

_ON_ASYNCIO = """\
import asyncio

import trio_stomp


async def main() -> None:
    # BLOCK


asyncio.run(main())
"""

_ASYNCIO_CLIENT = _ON_ASYNCIO.replace(
    "    # BLOCK",
    """\
    async with trio_stomp.connect("stomp://guest:guest@localhost:61613") as client:
        # BLOCK""",
)

_WITH_MESSAGE = _IN_MAIN.replace(
    "        # BLOCK",
    """\
        async with client.subscribe("/queue/orders") as orders:
            message = await anext(orders)
            # BLOCK""",
)

_IN_SUBSCRIPTION = _IN_MAIN.replace(
    "        # BLOCK",
    """\
        async with client.subscribe("/queue/orders") as orders:
            # BLOCK""",
)

# A request to each of the pages' web applications, through the test client of its framework.
_IN_FLASK = """\
# BLOCK


pages = app.test_client()
assert pages.get("/ready").status_code == 200
assert pages.post("/orders", data="tea").status_code == 202
broker.close()
"""

_IN_FASTAPI = """\
# BLOCK


import http.client
import socket
import threading

import uvicorn

with socket.create_server(("127.0.0.1", 0)) as listener:
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    for method, path, order, expected in (
        ("GET", "/ready", None, 200),
        ("POST", "/orders", '{"customer": "ann", "item": "tea", "count": 2}', 202),
        ("POST", "/orders", "tea", 422),
    ):
        pages = http.client.HTTPConnection(*listener.getsockname())
        pages.request(method, path, order, {"content-type": "application/json"})
        assert pages.getresponse().status == expected
        pages.close()
    server.should_exit = True
    thread.join()
"""

_IN_AIOHTTP = """\
# BLOCK


async def main() -> None:
    from aiohttp.test_utils import TestClient, TestServer

    async with TestClient(TestServer(make_app())) as pages:
        assert (await pages.get("/ready")).status == 200
        assert (await pages.post("/orders", data="tea")).status == 202


asyncio.run(main())
"""

_IN_LITESTAR = """\
# BLOCK

from litestar.testing import TestClient

with TestClient(app=app) as pages:
    assert pages.post("/orders", content="tea").status_code == 202
"""

_IN_DURABLE = _IN_MAIN.replace(
    "        # BLOCK",
    """\
        async with client.subscribe("/topic/news", durable="news-reader"):
            pass
        await client.send("/topic/news", "published while nobody was there", receipt=True)
        # BLOCK""",
)


def _drained(broker: Broker) -> bool:
    return broker.depth("/queue/orders") == 0 and broker.unacknowledged("/queue/orders") == 0


def _drop_late(broker: Broker) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=600), connections=None)


def _drop_twice(broker: Broker) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=600), connections=2)


def _put_aside(broker: Broker) -> None:
    for order, error, message, attempts in (
        ("tea", "builtins.ConnectionError", "the shop does not answer", "3"),
        ("unicorn", "builtins.LookupError", "no such thing", "1"),
    ):
        cause = [("x-error-type", error), ("x-error-message", message), ("x-attempts", attempts)]
        broker.publish("/queue/orders.failed", order, [("x-original-destination", "/queue/orders"), *cause])


def _order_tea(broker: Broker) -> None:
    for customer in range(20):
        broker.publish("/queue/orders", '{"item": "tea", "count": 2}', [("customer", str(customer % 3))])


def _no_faults(_broker: Broker) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How to run a block.

    Attributes:
        program: The program to put the block in, at the line that says so.
        orders: How many orders wait in /queue/orders.
        prepare: What to do with the broker first.
        until: A program that goes on for ever is sent `ends_by` as soon as this holds.
        ends_by: That signal.
        status: How the program then ends, as `subprocess` counts.
        says: What it writes to its standard error output then.
        tls: The broker speaks TLS alone, and demands a client certificate.
        websocket: The broker speaks STOMP over WebSocket alone, at localhost:15674.
        unix_socket: The broker listens at /run/broker.sock alone.
        proxy: A SOCKS5 proxy at localhost:1080 knows the user ann, and the broker as broker.internal.
        pytest: The block is a test module.
        beside: The name of a file, beside the program, that has what the block above it has.
        trio_mode: Its async tests run on Trio, whatever marks they have.
        needs: Modules that it imports and that not every environment for the tests has.
        options: The settings of the broker.
    """

    program: str = _MARK
    orders: int = 0
    prepare: Callable[[Broker], None] = _no_faults
    until: Callable[[Broker], bool] | None = None
    ends_by: signal.Signals = signal.SIGINT
    status: int = 0
    says: str = ""
    tls: bool = False
    websocket: bool = False
    unix_socket: bool = False
    proxy: bool = False
    pytest: bool = False
    beside: str | None = None
    trio_mode: bool = True
    needs: tuple[str, ...] = ()
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def source(self, block: str) -> str:
        """The program that runs the block."""
        head, _, tail = self.program.partition(_MARK)
        before, newline, margin = head.rpartition("\n")
        return before + newline + textwrap.indent(block, margin) + tail


COMPLETE = Setup()

SETUPS: Mapping[str, Setup] = {
    # A fragment for the inside of connect(): `client` is there.
    "client": Setup(program=_IN_MAIN, orders=5),
    # The same for synchronous code.
    "synchronous client": Setup(program=_SYNCHRONOUS, orders=5),
    # The same for asyncio code, without a client and with one.
    "asyncio": Setup(program=_ON_ASYNCIO),
    "asyncio client": Setup(program=_ASYNCIO_CLIENT, orders=5),
    # ... and of a subscription: `orders` is there.
    "orders": Setup(program=_IN_SUBSCRIPTION, orders=5),
    # ... and the first of its messages: `message`.
    "message": Setup(program=_WITH_MESSAGE, orders=5),
    # A complete program that expects orders in the queue.
    "queued orders": Setup(orders=20),
    # A complete program that consumes for ever: Ctrl-C ends it once the orders are done.
    "worker": Setup(orders=20, until=_drained, status=-signal.SIGINT),
    "pool of workers": Setup(orders=20, until=_drained, status=-signal.SIGINT, says="KeyboardInterrupt\n"),
    # The same where a nursery of the program puts the KeyboardInterrupt into a group, which Python reports by status 1.
    "pool of tasks": Setup(orders=20, until=_drained, status=1, says="KeyboardInterrupt\n"),
    # The same for synchronous code: Python ends a program that Ctrl-C has interrupted by that very signal.
    "pool of threads": Setup(orders=20, until=_drained, status=-signal.SIGINT, says="KeyboardInterrupt\n"),
    # The same for a program that knows how to end: SIGTERM, and it leaves in order.
    "graceful worker": Setup(orders=20, until=_drained, ends_by=signal.SIGTERM),
    # The broker breaks every link after a few frames.
    "link that breaks": Setup(orders=20, prepare=_drop_late),
    # The broker breaks the first two links after a few frames.
    "links that break": Setup(orders=20, prepare=_drop_twice),
    # The broker speaks TLS on localhost:61614 and knows its clients by their certificates.
    "tls": Setup(tls=True),
    # The broker speaks WebSocket on localhost:15674, and takes the page of the shop.
    "websocket": Setup(websocket=True, options=BrokerOptions(websocket_origins=["https://shop.example"])),
    # The broker listens at /run/broker.sock.
    "unix socket": Setup(unix_socket=True),
    # The broker is broker.internal, which a proxy at localhost:1080 knows.
    "proxy": Setup(proxy=True),
    # A web application, with what it needs.
    "flask": Setup(program=_IN_FLASK, needs=("flask",)),
    "fastapi": Setup(program=_IN_FASTAPI, needs=("fastapi", "uvicorn")),
    "aiohttp": Setup(program=_IN_AIOHTTP, needs=("aiohttp",)),
    "litestar": Setup(program=_IN_LITESTAR, needs=("litestar",)),
    # A test module, run by pytest.
    "pytest": Setup(pytest=True),
    "pytest on asyncio": Setup(pytest=True, trio_mode=False),
    "pytest-asyncio": Setup(pytest=True, trio_mode=False, needs=("pytest_asyncio",)),
    # The worker of the tutorial, and its tests.
    "order worker": Setup(prepare=_order_tea, until=_drained, ends_by=signal.SIGTERM),
    "tests of worker.py": Setup(pytest=True, trio_mode=False, beside="worker.py", needs=("pytest_asyncio",)),
    # The broker says that it is another one, and gets the headers of that one.
    "rabbitmq": Setup(program=_IN_MAIN, options=BrokerOptions(server="RabbitMQ/3.10.8")),
    "activemq": Setup(program=_IN_MAIN, options=BrokerOptions(server="ActiveMQ/6.1.8")),
    "artemis": Setup(program=_IN_MAIN, options=BrokerOptions(server="ActiveMQ-Artemis/2.44.0")),
    # ... as a complete program.
    "activemq program": Setup(options=BrokerOptions(server="ActiveMQ/6.1.8")),
    # Queues are full with three messages; like ActiveMQ, the broker refuses the next one and goes on.
    "full queue": Setup(
        program=_IN_MAIN,
        options=BrokerOptions(max_queue_length=3, errors_leave_open=True, server="ActiveMQ/6.1.8"),
    ),
    # Two messages that failed wait in /queue/orders.failed.
    "dead letters": Setup(program=_IN_MAIN, prepare=_put_aside),
    # A durable subscription that has something to tell.
    "durable": Setup(program=_IN_DURABLE),
    # The broker knows one user.
    "login": Setup(options=BrokerOptions(logins={"guest": "guest"})),
}
