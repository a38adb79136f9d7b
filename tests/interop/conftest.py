"""The real brokers, started by ``scripts/brokers start``. One that is missing is skipped, and in CI a failure."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import AsyncGenerator, Generator
from typing import NoReturn

import pytest
import trio

from tests.chaos.wires import Wire, open_wire
from tests.interop.bench import Bench, Destination
from tests.interop.broker_facts import (
    BROKERS,
    SCRIPT,
    SPRING,
    Broker,
    brokers_of,
    excused,
    running_brokers,
    running_spring,
)
from tests.interop.held import HeldByBroker, held

# The queues that a test has named.
_QUEUES = pytest.StashKey[list[str]]()

# RabbitMQ keeps queues until they are deleted; `rabbitmqctl delete_queue` would take a second for each.
CLEAN_RABBITMQ = """
[rabbit_amqqueue:delete(Queue, false, false, <<"interop">>) || Queue <- rabbit_amqqueue:list(),
 {resource, _, _, Name} <- [amqqueue:get_name(Queue)],
 re:run(Name, <<"^(stomp-subscription-.*|(dlq-src[.]|reply[.])?interop[.].*|"
                "(fan-out|dead-letters)-[0-9a-f]{8}.*)$">>) =/= nomatch], ok.
"""


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Generator[dict[str, Broker]]:
    running = running_brokers()
    # The workers of pytest-xdist share the parent folder; the last one deletes the queues of all.
    base = tmp_path_factory.getbasetemp()
    using = (base if worker_id == "master" else base.parent) / "interop"
    mine = using / worker_id
    mine.mkdir(parents=True)
    yield running
    mine.rmdir()
    if not any(using.iterdir()):
        for name in brokers_of("rabbitmq"):
            if name in running and running[name].started:
                subprocess.run([SCRIPT, "ctl", name, "eval", CLEAN_RABBITMQ], check=True, capture_output=True)


def not_running(name: str) -> NoReturn:
    """Skip what needs that broker; or let it fail, unless it cannot run on this machine."""
    if excuse := excused(name):
        pytest.skip(excuse)
    reason = f"{name} does not run; start it with: scripts/brokers start {name}"
    if os.environ.get("TRIO_STOMP_REQUIRE_BROKERS"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(params=sorted(BROKERS))
def broker(request: pytest.FixtureRequest, brokers: dict[str, Broker]) -> Broker:
    """Each broker in turn."""
    name: str = request.param
    if name not in brokers:
        not_running(name)
    return brokers[name]


@pytest.fixture(scope="session")
def spring() -> str:
    """The URL of Spring's simple broker."""
    return running_spring() or not_running(SPRING)


@pytest.fixture
def queues(request: pytest.FixtureRequest) -> list[str]:
    """The queues that this test has named so far."""
    item: pytest.Item = request.node
    return item.stash.setdefault(_QUEUES, list[str]())


@pytest.fixture
def destination(queues: list[str]) -> Destination:
    """Names of this test alone, so that nothing of an earlier run is in the way."""
    unique = uuid.uuid4().hex[:12]

    def named(name: str) -> str:
        queues.append(f"/queue/interop.{unique}.{name}")
        return queues[-1]

    return named


@pytest.fixture(params=["1.0", "1.1", "1.2"])
def version(request: pytest.FixtureRequest) -> str:
    """Each version of STOMP in turn."""
    found: str = request.param
    return found


@pytest.fixture
def bench(broker: Broker, version: str, queues: list[str]) -> Bench:
    """Each broker in each version."""
    return Bench(broker=broker, version=version, queues=queues)


@pytest.fixture
def newest(broker: Broker, queues: list[str]) -> Bench:
    """Each broker in 1.2, for what depends on no version."""
    return Bench(broker=broker, version="1.2", queues=queues)


@pytest.fixture
async def wire(broker: Broker) -> AsyncGenerator[Wire]:
    """A wire to the plain port of the broker, which a test can cut."""
    async with open_wire("127.0.0.1", broker.ports["stomp"]) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop" in item.nodeid:
            item.add_marker(pytest.mark.interop)
        if isinstance(item, pytest.Function) and _cuts_artemis(item):
            # Artemis itself may hold a message back then, once in some hundred cuts: the only reason to try again.
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=[HeldByBroker.__name__]))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Ask Artemis, after a failure, whether it is the one that holds the message; only then is the test run again."""
    try:
        return (yield)
    except Exception as failure:
        named = pyfuncitem.stash.get(_QUEUES, list[str]())
        broker = pyfuncitem.funcargs.get("broker")
        if _cuts_artemis(pyfuncitem) and isinstance(broker, Broker):
            holds = trio.run(held, broker.url(), named)
            if holds:
                raise HeldByBroker(f"Artemis holds a message that no consumer has: {holds}") from failure
        raise


def _cuts_artemis(item: pytest.Function) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("broker") == "artemis" and "wire" in item.fixturenames
